package suite

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// podHas holds when a pod has these labels and annotations; an empty value stands for
// none.
func podHas(pod string, labels, annotations map[string]string) world.Condition {
	return func(s *world.Snapshot) error {
		p, ok := s.Pods[pod]
		if !ok {
			return errWaits
		}
		return differ(p, labels, annotations)
	}
}

// templateHas holds when the pod template of a sandbox has these labels and annotations;
// an empty value stands for none.
func templateHas(sandbox string, labels, annotations map[string]string) world.Condition {
	return func(s *world.Snapshot) error {
		b, ok := s.Sandboxes[sandbox]
		if !ok {
			return errWaits
		}
		is := b.Spec.PodTemplate.ObjectMeta
		return differ(&metav1.ObjectMeta{Name: sandbox, Labels: is.Labels, Annotations: is.Annotations}, labels, annotations)
	}
}

// differ says in what an object differs from labels and annotations.
func differ(o metav1.Object, labels, annotations map[string]string) error {
	for _, of := range []struct{ want, has map[string]string }{{labels, o.GetLabels()}, {annotations, o.GetAnnotations()}} {
		for k, v := range of.want {
			if is, has := of.has[k]; is != v || has != (v != "") {
				return fmt.Errorf("%T %s has %q as %s, and should have %q", o, o.GetName(), is, k, v)
			}
		}
	}
	return nil
}

// The claim was served when its metadata was valid, and has other metadata by the
// time its pod becomes ready. What is invalid never reaches the pod.
func TestMetadataPatchedIntoAWarmingClaimIsJudgedWhereItIsWritten(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := kit.New(t)
	w.Kubelet.Hold()
	w.Controller()
	w.Create(world.Template("t"), world.Pool("p", 0), world.Sandbox("another"), world.Claim("a", "p", world.WithLabel("sandbox.users.io/who", "me")))
	w.Await(world.HasState("a", states.Warming), world.PodHasState("a", states.Warming))
	patchClaim(t, w, "a", fmt.Sprintf(`{"spec":{"additionalPodMetadata":{"labels":{%q:"ready",%q:%q}}}}`, apply.LabelState, apply.LabelNameHash, apply.Hash("another")))
	w.Kubelet.Release("a")
	w.Await(world.HasState("a", states.Bound), world.PodHasState("a", states.Bound))
	forged := `False InvalidMetadata spec.additionalPodMetadata.labels[` + apply.LabelNameHash + `]: the domain is not one of the allowed ones: sandbox.users.io`
	g.Expect(readyOf(w, "a")).To(Equal(forged))
	g.Expect(w.Claim("a").Status.SandboxStatus.Name).To(Equal("a"), "it has its sandbox all the same")
	g.Expect(podHas("a", map[string]string{apply.LabelNameHash: apply.Hash("a"), apply.LabelState: "bound", "sandbox.users.io/who": "me"}, nil)).To(BeTrueIn(w))
	g.Expect(templateHas("a", map[string]string{apply.LabelNameHash: "", apply.LabelState: "", "sandbox.users.io/who": "me"}, nil)).To(BeTrueIn(w))
	w.Await(world.SandboxSays("a", "DependenciesReady", "Pod is Ready"))
	for _, change := range w.History() {
		if pod := change.Object; world.KindOf(pod) == "pod" && pod.GetName() == "a" {
			g.Expect(pod.GetLabels()[apply.LabelNameHash]).To(Equal(apply.Hash("a")), "at no time")
		}
	}
	patchClaim(t, w, "a", fmt.Sprintf(`{"spec":{"additionalPodMetadata":{"labels":{%q:null,%q:null,"sandbox.users.io/who":"you"}}}}`, apply.LabelState, apply.LabelNameHash))
	w.Await(podHas("a", map[string]string{"sandbox.users.io/who": "you"}, nil), world.Told("a"))
	g.Expect(w.SandboxOf("a")).To(Equal("a"), "still")
}

