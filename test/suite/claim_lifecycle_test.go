package suite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

// ending has a claim end at an hour, or some seconds after its work, in a way.
func ending(at *time.Time, seconds *int32, policy ext.ShutdownPolicy) func(*ext.SandboxClaim) {
	return func(c *ext.SandboxClaim) {
		c.Spec.Lifecycle = &ext.Lifecycle{TTLSecondsAfterFinished: seconds, ShutdownPolicy: policy}
		if at != nil {
			c.Spec.Lifecycle.ShutdownTime = &metav1.Time{Time: *at}
		}
	}
}

func soon() *time.Time { at := time.Now().Truncate(time.Second).Add(3 * time.Second); return &at }
func past() *time.Time { at := time.Now().Add(-time.Hour); return &at }

// toldOf are the Events about an object, each in a line, in the order of their time.
func toldOf(w *kit.World, name string) []string {
	all, err := w.Admin().EventsV1().Events(w.Namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return []string{err.Error()}
	}
	slices.SortFunc(all.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var lines []string
	for _, e := range all.Items {
		if e.Regarding.Name == name {
			lines = append(lines, fmt.Sprintf("%s %s %s (%s): %s", e.ReportingController, e.Type, e.Reason, e.Action, e.Note))
		}
	}
	return lines
}

// readyOf is what a claim says in its Ready condition.
func readyOf(w *kit.World, claim string) string {
	c := meta.FindStatusCondition(w.Claim(claim).Status.Conditions, "Ready")
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
}

// holdsNothing holds when a claim is stale and no sandbox names it.
func holdsNothing(claim string) world.Condition {
	return world.All(world.HasState(claim, states.Stale), func(s *world.Snapshot) error {
		if held := s.HeldBy(s.Claims[claim].UID); len(held) > 0 || s.SandboxOf(claim) != "" {
			return fmt.Errorf("claim %s still has %q and %q", claim, held, s.SandboxOf(claim))
		}
		return nil
	})
}

func TestAClaimThatIsRetainedEndsAtItsHourAndItsSandboxWithIt(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := kit.New(t)
	c := w.Controller()
	at := soon()
	w.Create(world.Template("t"), world.Pool("p", 1))
	w.Await(world.Full("p", 1))
	w.Create(world.Claim("a", "p", ending(at, nil, ext.ShutdownRetain)))
	w.Await(holdsNothing("a"), world.Full("p", 1))
	g.Expect(readyOf(w, "a")).To(Equal("False ClaimExpired Claim expired. Sandbox cleanup initiated."))
	for _, change := range w.History() {
		if claim, ok := change.Object.(*ext.SandboxClaim); ok && claim.Status.State == ext.StateStale {
			g.Expect(change.At.Before(*at)).To(BeFalse(), "it ended before its hour")
		}
	}
	g.Eventually(func() []string { return toldOf(w, "a") }).Should(ContainElement("sandboxclaim-controller Normal ClaimExpired (Claim Expired): Claim expired"))
	g.Expect(w.Events("a", "ClaimExpired")).To(Equal(1))
	c.Stop()
	again := w.Controller()
	w.Await(again.Settled(), world.Counted("p", 1))
	w.Create(world.Claim("b", "p"))
	w.Await(world.Bound("b"), holdsNothing("a"))
	for _, one := range again.Wire.Writes() {
		g.Expect(one.Name).NotTo(Equal("a"), "a claim that has ended is left alone: %s %s", one.Kind, one.Verb)
	}
}

func TestAClaimThatIsToGoWithItsHourIsDeleted(t *testing.T) {
	t.Parallel()
	for _, policy := range []ext.ShutdownPolicy{ext.ShutdownDelete, ext.ShutdownDeleteForeground} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			w := kit.New(t)
			w.Controller()
			w.Create(world.Template("t"), world.Pool("p", 1))
			w.Await(world.Full("p", 1))
			w.Create(world.Claim("a", "p"))
			w.Await(world.Bound("a"))
			claim, name := w.Claim("a"), w.Claim("a").Status.SandboxStatus.Name
			patchClaim(t, w, "a", fmt.Sprintf(`{"spec":{"lifecycle":{"shutdownTime":%q,"shutdownPolicy":%q}}}`, past().UTC().Format(time.RFC3339), policy))
			if policy == ext.ShutdownDeleteForeground {
				w.Await(func(s *world.Snapshot) error {
					if c := s.Claims["a"]; c == nil || !slices.Contains(c.Finalizers, metav1.FinalizerDeleteDependents) {
						return errWaits
					}
					return nil
				})
				w.Delete(w.Sandboxes(), name) // as the garbage collector does before it lets the owner go
				patchClaim(t, w, "a", `{"metadata":{"finalizers":null}}`)
			}
			w.Await(world.Deleted(claim), world.Converged("p", 1))
			g.Eventually(func() []string { return toldOf(w, "a") }).Should(ContainElements(
				"sandboxclaim-controller Normal ClaimExpired (Claim Expired): Claim expired",
				fmt.Sprintf("sandboxclaim-controller Normal ClaimExpired (Deleting): Deleting Claim (ShutdownPolicy=%s)", policy),
			))
		})
	}
}

