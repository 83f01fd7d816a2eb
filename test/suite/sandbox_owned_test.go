package suite

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

func services(w *kit.World) typedcore.ServiceInterface {
	return w.Admin().CoreV1().Services(w.Namespace)
}

func volumes(w *kit.World) typedcore.PersistentVolumeClaimInterface {
	return w.Admin().CoreV1().PersistentVolumeClaims(w.Namespace)
}

// service describes the Service s, or says that there is none.
func service(t *testing.T, w *kit.World) string {
	t.Helper()
	is, err := services(w).Get(w.Context(), "s", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "none"
	}
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	text := fmt.Sprintf("%s %s %v", is.Spec.ClusterIP, is.Labels[apply.LabelNameHash], is.Spec.Selector)
	for _, p := range is.Spec.Ports {
		text += fmt.Sprintf(" %s:%d/%s", p.Name, p.Port, p.Protocol)
	}
	if owner := metav1.GetControllerOf(is); owner != nil {
		text += " of " + owner.Kind + " " + owner.Name
	}
	return text
}

const itsService = "None f60c4582 map[agents.x-k8s.io/sandbox-name-hash:f60c4582] p-53-udp:53/UDP http:80/TCP of Sandbox s"

func TestTheServiceOfASandbox(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	g := NewWithT(t)
	w.Controller(func(o *watch.Options) { o.ClusterDomain = "example.org" })
	w.Create(sandbox(withPorts))
	w.Await(plain)
	g.Expect(service(t, w)).To(Equal("none"), "unset makes none")
	patch(t, w, `{"service":true}`)
	withIt := says(notSuspended, scheduled, "Ready True DependenciesReady: Pod is Ready; Service Exists",
		selector+" service=s fqdn=s.NS.svc.example.org ips=1 node=node")
	w.Await(withIt)
	g.Expect(service(t, w)).To(Equal(itsService))
	_, err := services(w).Patch(w.Context(), "s", types.MergePatchType, []byte(`{"spec":{"selector":{"app":"forged"},"ports":null}}`), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() string { return service(t, w) }, "30s").Should(Equal(itsService), "drift is repaired")
	g.Expect(services(w).Delete(w.Context(), "s", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(func() string { return service(t, w) }, "30s").Should(Equal(itsService), "one that is gone comes back")
	patch(t, w, `{"service":null}`)
	w.Await(says(notSuspended, scheduled, isReady, selector+" service=s fqdn=s.NS.svc.example.org ips=1 node=node"))
	g.Expect(service(t, w)).To(Equal(itsService), "unset keeps it")
	patch(t, w, `{"service":false}`)
	w.Await(plain)
	g.Expect(service(t, w)).To(Equal("none"), "false deletes it")
}

// The next one takes its name when it is gone.
func TestASandboxWhoseServiceTerminatesSaysThatItHasNone(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	g := NewWithT(t)
	c := w.Controller()
	w.Create(sandbox(withService))
	exists := world.SandboxSays("s", "DependenciesReady", "Pod is Ready; Service Exists")
	w.Await(exists, c.Settled())
	finalizers := func(value string) {
		t.Helper()
		_, err := services(w).Patch(w.Context(), "s", types.MergePatchType, []byte(`{"metadata":{"finalizers":`+value+`}}`), metav1.PatchOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	finalizers(`["` + keep + `"]`)
	g.Expect(services(w).Delete(w.Context(), "s", metav1.DeleteOptions{})).To(Succeed())
	w.Await(says(notSuspended, scheduled, "Ready False DependenciesNotReady: Pod is Ready; Service does not exist", running))
	g.Expect(service(t, w)).NotTo(Equal("none"), "it is still there")
	finalizers("null")
	w.Await(exists)
}

func TestAServiceOfItsNameIsAdoptedOnlyIfItMayBe(t *testing.T) {
	headless := corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "old"}}
	for _, row := range []struct {
		name    string
		labels  map[string]string
		spec    corev1.ServiceSpec
		owner   []metav1.OwnerReference
		refused string
	}{
		{name: "labelled and headless", labels: map[string]string{apply.LabelAdoptable: "true"}, spec: headless},
		{name: "not labelled", spec: headless,
			refused: `Error seen: cannot adopt unowned Service "s": make it headless and label it agents.x-k8s.io/adoptable=true, or delete it`},
		{name: "labelled and not headless", labels: map[string]string{apply.LabelAdoptable: "true"}, spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			refused: `Error seen: cannot adopt unowned Service "s": make it headless and label it agents.x-k8s.io/adoptable=true, or delete it`},
		{name: "somebody's", labels: map[string]string{apply.LabelAdoptable: "true"}, spec: headless, owner: by("other"),
			refused: `Error seen: Service "s" is owned by Sandbox other`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			g := NewWithT(t)
			w.Controller()
			theirs, err := services(w).Create(w.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: row.labels, OwnerReferences: row.owner}, Spec: row.spec,
			}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			w.Create(sandbox(withService, withPorts))
			ready := world.SandboxSays("s", "DependenciesReady", "Pod is Ready; Service Exists")
			if row.refused != "" {
				w.Await(world.SandboxSays("s", "ReconcilerError", row.refused), world.PodHasState("s", states.Bound))
				still, err := services(w).Get(w.Context(), "s", metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(still.ResourceVersion).To(Equal(theirs.ResourceVersion), "it is not touched")
				w.Delete(services(w), "s")
			}
			w.Await(ready) // and an event tells that it is gone
			g.Expect(service(t, w)).To(Equal(itsService))
		})
	}
}

func TestTheStorageOfASandbox(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	g := NewWithT(t)
	w.Controller()
	b := sandbox(withVolume)
	b.Spec.PodTemplate.Spec = raw(`{"containers":[{"name":"main","image":"image","volumeMounts":[{"name":"data","mountPath":"/data"}]}],"volumes":[{"name":"data","emptyDir":{}},{"name":"tmp","emptyDir":{}}]}`)
	w.Create(b)
	w.Await(plain)
	is, err := volumes(w).Get(w.Context(), "data-s", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(is.Labels).To(Equal(map[string]string{"team": "a", apply.LabelNameHash: "f60c4582"}))
	g.Expect(is.Annotations).To(Equal(map[string]string{"note": "kept"}))
	owner := metav1.GetControllerOf(is)
	g.Expect([]any{owner.Kind, owner.UID, *owner.BlockOwnerDeletion}).To(Equal([]any{"Sandbox", w.Sandbox("s").UID, true}))
	g.Expect(is.Spec.Resources.Requests.Storage().String()).To(Equal("1Gi"))
	var mounted []string
	for _, v := range w.Pod("s").Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			mounted = append(mounted, v.Name+"="+v.PersistentVolumeClaim.ClaimName)
		} else {
			mounted = append(mounted, v.Name)
		}
	}
	g.Expect(mounted[:2]).To(Equal([]string{"tmp", "data=data-s"}), "a volume of the same name gives way")
	_, err = w.Sandboxes().Patch(w.Context(), "s", types.MergePatchType, []byte(`{"spec":{"volumeClaimTemplates":null}}`), metav1.PatchOptions{})
	g.Expect(err).To(MatchError(ContainSubstring("volumeClaimTemplates is immutable")))
}

