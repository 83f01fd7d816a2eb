package suite

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	extac "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1/applyconfiguration/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// An applied is an apply of a Sandbox or a Pod, and what the server has to answer.
type applied struct {
	is     string // the fact
	path   string // sandboxes/a, sandboxes/a/status, pods/o
	by     string // the manager; with "!" at the end by force
	body   string // of it {uid} and {rv} are the object's
	code   int
	reason metav1.StatusReason
	see    func(g Gomega, before, after *unstructured.Unstructured)
}

const (
	sleeping = `"spec":{"podTemplate":{"spec":{"containers":[{"name":"main","image":"image"}]}}}`
	sleeper  = `"spec":{"containers":[{"name":"main","image":"image"}]}`
	ownerOne = `{"apiVersion":"v1","kind":"Thing","name":"one","uid":"one","controller":true}`
	ownerTwo = `{"apiVersion":"v1","kind":"Thing","name":"two","uid":"two","controller":true}`
)

// The order matters: each row finds what the rows before it left.
var serverFacts = []applied{
	{"an apply with a UID does not create a Sandbox", "sandboxes/none", "one!", `"metadata":{"uid":"other"},` + sleeping, 409, metav1.StatusReasonConflict, nil},
	{"an apply with a UID does not create a Pod", "pods/none", "one!", `"metadata":{"uid":"other"},` + sleeper, 409, metav1.StatusReasonConflict, nil},
	{"an apply of resource version 1 creates a Sandbox", "sandboxes/a", "one!", `"metadata":{"resourceVersion":"1","labels":{"x":"1","y":"1"},"ownerReferences":[` + ownerOne + `]},` + sleeping, 201, "", nil},
	{"an apply of resource version 1 creates a Pod", "pods/o", "one!", `"metadata":{"resourceVersion":"1","labels":{"x":"1"}},` + sleeper, 201, "", nil},
	{"an apply of resource version 1 leaves a Sandbox that is there", "sandboxes/a", "one!", `"metadata":{"resourceVersion":"1"},` + sleeping, 409, metav1.StatusReasonConflict, unchanged},
	{"an apply of resource version 1 leaves a Pod that is there", "pods/o", "one!", `"metadata":{"resourceVersion":"1"},` + sleeper, 409, metav1.StatusReasonConflict, nil},
	{"an apply with another UID is refused for a Sandbox", "sandboxes/a", "one!", `"metadata":{"uid":"other"},` + sleeping, 422, metav1.StatusReasonInvalid, unchanged},
	{"an apply with another UID is refused for a Pod", "pods/o", "one!", `"metadata":{"uid":"other"},` + sleeper, 422, metav1.StatusReasonInvalid, nil},
	{"an apply that changes nothing is not stored", "sandboxes/a", "one!", `"metadata":{"uid":"{uid}","resourceVersion":"{rv}","labels":{"x":"1","y":"1"},"ownerReferences":[` + ownerOne + `]},` + sleeping, 200, "", unchanged},
	{"what its manager leaves out is removed, and a spec that is sent again is no new generation", "sandboxes/a", "one!", `"metadata":{"labels":{"x":"1"}},` + sleeping, 200, "",
		func(g Gomega, before, after *unstructured.Unstructured) {
			g.Expect(after.GetLabels()).To(Equal(map[string]string{"x": "1"}))
			g.Expect(after.GetOwnerReferences()).To(BeEmpty())
			g.Expect(after.GetGeneration()).To(Equal(before.GetGeneration()))
		}},
	{"two controllers are refused", "sandboxes/a", "one!", `"metadata":{"ownerReferences":[` + ownerOne + `,` + ownerTwo + `]},` + sleeping, 422, metav1.StatusReasonInvalid, unchanged},
	{"another manager does not take a field without force", "sandboxes/a", "two", `"metadata":{"labels":{"x":"2"}}`, 409, metav1.StatusReasonConflict, unchanged},
	{"the same manager name is no lock", "sandboxes/a", "one", `"metadata":{"labels":{"x":"2"}},` + sleeping, 200, "", nil},
	{"a field that is taken by force is the taker's alone", "pods/o", "two!", `"metadata":{"labels":{"x":"2"}}`, 200, "",
		func(g Gomega, _, after *unstructured.Unstructured) {
			for _, e := range after.GetManagedFields() {
				g.Expect(strings.Contains(string(e.FieldsV1.GetRawBytes()), `"f:x"`)).To(Equal(e.Manager == "two"), e.Manager)
			}
		}},
	{"a status with another UID is taken", "sandboxes/a/status", "tells!", `"metadata":{"uid":"other","resourceVersion":"{rv}"},"status":{"nodeName":"n"}`, 200, "", nil},
	{"a status of an older resource version is refused", "sandboxes/a/status", "tells!", `"metadata":{"resourceVersion":"1"},"status":{"nodeName":"m"}`, 409, metav1.StatusReasonConflict, unchanged},
	{"a status with an older resource version and another UID is refused", "sandboxes/a/status", "tells!", `"metadata":{"uid":"other","resourceVersion":"1"},"status":{"nodeName":"m"}`, 409, metav1.StatusReasonConflict, unchanged},
}

