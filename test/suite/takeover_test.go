package suite

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// left is a world as the agent-sandbox controller leaves it: a pool p with two free
// members, a claim that was given a third, one that started cold, and one whose time
// is over. Renamed are names of the file, each with the one to read instead of it.
func left(t *testing.T, renamed ...string) *kit.World {
	t.Helper()
	t.Parallel()
	w := kit.New(t)
	w.Kubelet.Hold()
	w.Replay("testdata/takeover/v1.0.yaml", renamed...)
	w.Kubelet.Release()
	for _, pod := range []string{"p-aaaaa", "p-bbbbb", "p-ccccc", "own"} {
		w.Await(kubeletSays(pod, true))
	}
	return w
}

// uids are the UIDs of all pods and sandboxes of a world.
func uids(w *kit.World) map[string]types.UID {
	all := map[string]types.UID{}
	w.Look(func(s *world.Snapshot) {
		for name, p := range s.Pods {
			all["pod/"+name] = p.UID
		}
		for name, b := range s.Sandboxes {
			all["sandbox/"+name] = b.UID
		}
	})
	return all
}

// taken holds when everything of the world that the agent-sandbox controller left is
// Kiln's: the members are free, the claims bound, and the pool counts no old member.
func taken(s *world.Snapshot) error {
	for pod, state := range map[string]states.State{
		"p-aaaaa": states.Ready, "p-bbbbb": states.Ready, "p-ccccc": states.Bound, "own": states.Bound,
	} {
		if err := world.PodHasState(pod, state)(s); err != nil {
			return err
		}
	}
	p := s.Pools["p"]
	if p.Status.UpdatedReadyReplicas != 2 || p.Status.Replicas != 2 || p.Status.ObservedGeneration != p.Generation {
		return fmt.Errorf("the pool says %+v", p.Status)
	}
	return world.Told("warm", "own")(s)
}

func TestWhatTheIncumbentLeavesIsTakenOverInPlace(t *testing.T) {
	w := left(t)
	before := uids(w)
	c := w.Controller()
	w.Await(taken, c.Settled())
	for name, uid := range uids(w) {
		if before[name] != uid {
			t.Errorf("%s was made anew", name)
		}
	}
	if got := w.SandboxOf("warm") + " " + w.SandboxOf("own"); got != "p-ccccc own" {
		t.Errorf("the claims have %s", got)
	}
	same(t, w.States(w.Claim("warm")), "", "bound")
	for _, event := range []string{"SandboxAdopted", "SandboxProvisioned"} {
		if n := w.Events("warm", event) + w.Events("own", event); n > 0 {
			t.Errorf("%d Events tell again what happened long ago: %s", n, event)
		}
	}
	for _, pod := range []string{"p-aaaaa", "p-bbbbb", "p-ccccc", "own"} {
		if n := writesTo(c, "pod", pod); len(n) != 1 {
			t.Errorf("pod %s took %q, one write is enough", pod, n)
		}
	}
	unhurt(t, c)
}

func TestAClaimThatTheIncumbentEndedIsNeverGivenASandboxAgain(t *testing.T) {
	w := left(t)
	before := w.Claim("expired").Status
	c := w.Controller()
	w.Create(world.Claim("new", "p"))
	w.Await(world.Bound("new"), filled("p", 2), world.HasState("expired", states.Stale), c.Settled())
	after := w.Claim("expired").Status // it says so in the word as well
	if !reflect.DeepEqual(before.Conditions, after.Conditions) || after.SandboxStatus.Name != "" {
		t.Errorf("it was %+v, and is %+v", before, after)
	}
	if n := writesTo(c, "sandbox", "expired"); len(n) > 0 {
		t.Errorf("a sandbox was made for it: %q", n)
	}
}

// filled holds when a pool is full and says so, whoever made its members.
func filled(pool string, n int) world.Condition {
	return world.All(world.Full(pool, n), world.Counted(pool, int32(n)))
}

// adoptsMember has a claim adopt one of the members that were left, as it is.
func adoptsMember(t *testing.T, w *kit.World) (*kit.Controller, *agents.Sandbox, *corev1.Pod) {
	t.Helper()
	before := uids(w)
	c := w.Controller()
	w.Await(taken)
	w.Create(world.Claim("new", "p"))
	w.Await(world.Bound("new"), filled("p", 2), world.Annotated("new"), c.Settled())
	name := w.SandboxOf("new")
	if !slices.Contains([]string{"p-aaaaa", "p-bbbbb"}, name) {
		t.Fatalf("the claim was given %s", name)
	}
	b, pod := w.Sandbox(name), w.Pod(name)
	if b.UID != before["sandbox/"+name] || pod.UID != before["pod/"+name] {
		t.Error("it was made anew")
	}
	if len(b.OwnerReferences) != 1 || b.OwnerReferences[0].UID != w.Claim("new").UID {
		t.Errorf("its owners are %v", b.OwnerReferences)
	}
	return c, b, pod
}