// the is the part of a map that has a key.
func the(key string, all map[string]string) map[string]string {
	if v, has := all[key]; has {
		return map[string]string{key: v}
	}
	return nil
}

// The adoption brings it, so no other write does. That the sandbox's spec has changed its
// status says when the claim has been told and the pod has followed.
func TestWhatAClaimAddsToItsPodIsInItsSandboxFromTheStart(t *testing.T) {
	w, c := started(t, 1)
	g := NewWithT(t)
	more := []func(*ext.SandboxClaim){world.WithLabel("sandbox.users.io/who", "me"), world.WithAnnotation("example.com/why", "because")}
	labels, annotations := map[string]string{"sandbox.users.io/who": "me"}, map[string]string{"example.com/why": "because"}
	w.Create(world.Claim("warm", "p", more...))
	w.Await(resting(c, 1, "warm"))
	held := w.SandboxOf("warm")
	g.Expect(held).NotTo(Equal("warm"))
	g.Expect(templateHas(held, labels, annotations)).To(BeTrueIn(w))
	g.Expect(c.Wire.Count("sandbox", "adopt")).To(Equal(1), "and nothing mends it")
	told, reported := -1, -1
	for i, change := range w.History() {
		switch o := change.Object.(type) {
		case *ext.SandboxClaim:
			if o.Status.State == ext.StateBound && told < 0 {
				told = i
			}
		case *agents.Sandbox:
			if ready := meta.FindStatusCondition(o.Status.Conditions, "Ready"); o.Name == held && ready != nil && ready.ObservedGeneration == 2 && reported < 0 {
				reported = i
			}
		}
	}
	g.Expect(told).To(BeNumerically(">", 0))
	g.Expect(reported).To(BeNumerically(">", told), "nothing is written beside the adoption")
	w.PatchPool("p", `{"replicas":0}`)
	w.Await(world.Converged("p", 0, "warm"))
	w.Kubelet.Hold()
	w.Create(world.Claim("cold", "p", more...))
	w.Await(world.HasState("cold", states.Warming), podHas("cold", labels, annotations), templateHas("cold", labels, annotations))
	patchClaim(t, w, "cold", `{"spec":{"additionalPodMetadata":{"labels":{"sandbox.users.io/who":"you"}}}}`)
	w.Await(templateHas("cold", map[string]string{"sandbox.users.io/who": "you"}, annotations))
	g.Expect(w.Claim("cold").Status.State).To(Equal(ext.StateWarming), "it did not wait for that")
	w.Kubelet.Release("cold")
	w.Await(world.PodHasState("cold", states.Bound))
	g.Expect(podHas("cold", map[string]string{"sandbox.users.io/who": "you"}, annotations)).To(BeTrueIn(w), "the move has brought it")
	patchClaim(t, w, "cold", `{"spec":{"additionalPodMetadata":null}}`)
	gone := map[string]string{"sandbox.users.io/who": ""}
	w.Await(podHas("cold", gone, map[string]string{"example.com/why": ""}), templateHas("cold", gone, map[string]string{"example.com/why": ""}), c.Settled())
	pod := w.Pod(held)
	w.Delete(w.Pods(), held)
	w.Await(world.Deleted(pod), podHas(held, labels, annotations), c.Settled())
}