func unchanged(g Gomega, before, after *unstructured.Unstructured) {
	g.Expect(after.Object).To(Equal(before.Object))
}

// request is the path of an object, and what a body about it says of its kind and name.
func (a applied) request(namespace string) (path, body string) {
	resource, rest, _ := strings.Cut(a.path, "/")
	name, _, _ := strings.Cut(rest, "/")
	of := map[string]string{"sandboxes": "/apis/agents.x-k8s.io/v1beta1", "pods": "/api/v1"}[resource]
	kind := map[string]string{"sandboxes": `"apiVersion":"agents.x-k8s.io/v1beta1","kind":"Sandbox"`, "pods": `"apiVersion":"v1","kind":"Pod"`}[resource]
	body = "{" + kind + "," + strings.Replace(a.body, `"metadata":{`, `"metadata":{"name":"`+name+`",`, 1) + "}"
	return of + "/namespaces/" + namespace + "/" + resource + "/" + name, body
}

// What the guards of Kiln's writes rest on, asked of the server without any of Kiln.
func TestTheServerKeepsWhatTheGuardsOfWritesRestOn(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Admin().CoreV1().RESTClient()
	ask := func(ctx context.Context, g Gomega, path string) *unstructured.Unstructured {
		raw, err := c.Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
		o := &unstructured.Unstructured{}
		if err == nil {
			g.Expect(o.UnmarshalJSON(raw)).To(Succeed())
		}
		return o
	}
	for _, a := range serverFacts {
		t.Run(a.is, func(t *testing.T) {
			g, ctx := NewWithT(t), t.Context()
			path, body := a.request(w.Namespace)
			before := ask(ctx, g, path)
			body = strings.NewReplacer("{uid}", string(before.GetUID()), "{rv}", before.GetResourceVersion()).Replace(body)
			by, force := strings.CutSuffix(a.by, "!")
			to := path
			if strings.HasSuffix(a.path, "/status") {
				to += "/status"
			}
			var code int
			err := c.Patch(types.ApplyYAMLPatchType).AbsPath(to).Param("fieldManager", by).Param("force", strconv.FormatBool(force)).
				Body([]byte(body)).Do(ctx).StatusCode(&code).Error()
			g.Expect(code).To(Equal(a.code), fmt.Sprint(err))
			if err != nil {
				g.Expect(apierrors.ReasonForError(err)).To(Equal(a.reason), err.Error())
			}
			if a.see != nil {
				a.see(g, before, ask(ctx, g, path))
			}
		})
	}
}

