package sim_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
)

// pods is a client of the pods of a namespace on a server of its own.
func pods(t *testing.T) (typedcore.PodInterface, kubernetes.Interface) {
	t.Helper()
	cfg := simulated(t)
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	c, err := kubernetes.NewForConfig(cfg)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return c.CoreV1().Pods("ns"), c
}

func podNamed(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}},
	}
}

func label(ctx context.Context, c typedcore.PodInterface, pod, value string) (*corev1.Pod, error) {
	return c.Patch(ctx, pod, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"l":%s}}}`, value), metav1.PatchOptions{})
}

func TestADeleteForAnotherStateDeletesNothing(t *testing.T) {
	g, c := NewWithT(t), first(pods(t))
	p, err := c.Create(t.Context(), podNamed("p", nil), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	other, old := types.UID("other"), p.ResourceVersion
	_, err = label(t.Context(), c, "p", `"1"`)
	g.Expect(err).NotTo(HaveOccurred())
	for _, wrong := range []metav1.Preconditions{{UID: &other}, {UID: &p.UID, ResourceVersion: &old}} {
		err := c.Delete(t.Context(), "p", metav1.DeleteOptions{Preconditions: &wrong})
		g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
	}
	g.Expect(c.Delete(t.Context(), "p", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})).To(Succeed())
	_, err = c.Get(t.Context(), "p", metav1.GetOptions{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
}

func first[A, B any](a A, _ B) A { return a }

func TestTwoManagersOwnWhatTheyApplyAndAConflictNamesTheOther(t *testing.T) {
	g, c := NewWithT(t), first(pods(t))
	apply := func(manager string, force bool, labels map[string]string) (*corev1.Pod, error) {
		return c.Apply(t.Context(), corev1ac.Pod("p", "ns").WithLabels(labels).WithSpec(corev1ac.PodSpec().
			WithContainers(corev1ac.Container().WithName("main").WithImage("image"))), metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	_, err := apply("alice", false, map[string]string{"a": "1", "both": "1"})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = apply("bob", false, map[string]string{"both": "2"})
	g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
	g.Expect(err).To(MatchError(ContainSubstring(`conflict with "alice"`)))
	p, err := apply("bob", true, map[string]string{"b": "1", "both": "2"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.Labels).To(Equal(map[string]string{"a": "1", "b": "1", "both": "2"}))
	p, err = apply("alice", false, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.Labels).To(Equal(map[string]string{"b": "1", "both": "2"}), "what alice leaves out goes, if it is hers alone")
	again, err := apply("alice", false, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.ResourceVersion).To(Equal(p.ResourceVersion), "what changes nothing is not written")
}

func TestAWriteNeverChangesWhatSomebodyReads(t *testing.T) {
	g, c := NewWithT(t), first(pods(t))
	_, err := c.Create(t.Context(), podNamed("p", nil), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs { // the race detector looks on
		all.Go(func() {
			for n := range 50 {
				var err error
				switch i % 4 {
				case 0:
					_, err = label(t.Context(), c, "p", strconv.Quote(fmt.Sprint(n)))
				case 1:
					_, err = c.Apply(t.Context(), corev1ac.Pod("p", "ns").WithAnnotations(map[string]string{fmt.Sprint("a", i): fmt.Sprint(n)}),
						metav1.ApplyOptions{FieldManager: fmt.Sprint("m", i)})
				case 2:
					_, err = c.ApplyStatus(t.Context(), corev1ac.Pod("p", "ns").WithStatus(corev1ac.PodStatus().WithMessage(fmt.Sprint(n))),
						metav1.ApplyOptions{FieldManager: "kubelet", Force: true})
				case 3:
					_, err = c.List(t.Context(), metav1.ListOptions{LabelSelector: "l"})
				}
				if err != nil {
					errs[i] = err
				}
			}
		})
	}
	all.Wait()
	g.Expect(errs).To(HaveEach(BeNil()))
	p, err := c.Get(t.Context(), "p", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.Annotations).To(Equal(map[string]string{"a1": "49", "a5": "49"}))
}

// versionOf is the version of an object in an event.
func versionOf(g Gomega, e watch.Event) uint64 {
	n, err := strconv.ParseUint(e.Object.(metav1.Object).GetResourceVersion(), 10, 64)
	g.Expect(err).NotTo(HaveOccurred())
	return n
}

func TestAWatchThatIsResumedHasNoGapAndNothingTwice(t *testing.T) {
	g, c := NewWithT(t), first(pods(t))
	const writers, writes = 4, 40
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			name := fmt.Sprint("p", i)
			_, err := c.Create(t.Context(), podNamed(name, nil), metav1.CreateOptions{})
			for n := range writes {
				if err == nil {
					_, err = label(t.Context(), c, name, strconv.Quote(fmt.Sprint(n)))
				}
			}
			if err == nil {
				err = c.Delete(t.Context(), name, metav1.DeleteOptions{})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	var seen []uint64
	from := "1"
	for broken := 0; len(seen) < writers*(writes+2); broken++ {
		w, err := c.Watch(t.Context(), metav1.ListOptions{ResourceVersion: from})
		g.Expect(err).NotTo(HaveOccurred())
		for n := 0; n <= broken && len(seen) < writers*(writes+2); n++ {
			e := <-w.ResultChan()
			g.Expect(e.Type).NotTo(Equal(watch.Error), "%v", e.Object)
			seen = append(seen, versionOf(g, e))
			from = fmt.Sprint(seen[len(seen)-1])
		}
		w.Stop()
	}
	all.Wait()
	for i, version := range seen { // nothing else is written on this server
		g.Expect(version).To(Equal(uint64(i + 2)))
	}
}

func TestAWatchFromBeforeWhatIsKeptIsRefused(t *testing.T) {
	g, c := NewWithT(t), first(pods(t))
	_, err := c.Create(t.Context(), podNamed("p", nil), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for n := range 300 {
		_, err := label(t.Context(), c, "p", strconv.Quote(fmt.Sprint(n)))
		g.Expect(err).NotTo(HaveOccurred())
	}
	w, err := c.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "2"})
	g.Expect(err).NotTo(HaveOccurred())
	defer w.Stop()
	e := <-w.ResultChan()
	g.Expect(e.Type).To(Equal(watch.Error))
	g.Expect(apierrors.IsResourceExpired(apierrors.FromObject(e.Object))).To(BeTrue(), "%v", e.Object)
	_, err = c.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "99999"})
	g.Expect(apierrors.IsTimeout(err)).To(BeTrue(), "%v", err)
}

func TestAWatchShowsWhatComesIntoASelectionAndWhatLeavesIt(t *testing.T) {
	g, c := NewWithT(t), first(pods(t))
	w, err := c.Watch(t.Context(), metav1.ListOptions{LabelSelector: "l", FieldSelector: "metadata.name=p", ResourceVersion: "1"})
	g.Expect(err).NotTo(HaveOccurred())
	defer w.Stop()
	_, err = c.Create(t.Context(), podNamed("other", map[string]string{"l": "1"}), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = c.Create(t.Context(), podNamed("p", nil), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	var versions []string
	for _, value := range []string{`"1"`, `"2"`, "null", `"3"`} {
		p, err := label(t.Context(), c, "p", value)
		g.Expect(err).NotTo(HaveOccurred())
		versions = append(versions, p.ResourceVersion)
	}
	g.Expect(c.Delete(t.Context(), "p", metav1.DeleteOptions{})).To(Succeed())
	for i, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Added, watch.Deleted} {
		e := <-w.ResultChan()
		g.Expect(e.Type).To(Equal(want))
		g.Expect(e.Object.(*corev1.Pod).Labels).To(HaveKey("l"), "it is shown as it was when it was selected")
		if i < len(versions) {
			g.Expect(e.Object.(*corev1.Pod).ResourceVersion).To(Equal(versions[i]))
		}
	}
}

func TestAWatchBeginsWithWhatThereIsAndMarksTheEnd(t *testing.T) {
	g, c := NewWithT(t), first(pods(t))
	for _, name := range []string{"b", "a"} {
		_, err := c.Create(t.Context(), podNamed(name, nil), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	yes := true
	w, err := c.Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	g.Expect(err).NotTo(HaveOccurred())
	defer w.Stop()
	var names []string
	for range 2 {
		e := <-w.ResultChan()
		g.Expect(e.Type).To(Equal(watch.Added))
		names = append(names, e.Object.(*corev1.Pod).Name)
	}
	g.Expect(names).To(Equal([]string{"a", "b"}))
	e := <-w.ResultChan()
	g.Expect(e.Type).To(Equal(watch.Bookmark))
	g.Expect(e.Object.(*corev1.Pod).Annotations).To(HaveKey(metav1.InitialEventsAnnotationKey))
	g.Expect(versionOf(g, e)).To(Equal(uint64(3)))
}

func TestMetadataAloneIsReadListedAndWatched(t *testing.T) {
	g, cfg := NewWithT(t), simulated(t)
	core, err := kubernetes.NewForConfig(cfg)
	g.Expect(err).NotTo(HaveOccurred())
	m, err := metadata.NewForConfig(cfg)
	g.Expect(err).NotTo(HaveOccurred())
	made, err := core.CoreV1().Pods("ns").Create(t.Context(), podNamed("p", map[string]string{"l": "1"}), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	c := m.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("ns")
	one, err := c.Get(t.Context(), "p", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(one.ObjectMeta).To(Equal(made.ObjectMeta))
	all, err := c.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.Items).To(HaveLen(1))
	g.Expect(all.ResourceVersion).To(Equal(made.ResourceVersion))
	w, err := c.Watch(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	defer w.Stop()
	e := <-w.ResultChan()
	g.Expect(e.Object.(*metav1.PartialObjectMetadata).UID).To(Equal(made.UID))
}

func TestTheOldestEventsGoWhenThereAreTooMany(t *testing.T) {
	g := NewWithT(t)
	_, core := pods(t)
	c := core.EventsV1().Events("ns")
	for n := range 203 {
		_, err := c.Create(t.Context(), &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("e-%04d", n)}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	all, err := c.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.Items).To(HaveLen(200))
	g.Expect(slices.MinFunc(all.Items, func(a, b eventsv1.Event) int { return int(versionNumber(a) - versionNumber(b)) }).Name).To(Equal("e-0003"))
}

func versionNumber(e eventsv1.Event) int64 {
	n, _ := strconv.ParseInt(e.ResourceVersion, 10, 64) // it is a number on this server
	return n
}