func TestAnEditOfABoundClaimsMetadataReachesItsPodWithFewWrites(t *testing.T) {
	w, c := started(t, 1)
	g := NewWithT(t)
	w.Create(world.Claim("a", "p", world.WithLabel("sandbox.users.io/who", "me"), world.WithLabel("sandbox.users.io/old", "x"), world.WithAnnotation("example.com/why", "because")))
	w.Await(resting(c, 1, "a"))
	pod := w.Claim("a").Status.SandboxStatus.Name
	w.Await(podHas(pod, map[string]string{"sandbox.users.io/who": "me", "sandbox.users.io/old": "x"}, map[string]string{"example.com/why": "because"}))
	g.Expect(templateHas(pod, map[string]string{"sandbox.users.io/who": "me"}, map[string]string{"example.com/why": "because"})).To(BeTrueIn(w))
	for _, row := range []struct {
		name, patch         string
		labels, annotations map[string]string
	}{
		{"one added, one changed, one removed", `{"labels":{"sandbox.users.io/new":"n","sandbox.users.io/who":"you","sandbox.users.io/old":null}}`,
			map[string]string{"sandbox.users.io/new": "n", "sandbox.users.io/who": "you", "sandbox.users.io/old": ""}, map[string]string{"example.com/why": "because"}},
		{"an annotation changed", `{"annotations":{"example.com/why":"not"}}`, nil, map[string]string{"example.com/why": "not"}},
		{"all removed", `null`, map[string]string{"sandbox.users.io/new": "", "sandbox.users.io/who": ""},
			map[string]string{"example.com/why": "", apply.AnnotationLabels: "", apply.AnnotationAnnotations: ""}},
	} {
		before := len(c.Wire.Writes())
		patchClaim(t, w, "a", `{"spec":{"additionalPodMetadata":`+row.patch+`}}`)
		w.Await(podHas(pod, row.labels, row.annotations), templateHas(pod, row.labels, the("example.com/why", row.annotations)), observed("a"), c.Settled())
		wrote := c.Wire.Writes()[before:]
		g.Expect(len(wrote)).To(Equal(4), "%s: sandbox, its status, its pod, the claim's status: %v", row.name, wrote)
	}
	patchClaim(t, w, "a", `{"spec":{"additionalPodMetadata":{"labels":{"sandbox.users.io/who":"me"}}}}`)
	w.Await(podHas(pod, map[string]string{"sandbox.users.io/who": "me"}, nil))
	patchClaim(t, w, "a", `{"spec":{"additionalPodMetadata":{"labels":{"sandbox.users.io/who":null,"who":"me"}}}}`)
	w.Await(world.ClaimSays("a", "InvalidMetadata", "spec.additionalPodMetadata.labels[who]: a label needs a domain, one of: sandbox.users.io"))
	g.Expect(podHas(pod, map[string]string{"sandbox.users.io/who": "me", "who": ""}, nil)).To(BeTrueIn(w))
	w.LabelPod(pod, "sandbox.users.io/who", "stolen")
	w.Await(podHas(pod, map[string]string{"sandbox.users.io/who": "me"}, nil))
	w.LabelPod(pod, apply.LabelClaimUID, "x")
	w.Await(podHas(pod, map[string]string{apply.LabelClaimUID: string(w.Claim("a").UID)}, nil))
}

// A domain that is allowed now serves the claims that wait for that, and one that is not
// any more takes its labels from the pods.
func TestWhichLabelsClaimsMayGiveChangesWhileTheControllerRuns(t *testing.T) {
	w, c := started(t, 1)
	w.Create(world.Claim("a", "p", world.WithLabel("b.example/who", "me")))
	w.Await(world.ClaimSays("a", "InvalidMetadata", "spec.additionalPodMetadata.labels[b.example/who]: the domain is not one of the allowed ones: sandbox.users.io"), c.Settled())
	c.Product.Claims.AllowLabels([]string{"b.example"})
	w.Await(world.Told("a"), c.Settled())
	held := w.SandboxOf("a")
	has, not := map[string]string{"b.example/who": "me"}, map[string]string{"b.example/who": ""}
	w.Await(podHas(held, has, nil), templateHas(held, has, nil))
	c.Product.Claims.AllowLabels([]string{"c.example"})
	w.Await(world.ClaimSays("a", "InvalidMetadata", "the domain is not one of the allowed ones: c.example"), podHas(held, not, nil), templateHas(held, not, nil), c.Settled())
	NewWithT(t).Expect(w.SandboxOf("a")).To(Equal(held), "it has its sandbox all the same")
}

