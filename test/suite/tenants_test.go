package suite

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// keep is a finalizer: what has it outlives its deletion.
const keep = "example.com/keep"

// controlledBy has an object name another as its controller. An owner reference is
// free text when an object is made.
func controlledBy(o, owner metav1.Object) {
	kind := map[string]metav1.OwnerReference{
		"sandbox": {APIVersion: agents.SchemeGroupVersion.String(), Kind: agents.KindSandbox},
		"claim":   {APIVersion: ext.SchemeGroupVersion.String(), Kind: ext.KindClaim},
		"pool":    {APIVersion: ext.SchemeGroupVersion.String(), Kind: ext.KindPool},
	}[world.KindOf(owner)]
	yes := true
	kind.Name, kind.UID, kind.Controller = owner.GetName(), owner.GetUID(), &yes
	o.SetOwnerReferences([]metav1.OwnerReference{kind})
}

// posing is a pod that says that it is a sandbox's.
func posing(name string, as metav1.Object) *corev1.Pod {
	p := world.Pod(name)
	p.Labels = map[string]string{apply.LabelNameHash: apply.Hash(as.GetName()), apply.LabelState: string(states.Ready)}
	controlledBy(p, as)
	return p
}

// stranger makes a pod as somebody who may make pods, and returns when it is Ready.
func stranger(t *testing.T, w *kit.World, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	made, err := w.Pods().Create(w.Context(), p, metav1.CreateOptions{FieldManager: "stranger"})
	if err != nil {
		t.Fatal(err)
	}
	w.Await(world.Seen(made), isUp(made.Name))
	return w.Pod(made.Name)
}

// isUp holds when a pod is Ready and has an address.
func isUp(pod string) world.Condition {
	return func(s *world.Snapshot) error {
		if p, ok := s.Pods[pod]; !ok || !world.IsReady(p) || p.Status.PodIP == "" {
			return fmt.Errorf("pod %s is not Ready", pod)
		}
		return nil
	}
}