func TestAMemberOfTheIncumbentIsAdoptedAndLosesWhatAPoolPutOnIt(t *testing.T) {
	w := left(t)
	c, b, pod := adoptsMember(t, w)
	has(t, b, map[string]string{
		apply.LabelLaunch: "warm", apply.LabelRevision: w.Revision("t"), apply.LabelClaimUID: string(w.Claim("new").UID),
		apply.LabelPool: "", apply.LabelBlueprintHash: "", apply.LabelPodTemplateHash: "",
	})
	notes(t, b, map[string]string{apply.AnnotationPolicy: apply.PolicyName("t")})
	has(t, pod, map[string]string{apply.LabelPool: "", "app": "python", apply.LabelTemplate: apply.Hash("t")})
	if _, still := pod.Annotations[apply.AnnotationSafeToEvict]; still {
		t.Error("its pod is still safe to evict")
	}
	if _, still := b.Spec.PodTemplate.ObjectMeta.Annotations[apply.AnnotationSafeToEvict]; still {
		t.Error("its next pod would be safe to evict")
	}
	same(t, writesTo(c, "sandbox", b.Name), "takeover", "adopt")
	same(t, slices.Compact(writesTo(c, "pod", b.Name)), "ready", "takeover", "bound")
	for _, o := range []metav1.Object{b, pod} {
		if apply.Inherited(o) {
			t.Errorf("the incumbent still owns fields that are Kiln's: %v", o.GetManagedFields())
		}
		owned(t, o)
	}
	unhurt(t, c)
}

func TestASwitchToRecreateKeepsMembersWhoseTemplateSaysTheSame(t *testing.T) {
	w := left(t)
	before := uids(w)
	c := w.Controller()
	w.Await(taken)
	w.PatchPool("p", `{"updateStrategy":{"type":"Recreate"}}`)
	w.Create(world.Claim("new", "p"))
	w.Await(filled("p", 2), world.Bound("new"), observes(w, "t"), c.Settled())
	for name, uid := range before {
		if now, ok := uids(w)[name]; ok && now != uid || !ok {
			t.Errorf("%s was replaced", name)
		}
	}
	w.Await(world.PodHasState(w.SandboxOf("new"), states.Bound))
	if !slices.Contains([]string{"p-aaaaa", "p-bbbbb"}, w.SandboxOf("new")) {
		t.Errorf("the claim was given %s", w.SandboxOf("new"))
	}
}

func TestMembersOfTheIncumbentFollowAChangeOfTheirTemplate(t *testing.T) {
	w := left(t)
	c := w.Controller()
	w.Await(taken)
	old := []*corev1.Pod{w.Pod("p-aaaaa"), w.Pod("p-bbbbb")}
	w.PatchPool("p", `{"updateStrategy":{"type":"Recreate"}}`)
	w.ChangeTemplate("t", "newer")
	w.Await(world.Deleted(old[0]), world.Deleted(old[1]), filled("p", 2), world.Bound("warm", "own"), c.Settled())
	for _, m := range w.Members("p") {
		has(t, w.Sandbox(m), map[string]string{apply.LabelRevision: w.Revision("t")})
	}
	unhurt(t, c)
}

// Whatever is lost in the middle of a takeover, the next leader finishes it.
func TestATakeoverThatIsCutShortIsFinished(t *testing.T) {
	for _, row := range []struct {
		name, kind string
		behaviour  func(*kit.Controller) kit.Behaviour
	}{
		{"before the sandbox is taken over", "sandbox", kit.CrashBefore},
		{"after the sandbox was taken over", "sandbox", kit.CrashAfter},
		{"before the pod is taken over", "pod", kit.CrashBefore},
		{"after the pod was taken over", "pod", kit.CrashAfter},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := left(t)
			first := w.Controller()
			first.Wire.Inject(kit.Fault{On: kit.On(row.kind, "takeover"), Do: row.behaviour(first)})
			w.Await(taken)
			w.Create(world.Claim("new", "p"))
			w.Await(first.Dead())
			w.Controller()
			w.Await(world.Bound("new", "warm", "own"), filled("p", 2))
			has(t, w.Sandbox(w.SandboxOf("new")), map[string]string{
				apply.LabelLaunch: "warm", apply.LabelPool: "", apply.LabelRevision: w.Revision("t"),
			})
		})
	}
}