func TestStorageThatIsThereIsUsedOnlyIfItMayBeAndNoPodIsStartedOverAnothers(t *testing.T) {
	for _, row := range []struct {
		name    string
		labels  map[string]string
		owner   []metav1.OwnerReference
		refused string
	}{
		{name: "labelled", labels: map[string]string{apply.LabelAdoptable: "true"}},
		{name: "its own once", labels: map[string]string{apply.LabelNameHash: apply.Hash("s")}},
		{name: "nobody's", refused: `Error seen: cannot adopt unowned PVC "data-s": label it agents.x-k8s.io/adoptable=true, or delete it`},
		{name: "another sandbox's", labels: map[string]string{apply.LabelNameHash: apply.Hash("other")}, owner: by("other"),
			refused: `Error seen: PVC "data-s" is owned by Sandbox other`},
		{name: "somebody's, whom no informer watches", owner: by("other"), refused: `Error seen: PVC "data-s" is owned by Sandbox other`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			g := NewWithT(t)
			c := w.Controller()
			theirs, err := volumes(w).Create(w.Context(), &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "data-s", Labels: row.labels, OwnerReferences: row.owner},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}},
				},
			}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			w.Create(sandbox(withVolume))
			if row.refused != "" {
				w.Await(says(notSuspended, "PodScheduled Unknown PodSchedulingUnknown: Pod state is unknown. Pod scheduling cannot be determined",
					"Ready False ReconcilerError: "+row.refused, nothing), c.Settled())
				g.Expect(c.Wire.Count("pod", "create")).To(BeZero(), "no pod is started over another's storage")
				g.Expect(volumes(w).Delete(w.Context(), "data-s", metav1.DeleteOptions{})).To(Succeed())
				_, err := volumes(w).Patch(w.Context(), "data-s", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				g.Expect(err == nil || apierrors.IsNotFound(err)).To(BeTrue())
			}
			w.Await(plain)
			is, err := volumes(w).Get(w.Context(), "data-s", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(is.UID == theirs.UID).To(Equal(row.refused == ""))
			g.Expect(metav1.IsControlledBy(is, w.Sandbox("s"))).To(BeTrue())
			g.Expect(is.Labels).To(HaveKeyWithValue(apply.LabelNameHash, apply.Hash("s")))
		})
	}
}

