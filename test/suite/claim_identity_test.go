package suite

import (
	"fmt"
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// BeTrueIn matches a condition that holds in a world now.
func BeTrueIn(w *kit.World) types.GomegaMatcher {
	return WithTransform(func(holds world.Condition) (err error) {
		w.Look(func(s *world.Snapshot) { err = holds(s) })
		return err
	}, Succeed())
}

// An annotation is free text, and the incumbent's own claims carry one that names
// their sandbox. It chooses nothing.
func TestNoAnnotationOfAClaimChoosesItsSandbox(t *testing.T) {
	w, c := started(t, 3)
	g := NewWithT(t)
	w.Create(world.Claim("first", "p"))
	w.Await(resting(c, 3, "first"))
	var free []string
	w.Look(func(s *world.Snapshot) { free = s.Free("p") })
	taken := w.Claim("first").Status.SandboxStatus.Name
	w.Create(world.Sandbox("mine"))
	for i, name := range append(free[1:], taken, "mine", "none") {
		claim := world.Claim(fmt.Sprintf("claim-%d", i), "p")
		claim.Annotations = map[string]string{apply.AnnotationSandboxName: name, apply.AnnotationPodName: name}
		claim.Labels = map[string]string{apply.AnnotationSandboxName: name}
		w.Create(claim)
		w.Await(world.Bound(claim.Name), world.Full("p", 3), world.Annotated(claim.Name))
		g.Expect(w.Claim(claim.Name).Status.SandboxStatus.Name).NotTo(BeElementOf(taken, "mine", "none"))
	}
	g.Expect(w.Claim("first").Status.SandboxStatus.Name).To(Equal(taken))
}

// A pool of the same name is full in another namespace, and its controller serves all
// of them.
func TestAClaimTakesFromAPoolOfItsOwnNamespaceAlone(t *testing.T) {
	t.Parallel()
	theirs, ours := kit.New(t), kit.New(t)
	theirs.Controller()
	ours.Controller()
	theirs.Create(world.Template("t"), world.Pool("p", 2))
	theirs.Await(world.Full("p", 2))
	ours.Create(world.Claim("a", "p"))
	ours.Await(world.ClaimSays("a", "WarmPoolNotFound", `SandboxWarmPool "p" not found`))
	NewWithT(t).Expect(world.Full("p", 2)).To(BeTrueIn(theirs))
	ours.Create(world.Template("t"), world.Pool("p", 1))
	ours.Await(world.Converged("p", 1, "a"))
	NewWithT(t).Expect(world.Converged("p", 2)).To(BeTrueIn(theirs))
}

func TestAnEditThatComesTooLateIsSaidSoOnce(t *testing.T) {
	w, c := started(t, 1)
	g := NewWithT(t)
	w.Create(world.Pool("q", 0), world.Claim("a", "p"))
	w.Await(resting(c, 1, "a"))
	const tail = ": changed after the claim got its sandbox, which stays as it is; create a new claim to have it otherwise"
	patchClaim(t, w, "a", `{"spec":{"env":[{"name":"A","value":"a"}],"warmPoolRef":{"name":"q"}}}`)
	w.Await(observed("a"), c.Settled())
	g.Eventually(func() []string { return toldOf(w, "a") }).Should(ContainElement(
		"sandboxclaim-controller Warning ChangeWithoutEffect (Editing): spec.env, spec.warmPoolRef" + tail))
	patchClaim(t, w, "a", `{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"x"},"spec":{}}]}}`)
	w.Await(observed("a"), c.Settled())
	g.Eventually(func() []string { return toldOf(w, "a") }).Should(ContainElement(
		"sandboxclaim-controller Warning ChangeWithoutEffect (Editing): spec.volumeClaimTemplates" + tail))
	patchClaim(t, w, "a", `{"metadata":{"labels":{"a":"b"}}}`)
	patchClaim(t, w, "a", `{"spec":{"additionalPodMetadata":{"labels":{"sandbox.users.io/a":"b"}}}}`)
	w.Await(observed("a"), c.Settled())
	g.Expect(w.Events("a", "ChangeWithoutEffect")).To(Equal(2))
	g.Expect(world.Bound("a")).To(BeTrueIn(w))
}

// Whatever can be edited in a claim does something, or the claim says that it does not:
// while it has its sandbox, and when it has lost it.
func TestEveryEditOfAClaimDoesSomethingOrIsSaidToDoNothing(t *testing.T) {
	w, c := started(t, 1)
	g := NewWithT(t)
	w.Create(world.Pool("q", 0), world.Claim("a", "p"))
	w.Await(resting(c, 1, "a"))
	held := w.SandboxOf("a")
	edits := []struct {
		field, bound, stale string
		does                world.Condition // while it has its sandbox
	}{
		{"env", `[{"name":"A","value":"a"}]`, `[{"name":"A","value":"b"}]`, nil},
		{"warmPoolRef", `{"name":"q"}`, `{"name":"p"}`, nil},
		{"volumeClaimTemplates", `[{"metadata":{"name":"x"},"spec":{}}]`, `[{"metadata":{"name":"y"},"spec":{}}]`, nil},
		{"additionalPodMetadata", `{"labels":{"sandbox.users.io/a":"b"}}`, `{"labels":{"sandbox.users.io/a":"c"}}`,
			podHas(held, map[string]string{"sandbox.users.io/a": "b"}, nil)},
		{"lifecycle", `{"shutdownTime":"2020-01-01T00:00:00Z"}`, `{"shutdownTime":"2120-01-01T00:00:00Z"}`,
			world.All(world.HasState("a", states.Stale), world.ClaimSays("a", "ClaimExpired", "Claim expired. Sandbox cleanup initiated."))},
	}
	spec := reflect.TypeOf(ext.SandboxClaimSpec{})
	g.Expect(edits).To(HaveLen(spec.NumField()), "every field")
	said := func(field, why string) string {
		return fmt.Sprintf("sandboxclaim-controller Warning ChangeWithoutEffect (Editing): spec.%s: changed after the claim %s; create a new claim to have it otherwise", field, why)
	}
	for _, edit := range edits {
		patchClaim(t, w, "a", `{"spec":{"`+edit.field+`":`+edit.bound+`}}`)
		if edit.does != nil {
			w.Await(edit.does, c.Settled())
			g.Expect(toldOf(w, "a")).NotTo(ContainElement(ContainSubstring("spec."+edit.field)), "it has done something")
			continue
		}
		w.Await(observed("a"), c.Settled())
		g.Eventually(func() []string { return toldOf(w, "a") }).WithTimeout(patience).Should(ContainElement(said(edit.field, "got its sandbox, which stays as it is")))
	}
	for _, edit := range edits {
		patchClaim(t, w, "a", `{"spec":{"`+edit.field+`":`+edit.stale+`}}`)
		g.Eventually(func() []string { return toldOf(w, "a") }).WithTimeout(patience).Should(ContainElement(said(edit.field, "ended, and it holds nothing any more")))
	}
	last := w.Claim("a")
	patchClaim(t, w, "a", `{"spec":{"lifecycle":{"shutdownTime":"2020-01-01T00:00:00Z","shutdownPolicy":"Delete"}}}`)
	w.Await(world.Deleted(last))
}

func TestAClaimSaysWhenItWasSeenAndWhenItWasFirstReady(t *testing.T) {
	w, c := started(t, 1)
	g := NewWithT(t)
	w.Create(world.Claim("a", "p"))
	w.Await(resting(c, 1, "a"))
	startup := w.Claim("a").Status.Startup
	g.Expect(startup.ControllerObservedTime.Time.After(startup.FirstReadyTime.Time)).To(BeFalse())
	for _, change := range w.History() {
		if claim, ok := change.Object.(*ext.SandboxClaim); ok && claim.Status.State == ext.StateBound {
			g.Expect(claim.Status.Startup).To(Equal(startup), "set once, with the status that says that it is bound")
		}
	}
	w.Kubelet.SetReady(w.Claim("a").Status.SandboxStatus.Name, false)
	w.Await(world.ClaimSays("a", "DependenciesNotReady", ""))
	w.Kubelet.SetReady(w.Claim("a").Status.SandboxStatus.Name, true)
	w.Await(world.Told("a"))
	g.Expect(w.Claim("a").Status.Startup).To(Equal(startup))
	g.Expect(c.Wire.Count("claim", "annotate")).To(Equal(1))
}