func TestAnInheritedClaimWhoseSandboxIsLostSaysSoAndNamesItNoMore(t *testing.T) {
	w := left(t)
	c := w.Controller()
	w.Await(taken)
	w.Delete(w.Sandboxes(), "p-ccccc")
	w.Await(world.HasState("warm", states.Stale), world.HasReason("warm", "SandboxLost"))
	if named := w.Claim("warm").Status.SandboxStatus; named.Name != "" || len(named.PodIPs) > 0 {
		t.Errorf("it still names %+v", named)
	}
	unhurt(t, c)
}

// A write that goes wrong in the middle of a takeover is tried again, and what was
// done already is not done twice.
func TestATakeoverThatGoesWrongIsTriedAgain(t *testing.T) {
	for name, behaviour := range map[string]kit.Behaviour{
		"the write is lost": kit.Drop, "the answer is lost": kit.LoseAnswer, "somebody was faster": kit.Answer(409, metav1.StatusReasonConflict),
		"the server is ill": kit.Answer(500, metav1.StatusReasonInternalError),
	} {
		for _, kind := range []string{"sandbox", "pod"} {
			t.Run(kind+": "+name, func(t *testing.T) {
				w := left(t)
				before := uids(w)
				c := w.Controller()
				c.Wire.Inject(kit.Fault{On: kit.On(kind, "takeover"), Do: behaviour})
				w.Await(taken)
				w.Create(world.Claim("new", "p"))
				w.Await(world.Bound("new", "warm", "own"), filled("p", 2), c.Settled())
				if got := w.SandboxOf("new"); before["sandbox/"+got] != w.Sandbox(got).UID {
					t.Errorf("it was given %s, which was made anew", got)
				}
			})
		}
	}
}

// Taken over beforehand, by hand, no claim pays for it.
func TestWhatWasTakenOverAtOnceIsNotTakenOverAgain(t *testing.T) {
	w := left(t)
	applier, err := apply.New(kit.Config(), apply.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p-aaaaa", "p-bbbbb", "p-ccccc", "own"} {
		for _, o := range []apply.Regarding{w.Sandbox(name), w.Pod(name)} {
			took, err := applier.TakeOver(w.Context(), o, false)
			if err != nil {
				t.Fatal(err)
			}
			w.Await(world.Seen(took))
		}
	}
	c := w.Controller()
	w.Await(taken)
	w.Create(world.Claim("new", "p"))
	w.Await(world.Bound("new"), filled("p", 2), c.Settled())
	name := w.SandboxOf("new")
	same(t, writesTo(c, "sandbox", name), "adopt")
	same(t, slices.Compact(writesTo(c, "pod", name)), "ready", "bound")
	has(t, w.Sandbox(name), map[string]string{apply.LabelLaunch: "warm", apply.LabelPool: "", apply.LabelRevision: w.Revision("t")})
	has(t, w.Pod(name), map[string]string{apply.LabelPool: ""})
	unhurt(t, c)
}