func TestAPodOfItsNameIsAdoptedOnlyIfItMayBe(t *testing.T) {
	for _, row := range []struct {
		name    string
		change  func(*corev1.Pod)
		refused string
		tries   int
	}{
		{"labelled", func(p *corev1.Pod) { p.Labels = map[string]string{apply.LabelAdoptable: "true"} }, "", 1},
		{"labelled, and seen by the informer", func(p *corev1.Pod) { p.Labels[apply.LabelAdoptable] = "true" }, "", 0},
		{"not labelled", func(p *corev1.Pod) { p.Labels = nil }, `pod "s" is owned by nobody; delete it, or give the sandbox another name`, 2},
		{"not labelled, and seen by the informer", func(*corev1.Pod) {}, `pod "s" is owned by nobody; delete it, or give the sandbox another name`, 1},
		{"somebody's", func(p *corev1.Pod) { p.OwnerReferences, p.Labels[apply.LabelAdoptable] = by("other"), "true" },
			`pod "s" is owned by Sandbox other; delete it, or give the sandbox another name`, 1},
		{"somebody's whom no informer watches", func(p *corev1.Pod) { p.OwnerReferences, p.Labels = by("other"), nil },
			`pod "s" is owned by Sandbox other; delete it, or give the sandbox another name`, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			g := NewWithT(t)
			theirs := ownPod(t, w, row.change)
			c := w.Controller()
			w.Create(sandbox())
			if row.refused != "" {
				w.Await(world.SandboxSays("s", "ReconcilerError", "Error seen: "+row.refused), c.Settled())
				g.Expect(metav1.IsControlledBy(w.Pod("s"), w.Sandbox("s"))).To(BeFalse())
				w.Delete(w.Pods(), "s")
			}
			w.Await(plain, world.PodHasState("s", states.Bound))
			g.Expect(w.Pod("s").UID == theirs.UID).To(Equal(row.refused == ""))
			g.Expect(w.Pod("s").Labels).To(HaveKeyWithValue(apply.LabelNameHash, apply.Hash("s")))
			c.Stop()
			g.Expect(c.Wire.Count("pod", "create")).To(Equal(row.tries), "an event tells, and nothing is polled")
		})
	}
}

// A pod that somebody orphans and marks as adoptable was made by Kiln, spec and all.
func TestAPodThatWasOrphanedIsTakenBack(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	w.Create(sandbox(func(b *agents.Sandbox) { b.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{"team": "a"} }))
	w.Await(plain, world.PodHasState("s", states.Bound))
	had := w.Pod("s")
	orphaned, err := w.Pods().Patch(w.Context(), "s", types.MergePatchType,
		[]byte(`{"metadata":{"ownerReferences":null,"labels":{"agents.x-k8s.io/adoptable":"true"}}}`), metav1.PatchOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w.Await(world.Seen(orphaned), func(s *world.Snapshot) error {
		if !metav1.IsControlledBy(s.Pods["s"], s.Sandboxes["s"]) {
			return errWaits
		}
		return nil
	}, plain, world.PodHasState("s", states.Bound))
	NewWithT(t).Expect(w.Pod("s").UID).To(Equal(had.UID))
}