// The definitions have the pod spec of the newest Kubernetes, so a Sandbox may ask for a
// field that an older server does not know. The server answers such an apply with 500.
func TestAPodFieldThatTheServerDoesNotKnowIsReported(t *testing.T) {
	t.Parallel()
	g, w := NewWithT(t), kit.New(t)
	spec := `{"containers":[{"name":"main","image":"image"}],"evictionResponders":[{"name":"example.com/it","priority":1}]}`
	err := w.Admin().CoreV1().RESTClient().Patch(types.ApplyYAMLPatchType).AbsPath("/api/v1/namespaces/"+w.Namespace+"/pods/asked").
		Param("fieldManager", "test").Param("dryRun", "All").
		Body([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"asked"},"spec":` + spec + `}`)).Do(t.Context()).Error()
	w.Controller()
	s := world.Sandbox("s")
	s.Spec.PodTemplate.Spec = runtime.RawExtension{Raw: []byte(spec)}
	w.Create(s)
	if err != nil {
		g.Expect(err.Error()).To(HavePrefix("failed to create typed patch object ("))
	}
	w.Await(func(s *world.Snapshot) error {
		b := s.Sandboxes["s"]
		switch {
		case err == nil && s.Pods["s"] == nil:
			return errors.New("the server knows the field, and there is no pod")
		case err != nil && (b == nil || !strings.Contains(fmt.Sprint(b.Status.Conditions), "evictionResponders")):
			return errors.New("the server does not know the field, and the status does not name it")
		}
		return nil
	})
}

// Kiln compares the resource versions of its four kinds with each other. Releases before
// 1.35 promise nothing about that, and no release promises it of two kinds.
func TestAWatchThatHasPassedAWriteOfAnotherKindShowsWhatWasWrittenBefore(t *testing.T) {
	t.Parallel()
	g, w := NewWithT(t), kit.New(t)
	w.Create(world.Template("t"), world.Pool("p", 0))

	pools := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return w.Pools().List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return w.Pools().Watch(ctx, o)
		},
	}, &ext.SandboxWarmPool{}, 0, cache.Indexers{})
	const rounds = 100
	seen := make(chan struct{}, 2*rounds)
	_, err := pools.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { seen <- struct{}{} }})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { pools.RunWithContext(ctx) })
	g.Expect(cache.WaitForCacheSync(ctx.Done(), pools.HasSynced)).To(BeTrue())

	var mu sync.Mutex
	var claims []string // the resource version of the claim of each round
	write := func(round int) error {
		_, err := w.Pools().Apply(w.Context(), extac.SandboxWarmPool("p", w.Namespace).WithLabels(map[string]string{"round": strconv.Itoa(round)}), metav1.ApplyOptions{FieldManager: "test"})
		return err
	}
	running.Go(func() {
		for round := range rounds {
			err := write(round)
			c, failed := w.Claims().Create(w.Context(), world.Claim(fmt.Sprintf("c-%d", round), "p"), metav1.CreateOptions{})
			if err := errors.Join(err, failed); err != nil {
				t.Error(err)
				cancel()
				return
			}
			mu.Lock()
			claims = append(claims, c.ResourceVersion)
			mu.Unlock()
		}
		if err := write(rounds); err != nil { // the watch passes the last claim
			t.Error(err)
			cancel()
		}
	})
	for passed := 0; passed < rounds; {
		select {
		case <-seen:
		case <-ctx.Done():
			t.Fatal("not everything was written")
		}
		version := pools.GetIndexer().LastStoreSyncResourceVersion()
		p, _, err := pools.GetIndexer().GetByKey(w.Namespace + "/p")
		g.Expect(err).NotTo(HaveOccurred())
		shown, err := strconv.Atoi(p.(*ext.SandboxWarmPool).Labels["round"])
		g.Expect(err).NotTo(HaveOccurred())
		mu.Lock()
		made := claims
		mu.Unlock()
		for passed < len(made) && later(t, version, made[passed]) {
			g.Expect(shown).To(BeNumerically(">=", passed), "at %s the claim of %s is passed", version, made[passed])
			passed++
		}
	}
}

func later(t *testing.T, a, b string) bool {
	t.Helper()
	c, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		t.Error(err)
	}
	return err == nil && c > 0
}