// What Kiln leaves can be run by the agent-sandbox controller: every object carries
// what that looks for.
func TestWhatKilnLeavesTheIncumbentCanRun(t *testing.T) {
	w, c := started(t, 2)
	w.Create(world.Pool("empty", 0), world.Claim("a", "p"), world.Claim("own", "empty"), world.Sandbox("mine"), sandbox(withService, withVolume))
	w.Await(world.Bound("a", "own"), world.Annotated("a", "own"), world.PodHasState("mine", states.Bound), world.PodHasState("s", states.Bound), c.Settled())
	w.CatchUp() // the member that was adopted is seen to be no member any more
	w.Await(filled("p", 2), world.Reported, c.Settled())
	for _, m := range w.Members("p") {
		b, pod := w.Sandbox(m), w.Pod(m)
		has(t, b, map[string]string{
			"agents.x-k8s.io/launch-type": "warm", "agents.x-k8s.io/created-by": "controller",
			"agents.x-k8s.io/warm-pool-sandbox": apply.Hash("p"), "agents.x-k8s.io/sandbox-template-ref-hash": apply.Hash("t"),
			"agents.x-k8s.io/sandbox-template-hash": hash, "agents.x-k8s.io/sandbox-pod-template-hash": hash,
		})
		notes(t, b, map[string]string{"agents.x-k8s.io/pod-name": m, "agents.x-k8s.io/sandbox-template-ref": "t"})
		has(t, pod, map[string]string{
			"agents.x-k8s.io/sandbox-name-hash": apply.Hash(m), "agents.x-k8s.io/warm-pool-sandbox": apply.Hash("p"),
			"agents.x-k8s.io/sandbox-template-ref-hash": apply.Hash("t"), "agents.x-k8s.io/created-by": "controller",
		})
		notes(t, pod, map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"})
		controlled(t, b, "extensions.agents.x-k8s.io/v1beta1", "SandboxWarmPool", "p")
		controlled(t, pod, "agents.x-k8s.io/v1beta1", "Sandbox", m)
	}
	for claim, launch := range map[string]string{"a": "warm", "own": "cold"} {
		name := w.SandboxOf(claim)
		b, pod, of := w.Sandbox(name), w.Pod(name), w.Claim(claim)
		has(t, b, map[string]string{
			"agents.x-k8s.io/launch-type": launch, "agents.x-k8s.io/claim-uid": string(of.UID), "agents.x-k8s.io/warm-pool-sandbox": "",
			"agents.x-k8s.io/sandbox-template-ref-hash": apply.Hash("t"),
			"agents.x-k8s.io/sandbox-template-hash":     "", "agents.x-k8s.io/sandbox-pod-template-hash": "",
		})
		notes(t, b, map[string]string{"agents.x-k8s.io/pod-name": name, "agents.x-k8s.io/sandbox-template-ref": "t"})
		has(t, pod, map[string]string{
			"agents.x-k8s.io/sandbox-name-hash": apply.Hash(name), "agents.x-k8s.io/warm-pool-sandbox": "",
			"agents.x-k8s.io/sandbox-template-ref-hash": apply.Hash("t"),
		})
		if _, still := pod.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"]; still {
			t.Errorf("the pod of %s is still safe to evict", claim)
		}
		notes(t, of, map[string]string{"agents.x-k8s.io/sandbox-name": name})
		controlled(t, b, "extensions.agents.x-k8s.io/v1beta1", "SandboxClaim", claim)
		controlled(t, pod, "agents.x-k8s.io/v1beta1", "Sandbox", name)
	}
	has(t, template(w), map[string]string{"agents.x-k8s.io/sandbox-template-ref-hash": apply.Hash("t")})
	has(t, w.Pod("mine"), map[string]string{"agents.x-k8s.io/sandbox-name-hash": apply.Hash("mine"), "agents.x-k8s.io/warm-pool-sandbox": ""})
	controlled(t, w.Pod("mine"), "agents.x-k8s.io/v1beta1", "Sandbox", "mine")
	service, err := services(w).Get(w.Context(), "s", metav1.GetOptions{})
	if err != nil || service.Spec.ClusterIP != "None" || service.Spec.Selector["agents.x-k8s.io/sandbox-name-hash"] != apply.Hash("s") {
		t.Errorf("the Service is %v, %v", service, err)
	}
	storage, err := volumes(w).Get(w.Context(), "data-s", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []metav1.Object{service, storage} {
		has(t, o, map[string]string{"agents.x-k8s.io/sandbox-name-hash": apply.Hash("s")})
		controlled(t, o, "agents.x-k8s.io/v1beta1", "Sandbox", "s")
	}
}

func template(w *kit.World) (t *ext.SandboxTemplate) {
	w.Look(func(s *world.Snapshot) { t = s.Templates["t"] })
	return t
}

// hash stands for any eight hex digits.
const hash = "eight hex digits"

// has checks labels; an empty one must not be there.
func has(t *testing.T, o metav1.Object, labels map[string]string) {
	t.Helper()
	compare(t, o, o.GetLabels(), labels)
}

// notes checks annotations.
func notes(t *testing.T, o metav1.Object, annotations map[string]string) {
	t.Helper()
	compare(t, o, o.GetAnnotations(), annotations)
}

func compare(t *testing.T, o metav1.Object, is, want map[string]string) {
	t.Helper()
	for k, v := range want {
		got, ok := is[k]
		hex := v == hash && len(got) == 8 && strings.Trim(got, "0123456789abcdef") == ""
		if ok != (v != "") || got != v && !hex {
			t.Errorf("%s %s: %s is %q, want %q", world.KindOf(o), o.GetName(), k, got, v)
		}
	}
}

func controlled(t *testing.T, o metav1.Object, version, kind, name string) {
	t.Helper()
	ref := metav1.GetControllerOf(o)
	if ref == nil || len(o.GetOwnerReferences()) != 1 || ref.APIVersion != version || ref.Kind != kind || ref.Name != name ||
		ref.BlockOwnerDeletion == nil || !*ref.BlockOwnerDeletion {
		t.Errorf("%s %s: its owners are %v", world.KindOf(o), o.GetName(), o.GetOwnerReferences())
	}
}

// writesTo are the verbs of a controller's writes to an object, in order.
func writesTo(c *kit.Controller, kind, name string) (verbs []string) {
	for _, w := range c.Wire.Writes() {
		if w.Kind == kind && w.Name == name {
			verbs = append(verbs, w.Verb)
		}
	}
	return verbs
}

// unhurt checks that no write of a controller was refused, or lost a race.
func unhurt(t *testing.T, c *kit.Controller) {
	t.Helper()
	for _, w := range c.Wire.Writes() {
		if w.Code >= 300 {
			t.Errorf("%s %s %s: the server answered %d", w.Kind, w.Verb, w.Name, w.Code)
		}
	}
}