// observed holds when a claim's status is of its spec as it is.
func observed(claim string) world.Condition {
	return func(s *world.Snapshot) error {
		c := s.Claims[claim]
		if ready := meta.FindStatusCondition(c.Status.Conditions, "Ready"); ready == nil || ready.ObservedGeneration != c.Generation {
			return errWaits
		}
		return nil
	}
}

// A flip is a label or an annotation of ours that a user changes, and what it should
// be.
type flip struct {
	kind, field, key, want string
}

// flips are all that Kiln has put on a bound claim, its sandbox and its pod, or has
// taken away from there.
func flips(w *kit.World) []flip {
	c := w.Claim("a")
	b := w.Sandbox(c.Status.SandboxStatus.Name)
	uid, template := string(c.UID), apply.Hash("t")
	at := func(time *metav1.MicroTime) string { return time.UTC().Format("2006-01-02T15:04:05.999999999Z07:00") }
	return []flip{
		{"claim", "annotations", apply.AnnotationSandboxName, b.Name},
		{"claim", "annotations", apply.AnnotationFirstObserved, at(c.Status.Startup.ControllerObservedTime)},
		{"claim", "annotations", apply.AnnotationFirstReady, at(c.Status.Startup.FirstReadyTime)},
		{"sandbox", "labels", apply.LabelClaimUID, uid},
		{"sandbox", "labels", apply.LabelLaunch, apply.LaunchWarm},
		{"sandbox", "labels", apply.LabelCreatedBy, "someone"},
		{"sandbox", "labels", apply.LabelTemplate, template},
		{"sandbox", "labels", apply.LabelRevision, b.Labels[apply.LabelRevision]},
		{"sandbox", "labels", apply.LabelPool, ""},
		{"sandbox", "labels", apply.LabelBlueprintHash, ""},
		{"sandbox", "labels", apply.LabelPodTemplateHash, ""},
		{"sandbox", "annotations", apply.AnnotationTemplate, "t"},
		{"sandbox", "annotations", apply.AnnotationPodName, b.Name},
		{"sandbox", "annotations", apply.AnnotationPolicy, apply.PolicyName("t")},
		{"sandbox", "annotations", apply.AnnotationClaimKeys, "label:sandbox.users.io/who"},
		{"sandbox", "annotations", apply.AnnotationRetired, ""},
		{"pod", "labels", apply.LabelState, "bound"},
		{"pod", "labels", apply.LabelClaimUID, uid},
		{"pod", "labels", apply.LabelPool, ""},
		{"pod", "labels", apply.LabelCreatedBy, "unknown"},
		{"pod", "labels", "sandbox.users.io/who", "me"},
		{"pod", "annotations", apply.AnnotationLabels, "sandbox.users.io/who"},
		{"pod", "annotations", apply.AnnotationAnnotations, ""},
	}
}

// do writes a value, or takes the key away with an empty one, as a hand would.
func (f flip) do(t *testing.T, w *kit.World, name, value string) {
	t.Helper()
	v := fmt.Sprintf("%q", value)
	if value == "" {
		v = "null"
	}
	patch := fmt.Appendf(nil, `{"metadata":{%q:{%q:%s}}}`, f.field, f.key, v)
	by := metav1.PatchOptions{FieldManager: "hand"}
	var got metav1.Object
	var err error
	switch f.kind {
	case "claim":
		got, err = w.Claims().Patch(w.Context(), name, types.MergePatchType, patch, by)
	case "sandbox":
		got, err = w.Sandboxes().Patch(w.Context(), name, types.MergePatchType, patch, by)
	case "pod":
		got, err = w.Pods().Patch(w.Context(), name, types.MergePatchType, patch, by)
	}
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w.Await(world.Seen(got))
}

// healed holds when it is as it should be.
func (f flip) healed(name string) world.Condition {
	return func(s *world.Snapshot) error {
		want := map[string]string{f.key: f.want}
		for _, o := range s.All(f.kind) {
			if o.GetName() == name && f.field == "labels" {
				return differ(o, want, nil)
			}
			if o.GetName() == name {
				return differ(o, nil, want)
			}
		}
		return errWaits
	}
}