// leave takes a stranger's pod away, finalizer and all.
func leave(t *testing.T, w *kit.World, pod string) {
	t.Helper()
	if _, err := w.Pods().Patch(w.Context(), pod, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Delete(w.Pods(), pod)
}

// published lists whatever of a history has ever given an address as its own.
func published(history []world.Change, ip string) (by []string) {
	for _, c := range history {
		var ips []string
		switch o := c.Object.(type) {
		case *agents.Sandbox:
			ips = o.Status.PodIPs
		case *ext.SandboxClaim:
			ips = o.Status.SandboxStatus.PodIPs
		}
		if slices.Contains(ips, ip) {
			by = append(by, c.String())
		}
	}
	return by
}

// saidOf lists the changes of a history in which a Ready condition gives a reason.
func saidOf(history []world.Change, reason string) (by []string) {
	for _, c := range history {
		var all []metav1.Condition
		switch o := c.Object.(type) {
		case *agents.Sandbox:
			all = o.Status.Conditions
		case *ext.SandboxClaim:
			all = o.Status.Conditions
		}
		if r := meta.FindStatusCondition(all, "Ready"); r != nil && r.Reason == reason {
			by = append(by, c.String())
		}
	}
	return by
}

// neighbours are two namespaces under one controller: a has a full pool p and a
// bound claim c, b has a template and nothing else.
func neighbours(t *testing.T) (a, b *kit.World, c *kit.Controller) {
	t.Helper()
	a, b = kit.New(t), kit.New(t)
	c = a.Controller(everywhere)
	b.Host(c)
	a.Create(world.Template("t"), world.Pool("p", 1), world.Claim("c", "p"))
	a.Await(resting(c, 1, "c"))
	b.Create(world.Template("t"))
	return a, b, c
}

// served has the controller serve a claim in a world, and so know all that was there
// before.
func served(w *kit.World, claim string) {
	w.Create(world.Pool(claim, 0), world.Claim(claim, claim))
	w.Await(world.Bound(claim))
}

// The rule: an index of owners has the namespace in its key.
func TestAPodOfAnotherNamespaceThatNamesASandboxIsNeverItsPod(t *testing.T) {
	a, b, c := neighbours(t)
	held := a.Sandbox(a.SandboxOf("c"))
	p := posing("x", held)
	p.Finalizers = []string{keep}
	x := stranger(t, b, p)
	served(b, "other")
	a.LabelPod(held.Name, "look", "again") // an event of the sandbox's
	served(a, "more")
	a.Delete(a.Pods(), held.Name) // now it has no pod but the stranger's
	a.Await(func(s *world.Snapshot) error {
		if pod, ok := s.Pods[held.Name]; !ok || s.Deleted[pod.UID] || !world.IsReady(pod) || s.PodState(held.Name) != "bound" {
			return errWaits
		}
		return nil
	}, world.Bound("c"), c.Settled())
	for _, wrong := range slices.Concat(saidOf(a.History(), "MultiplePods"), published(a.History(), x.Status.PodIP)) {
		t.Error("of another namespace's pod:", wrong)
	}
	leave(t, b, "x")
}

// The rule: what a pool's former members left is looked up by namespace and UID.
func TestPodsOfAnotherNamespaceTakeNoPlaceInAPool(t *testing.T) {
	a, b, _ := neighbours(t)
	pool := a.Pool("p")
	for i := range 8 {
		gone := world.Sandbox(fmt.Sprint("gone-", i))
		gone.UID = types.UID(fmt.Sprint("no-such-sandbox-", i))
		p := posing(gone.Name, gone)
		p.Finalizers, p.Annotations = []string{keep}, map[string]string{apply.AnnotationPoolUID: string(pool.UID)}
		p.Labels[apply.LabelState] = string(states.Warming)
		stranger(t, b, p)
	}
	served(b, "other")
	a.Delete(a.Sandboxes(), a.Members("p")...)
	a.Await(world.Full("p", 1), world.Counted("p", 1))
	for i := range 8 {
		leave(t, b, fmt.Sprint("gone-", i))
	}
}

// The rule: a claim holds what its namespace's sandboxes say, and names are never
// identity.
func TestASandboxOfAnotherNamespaceIsNeverGivenToAClaim(t *testing.T) {
	a, b, _ := neighbours(t)
	a.Create(world.Claim("waits", "none"))
	a.Await(world.HasReason("waits", "WarmPoolNotFound"))
	x := world.Sandbox("x")
	x.Labels = map[string]string{apply.LabelLaunch: apply.LaunchWarm, apply.LabelClaimUID: string(a.Claim("waits").UID)}
	controlledBy(x, a.Claim("waits"))
	member := world.Sandbox("p-member")
	member.Labels = map[string]string{apply.LabelLaunch: apply.LaunchWarm}
	controlledBy(member, a.Pool("p"))
	b.Create(x, member)
	served(b, "other")
	served(a, "more")
	a.Await(world.HasReason("waits", "WarmPoolNotFound"), world.Counted("p", 1))
	a.Create(world.Pool("none", 0))
	a.Await(world.Bound("waits"), world.Launched("cold", "waits"))
	b.Delete(b.Sandboxes(), "x", "p-member")
}

// The rule: a sandbox's pod has its name, or the one that the sandbox itself says.
func TestAPodOfAnotherNameIsNotTakenForTheSandboxesOwn(t *testing.T) {
	w, c := started(t, 1)
	w.Create(world.Claim("a", "p"))
	w.Await(resting(c, 1, "a"))
	held := w.SandboxOf("a")
	x := stranger(t, w, posing("x", w.Sandbox(held)))
	w.Await(world.SandboxSays(held, "MultiplePods", "2"))
	own := w.Pod(held)
	w.Delete(w.Pods(), held) // the stranger's is the only one that names it
	w.Await(world.Deleted(own), isUp(held))
	leave(t, w, "x")
	w.Await(resting(c, 1, "a"))
	for _, wrong := range published(w.History(), x.Status.PodIP) {
		t.Error("of a pod that it did not make:", wrong)
	}
	for _, c := range w.History() {
		if c.Object.GetUID() == x.UID && slices.Contains(world.StateManagers(c.Object), "kiln-state") {
			t.Error("Kiln moved it:", c)
		}
	}
}

// The rule: the controller reference says whose a pod is, as for every controller of
// Kubernetes. Who may make pods in a namespace may so make a sandbox's pod before Kiln
// does: it is that sandbox's, and a second one is not made. No other sandbox is concerned.
func TestAPodOfTheSandboxesNameThatNamesItsUIDIsItsPod(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c, create := w.Held("pod", "create")
	w.Create(world.Template("t"), world.Pool("empty", 0), world.Claim("a", "empty"))
	w.Await(create.Reached())
	theirs := stranger(t, w, posing("a", w.Sandbox("a")))
	create.Open()
	w.Await(world.Bound("a"), c.Settled())
	if p := w.Pod("a"); p.UID != theirs.UID || p.Labels[apply.LabelState] != string(states.Bound) {
		t.Errorf("pod a is %s in state %q, and %s was there first", p.UID, p.Labels[apply.LabelState], theirs.UID)
	}
	w.Create(world.Claim("b", "empty"))
	w.Await(world.Bound("b"))
	if b := w.Sandbox("b"); slices.Contains(b.Status.PodIPs, theirs.Status.PodIP) {
		t.Errorf("sandbox b has the address of a's pod: %v", b.Status.PodIPs)
	}
}

// The rule: a second pod is said, and neither chosen nor touched; what the claim was
// told stays.
func TestASecondPodThatNamesABoundSandboxIsSaidAndNothingElse(t *testing.T) {
	w, c := started(t, 1)
	w.Create(world.Claim("a", "p"))
	w.Await(resting(c, 1, "a"))
	held := w.Sandbox(w.SandboxOf("a"))
	x := stranger(t, w, posing("x", held))
	w.Await(world.SandboxSays(held.Name, "MultiplePods", "2"))
	if by := published(w.History(), x.Status.PodIP); len(by) > 0 {
		t.Errorf("its address is published: %q", by)
	}
	if got := w.Pod("x"); got.Labels[apply.LabelState] != "ready" || len(world.StateManagers(got)) != 1 {
		t.Errorf("Kiln touched it: %+v", got.Labels)
	}
	leave(t, w, "x")
	w.Await(resting(c, 1, "a"))
}

// The rule: what says that it is left of a member takes one place for as long as it
// is there, as the pod of a real one does; claims are served all the same.
func TestAStrangersPodWithTheMarkOfBirthTakesAPlaceAndHoldsNoClaimUp(t *testing.T) {
	w, c := started(t, 1)
	pool := w.Pool("p")
	for i := range 4 {
		gone := world.Sandbox(fmt.Sprint("x-", i))
		gone.UID = types.UID(fmt.Sprint("no-such-sandbox-", i))
		p := posing(gone.Name, gone)
		p.Annotations = map[string]string{apply.AnnotationPoolUID: string(pool.UID)}
		p.Labels[apply.LabelState] = string(states.Warming)
		stranger(t, w, p)
	}
	w.Create(world.Claim("a", "p"), world.Claim("b", "p"))
	w.Await(world.Bound("a"), world.Bound("b"), world.Launched("warm", "a"), world.Launched("cold", "b"))
	for i := range 4 {
		leave(t, w, fmt.Sprint("x-", i))
	}
	w.Await(resting(c, 1, "a", "b"))
}

// The rule: what bears the mark of a claim is no pool's, whoever wrote it there.
func TestAStrangersPodWithAClaimsLabelTakesNoPlace(t *testing.T) {
	w, _ := started(t, 1)
	pool := w.Pool("p")
	for i := range 4 {
		gone := world.Sandbox(fmt.Sprint("x-", i))
		gone.UID = types.UID(fmt.Sprint("no-such-sandbox-", i))
		p := posing(gone.Name, gone)
		p.Annotations = map[string]string{apply.AnnotationPoolUID: string(pool.UID)}
		p.Labels[apply.LabelState], p.Labels[apply.LabelClaimUID] = string(states.Stale), "anybody"
		stranger(t, w, p)
	}
	w.Create(world.Claim("a", "p"))
	w.Await(world.Bound("a"), world.Full("p", 1), world.Counted("p", 1))
}

// The rule: warm is what Kiln gave to this claim. What a hand gave it is its own
// sandbox, and is told when it is Ready.
func TestASandboxThatAHandGivesToAClaimIsToldWhenItIsReady(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Kubelet.Hold()
	w.Controller()
	w.Create(world.Template("t"), world.Claim("a", "none"))
	w.Await(world.HasReason("a", "WarmPoolNotFound"))
	x := world.Sandbox("x")
	x.Labels = map[string]string{apply.LabelLaunch: apply.LaunchWarm}
	controlledBy(x, w.Claim("a"))
	w.Create(x)
	w.Await(world.HasState("a", states.Warming))
	w.Kubelet.Release()
	w.Await(world.Bound("a"))
	for _, c := range w.History() {
		claim, ok := c.Object.(*ext.SandboxClaim)
		if ok && claim.Status.State == ext.StateBound && len(claim.Status.SandboxStatus.PodIPs) == 0 {
			t.Error("it was told of a sandbox that has no pod:", c)
		}
	}
}