// patchClaim changes a claim by a merge patch, as a user does.
func patchClaim(t *testing.T, w *kit.World, claim, patch string) {
	t.Helper()
	got, err := w.Claims().Patch(w.Context(), claim, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "hand"})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	if got.DeletionTimestamp == nil {
		w.Await(world.Seen(got))
	}
}

func TestAClaimEndsAWhileAfterItsWorkAndSaysHowThatEnded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := kit.New(t)
	w.Controller()
	none := int32(0)
	w.Create(world.Template("t"), world.Pool("p", 1))
	w.Await(world.Full("p", 1))
	w.Create(world.Claim("a", "p", ending(nil, &none, ext.ShutdownRetain)))
	w.Await(world.Bound("a"))
	w.Kubelet.Fail(w.Claim("a").Status.SandboxStatus.Name)
	w.Await(holdsNothing("a"))
	g.Expect(readyOf(w, "a")).To(Equal("False ClaimExpired Claim expired. Sandbox cleanup initiated."))
	done := meta.FindStatusCondition(w.Claim("a").Status.Conditions, "Finished")
	g.Expect(done).NotTo(BeNil())
	g.Expect(fmt.Sprintf("%s %s %s", done.Status, done.Reason, done.Message)).To(Equal("True PodFailed Pod failed"))
	g.Expect(w.Claim("a").Status.Conditions[0].Type).To(Equal("Finished"), "conditions are in the order of their types")
}

// On the second controller's clock two hours have passed, and the first one did not
// live to see the end.
func TestAnEndSurvivesARestartAndAClockThatJumps(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	first := w.Controller()
	at := time.Now().Add(time.Hour)
	w.Create(world.Template("t"), world.Pool("p", 1))
	w.Await(world.Full("p", 1))
	w.Create(world.Claim("a", "p", ending(&at, nil, ext.ShutdownRetain)))
	w.Await(world.Bound("a"))
	first.Stop()
	w.Controller(func(o *watch.Options) { o.Now = func() time.Time { return time.Now().Add(2 * time.Hour) } })
	w.Await(holdsNothing("a"), world.Full("p", 1))
}

// The incumbent writes no state. Its claim has ended, whatever its spec says by now,
// and never gets a sandbox again.
func TestAClaimThatHadEndedBeforeKilnCameGetsNoSandbox(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := kit.New(t)
	w.Create(world.Template("t"), world.Pool("p", 1), world.Claim("a", "p"))
	ended := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "ClaimExpired", Message: "Claim expired. Sandbox cleanup initiated.", LastTransitionTime: metav1.Now()}
	done := metav1.Condition{Type: "Finished", Status: metav1.ConditionTrue, Reason: "PodSucceeded", Message: "Pod completed successfully", LastTransitionTime: metav1.Now()}
	w.SetClaimStatus("a", ext.SandboxClaimStatus{Conditions: []metav1.Condition{done, ended}})
	c := w.Controller()
	w.Await(holdsNothing("a"), world.Full("p", 1))
	g.Expect(readyOf(w, "a")).To(Equal("False ClaimExpired Claim expired. Sandbox cleanup initiated."))
	g.Expect(meta.IsStatusConditionTrue(w.Claim("a").Status.Conditions, "Finished")).To(BeTrue())
	g.Expect(c.Wire.Count("sandbox", "adopt") + c.Wire.Count("sandbox", "cold")).To(BeZero())
	g.Expect(w.Events("a", "ClaimExpired")).To(BeZero(), "that is old news")
}

func TestAClaimThatEndsLeavesASandboxOfItsNameThatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := kit.New(t)
	w.Controller()
	w.Create(world.Template("t"), world.Pool("p", 0), world.Sandbox("a"))
	w.Await(world.SandboxSays("a", "DependenciesReady", ""))
	theirs := w.Sandbox("a").UID
	w.Create(world.Claim("a", "p", ending(past(), nil, ext.ShutdownRetain)))
	w.Await(world.HasReason("a", "ClaimExpired"))
	g.Expect(readyOf(w, "a")).To(Equal(`False ClaimExpired Claim expired. sandbox not owned by this claim: Sandbox "a" is owned by nobody; deletion skipped.`))
	g.Expect(w.Sandbox("a").UID).To(Equal(theirs))
	g.Expect(w.Sandbox("a").DeletionTimestamp).To(BeNil())
}