// P8: no value that a user can write makes a loop, and every one is healed. Two writes
// heal one that should not be there, and one any other.
func TestWhateverAUserDoesToOurLabelsIsHealedWithFewWrites(t *testing.T) {
	w, c := started(t, 1)
	g := NewWithT(t)
	claim := world.Claim("a", "p", world.WithLabel("sandbox.users.io/who", "me"))
	claim.Labels = map[string]string{apply.LabelCreatedBy: "someone"}
	w.Create(claim)
	w.Await(resting(c, 1, "a"))
	held := w.Claim("a").Status.SandboxStatus.Name
	all := flips(w)
	for _, f := range all {
		name := held
		if f.kind == "claim" {
			name = "a"
		}
		g.Expect(f.healed(name)).To(BeTrueIn(w), "as it was made")
		for _, value := range []string{"ready", "stale", ""} {
			before := len(c.Wire.Writes())
			f.do(t, w, name, value)
			w.Await(f.healed(name), c.Settled())
			wrote := c.Wire.Writes()[before:]
			g.Expect(len(wrote)).To(BeNumerically("<=", 3), "%s %s as %q: %v", f.kind, f.key, value, wrote)
		}
	}
	w.Await(world.Told("a"))
	g.Expect(w.Claim("a").Status.SandboxStatus.Name).To(Equal(held))
	for _, f := range all { // and the last one undid none of the others
		name := held
		if f.kind == "claim" {
			name = "a"
		}
		g.Expect(f.healed(name)).To(BeTrueIn(w))
	}
}

// A user may give a claim any name. It does not make a warm start a cold one.
func TestAClaimThatIsNamedAsTheMemberThatItAdoptsWasServedWarm(t *testing.T) {
	w, c := started(t, 1)
	g := NewWithT(t)
	var free []string
	w.Look(func(s *world.Snapshot) { free = s.Free("p") })
	w.Create(world.Claim(free[0], "p"))
	w.Await(resting(c, 1, free[0]))
	g.Expect(w.SandboxOf(free[0])).To(Equal(free[0]))
	g.Expect(w.Sandbox(free[0]).Labels).To(HaveKeyWithValue(apply.LabelLaunch, apply.LaunchWarm))
	g.Expect(c.Wire.Count("sandbox", "adopt")).To(Equal(1), "and nothing is healed")
	for _, value := range []string{apply.LaunchCold, "", "x"} {
		f := flip{"sandbox", "labels", apply.LabelLaunch, apply.LaunchWarm}
		f.do(t, w, free[0], value)
		w.Await(f.healed(free[0]), c.Settled())
	}
}

func TestWhoMadeAClaimIsSaidOfItsPodInTheWordsThatMetricsKnow(t *testing.T) {
	w, c := started(t, 3)
	g := NewWithT(t)
	for name, by := range map[string][2]string{"go": {"go-client", "go-client"}, "python": {"python-client", "python-client"}, "else": {"curl", "unknown"}} {
		claim := world.Claim(name, "p")
		claim.Labels = map[string]string{apply.LabelCreatedBy: by[0]}
		w.Create(claim)
		w.Await(world.Bound(name))
		held := w.Claim(name).Status.SandboxStatus.Name
		g.Expect(w.Sandbox(held).Labels[apply.LabelCreatedBy]).To(Equal(by[0]))
		g.Expect(w.Pod(held).Labels[apply.LabelCreatedBy]).To(Equal(by[1]))
	}
	patchClaim(t, w, "else", fmt.Sprintf(`{"metadata":{"labels":{%q:"controller"}}}`, apply.LabelCreatedBy))
	held := w.Claim("else").Status.SandboxStatus.Name
	w.Await(podHas(held, map[string]string{apply.LabelCreatedBy: "controller"}, nil), c.Settled())
}