func TestAPoolsDefaultLifecycleIsCopiedOnceIntoClaimsThatHaveNone(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := kit.New(t)
	w.Controller()
	ttl, own := int32(600), int32(1)
	pool := world.Pool("p", 1)
	pool.Spec.ClaimDefaults.Lifecycle = &ext.Lifecycle{TTLSecondsAfterFinished: &ttl, ShutdownPolicy: ext.ShutdownDelete}
	w.Create(world.Template("t"), pool, world.Pool("bare", 0))
	w.Await(world.Full("p", 1))
	w.Create(world.Claim("a", "p"), world.Claim("own", "p", ending(nil, &own, "")), world.Claim("cold", "p", func(c *ext.SandboxClaim) { c.Spec.WarmPoolRef.Name = "bare" }))
	w.Await(world.Bound("a", "own", "cold"))
	given := &ext.Lifecycle{TTLSecondsAfterFinished: &ttl, ShutdownPolicy: ext.ShutdownDelete}
	g.Expect(w.Claim("a").Status.Lifecycle).To(Equal(given))
	g.Expect(w.Claim("own").Status.Lifecycle).To(BeNil(), "its own always wins")
	g.Expect(w.Claim("cold").Status.Lifecycle).To(BeNil(), "its pool gives none")
	w.PatchPool("p", `{"claimDefaults":{"lifecycle":{"ttlSecondsAfterFinished":5}}}`)
	w.PatchPool("bare", `{"claimDefaults":{"lifecycle":{"ttlSecondsAfterFinished":5}}}`)
	patchClaim(t, w, "a", `{"metadata":{"labels":{"look":"again"}}}`)
	w.Create(world.Claim("late", "p"))
	w.Await(world.Bound("late"))
	g.Expect(w.Claim("a").Status.Lifecycle).To(Equal(given), "never later")
	g.Expect(w.Claim("cold").Status.Lifecycle).To(BeNil(), "never later")
	g.Expect(*w.Claim("late").Status.Lifecycle.TTLSecondsAfterFinished).To(BeEquivalentTo(5))
	_, err := w.Pools().Patch(w.Context(), "p", types.MergePatchType,
		[]byte(`{"spec":{"claimDefaults":{"lifecycle":{"shutdownTime":"2027-01-01T00:00:00Z"}}}}`), metav1.PatchOptions{})
	g.Expect(err).To(MatchError(ContainSubstring("shutdownTime cannot be a default")))
}

func TestAPoolsDefaultEndsAClaim(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	ttl := int32(0)
	pool := world.Pool("p", 1)
	pool.Spec.ClaimDefaults.Lifecycle = &ext.Lifecycle{TTLSecondsAfterFinished: &ttl, ShutdownPolicy: ext.ShutdownDelete}
	w.Create(world.Template("t"), pool)
	w.Await(world.Full("p", 1))
	w.Create(world.Claim("a", "p"))
	w.Await(world.Bound("a"))
	claim := w.Claim("a")
	w.Kubelet.Fail(claim.Status.SandboxStatus.Name)
	w.Await(world.Deleted(claim), world.Converged("p", 1))
}

func TestAClaimWhoseSandboxExpiresByItselfSaysSo(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := kit.New(t)
	c := w.Controller()
	w.Create(world.Template("t"), world.Pool("p", 0), world.Claim("a", "p"))
	w.Await(resting(c, 0, "a"))
	c.Stop()
	b, err := w.Sandboxes().Get(w.Context(), "a", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	b.Status.Conditions = []agents.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "SandboxExpired", Message: "Sandbox has expired", LastTransitionTime: metav1.Now(), ObservedGeneration: b.Generation}}
	_, err = w.Sandboxes().UpdateStatus(w.Context(), b, metav1.UpdateOptions{FieldManager: "hand"})
	g.Expect(err).NotTo(HaveOccurred())
	again := w.Prepared(func(c *kit.Controller) { // its own word of the sandbox comes later
		c.Wire.Inject(kit.Fault{On: kit.On("sandboxstatus", "report"), Do: kit.Hold(kit.NewGate())})
	})
	w.Await(world.HasReason("a", "SandboxExpired"))
	g.Expect(readyOf(w, "a")).To(Equal("False SandboxExpired Underlying Sandbox resource has expired independently of the Claim."))
	again.Crash()
}
