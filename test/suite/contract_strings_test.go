package suite

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// What a launch that takes long says, word by word.

func TestALaunchThatTakesLongSaysWhatIsMissing(t *testing.T) {
	w, c := cold(t, 0)
	w.Create(sandbox())
	w.Await(world.SandboxSays("s", "DependenciesNotReady", "Pod exists with phase: Pending"), c.Settled())
	_, err := w.Pods().Patch(w.Context(), "s", types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"$patch":"delete","type":"PodScheduled"}]}}`), metav1.PatchOptions{}, "status")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w.Await(func(s *world.Snapshot) error {
		if meta.IsStatusConditionTrue(s.Sandboxes["s"].Status.Conditions, "PodScheduled") {
			return errors.New("it still says that its pod is scheduled")
		}
		return nil
	})
	scheduled := meta.FindStatusCondition(w.Sandbox("s").Status.Conditions, "PodScheduled")
	g := NewWithT(t)
	g.Expect(scheduled).NotTo(BeNil())
	g.Expect([]string{string(scheduled.Status), scheduled.Reason, scheduled.Message}).
		To(Equal([]string{"Unknown", "PodSchedulingUnknown", "Pod has not reported a PodScheduled condition yet"}))
	w.Create(world.Claim("a", "p"))
	w.Await(world.ClaimSays("a", "SandboxNotReady", "Sandbox is not ready"))
}

func TestASandboxWhosePodsEndAsFastAsTheyAreMadeSaysThatItHasNone(t *testing.T) {
	w, _ := cold(t, 0)
	w.Create(sandbox())
	says := world.SandboxSays("s", "DependenciesNotReady", "Pod does not exist")
	for said := false; !said; { // each pod waits twice as long as the one before
		var pod *corev1.Pod
		w.Await(func(s *world.Snapshot) error {
			pod = s.Pods["s"]
			if said = says(s) == nil; !said && pod == nil {
				return errors.New("there is no pod, and the sandbox does not say so")
			}
			return nil
		})
		if !said {
			w.Delete(w.Pods(), "s")
			w.Await(world.Deleted(pod))
		}
	}
}

// What a claim says when something of its spec cannot be served.

func TestAClaimThatWouldChangeWhatItsTemplateSaysIsToldSo(t *testing.T) {
	w, _ := started(t, 0)
	template := world.Template("strict")
	template.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{"sandbox.users.io/tier": "gold"}
	template.Spec.VolumeClaimTemplatesPolicy = ext.VolumeClaimTemplatesAllowed
	template.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{
		ObjectMeta: agents.VolumeMetadata{Name: "data"},
		Spec:       raw(`{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`),
	}}
	pool := world.Pool("strict", 0)
	pool.Spec.TemplateRef.Name = "strict"
	w.Create(template, pool)
	w.Create(world.Claim("label", "strict", world.WithLabel("sandbox.users.io/tier", "lead")), world.Claim("volume", "strict", withStorage("data")))
	w.Create(world.Claim("nowhere", "none"))
	orphaned := world.Pool("orphaned", 0)
	orphaned.Spec.TemplateRef.Name = "none"
	w.Create(orphaned, world.Claim("nothing", "orphaned"))
	w.Await(
		world.ClaimSays("label", "InvalidMetadata", "metadata override conflict: "),
		world.ClaimSays("volume", "VolumeClaimTemplatesError", "failed to merge volume claim templates: overriding volume claim templates is forbidden by the template"),
		world.ClaimSays("nowhere", "WarmPoolNotFound", `SandboxWarmPool "none" not found`),
		world.ClaimSays("nothing", "TemplateNotFound", `SandboxTemplate "none" not found`),
	)
}

// Three reasons that claims do not give, and what they say in their place.

// saysNever fails if a claim has ever given a reason.
func saysNever(t *testing.T, w *kit.World, name, reason string) {
	t.Helper()
	for _, change := range w.History() {
		claim, ok := change.Object.(*ext.SandboxClaim)
		if !ok || claim.Name != name {
			continue
		}
		if ready := meta.FindStatusCondition(claim.Status.Conditions, "Ready"); ready != nil && ready.Reason == reason {
			t.Errorf("claim %s says %s: %s", name, reason, ready.Message)
		}
	}
}

func TestAClaimWhoseSandboxAHandDeletedHasLostIt(t *testing.T) {
	w, c := started(t, 1)
	w.Create(world.Claim("a", "p"))
	w.Await(resting(c, 1, "a"))
	w.Delete(w.Sandboxes(), w.SandboxOf("a"))
	w.Await(world.HasState("a", states.Stale), world.ClaimSays("a", "SandboxLost", ""), world.Full("p", 1))
	saysNever(t, w, "a", "SandboxMissing")
}

func TestAColdStartWhoseAnswerWasLostGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Kubelet.Hold()
	c := w.Prepared(func(c *kit.Controller) {
		c.Wire.Inject(kit.Fault{On: kit.On("sandbox", "cold"), Do: kit.LoseAnswer})
	})
	w.Create(world.Template("t"), world.Pool("p", 0), world.Claim("a", "p"))
	w.Await(world.ClaimSays("a", "SandboxNotReady", "Sandbox is not ready"))
	w.Kubelet.Release()
	w.Await(world.Told("a"), c.Settled())
	saysNever(t, w, "a", "SandboxCreatePending")
}

func TestAClaimThatLosesAMemberToAnotherTakesTheNext(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Prepared(func(c *kit.Controller) {
		c.Wire.Inject(kit.Fault{On: kit.On("sandbox", "adopt"), Do: kit.Answer(http.StatusConflict, metav1.StatusReasonConflict)})
	})
	w.Create(world.Template("t"), world.Pool("p", 2))
	w.Await(world.Full("p", 2))
	w.Create(world.Claim("a", "p"))
	w.Await(world.ClaimSays("a", "DependenciesReady", "Pod is Ready"), c.Settled())
	saysNever(t, w, "a", "AdoptionConflict")
}

// The Events about claims.

func TestTheEventsOfAClaim(t *testing.T) {
	w, c := started(t, 1)
	w.Create(world.Claim("warm", "p"))
	w.Await(resting(c, 1, "warm"))
	w.PatchPool("p", `{"replicas":0}`)
	w.Await(world.Converged("p", 0, "warm"))
	w.Create(world.Claim("cold", "p"))
	w.Await(world.Bound("cold"), c.Settled())
	last := w.Claim("cold")
	w.PatchClaim("cold", fmt.Sprintf(`{"lifecycle":{"shutdownTime":%q,"shutdownPolicy":"Delete"}}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)))
	w.Await(world.Deleted(last))
	g := NewWithT(t)
	g.Eventually(func() []string { return toldOf(w, "warm") }).WithTimeout(patience).Should(ContainElement(
		fmt.Sprintf("sandboxclaim-controller Normal SandboxAdopted (Adoption): %s %q", "Adopted warm pool Sandbox", w.SandboxOf("warm"))))
	g.Eventually(func() []string { return toldOf(w, "cold") }).WithTimeout(patience).Should(ContainElements(
		fmt.Sprintf("sandboxclaim-controller Normal SandboxProvisioned (Provisioning): %s %q", "Created Sandbox", "cold"),
		"sandboxclaim-controller Normal ClaimExpired (Deleting): Deleting Claim (ShutdownPolicy=Delete)"))
}

// The keys that others look for.

func TestTheTraceOfAClaimGoesOnInItsSandbox(t *testing.T) {
	w, c := started(t, 1)
	g := NewWithT(t)
	const key, trace = "opentelemetry.io/trace-context", `{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`
	traced := func(name string) *ext.SandboxClaim {
		claim := world.Claim(name, "p")
		claim.Annotations = map[string]string{key: trace}
		return claim
	}
	w.Create(traced("warm"))
	w.Await(resting(c, 1, "warm"))
	w.PatchPool("p", `{"replicas":0}`)
	w.Await(world.Converged("p", 0, "warm"))
	w.Create(traced("cold"))
	w.Await(resting(c, 0, "warm", "cold"))
	for _, name := range []string{"warm", "cold"} {
		g.Expect(w.Sandbox(w.SandboxOf(name)).Annotations).To(HaveKeyWithValue(key, trace), name)
		g.Expect(w.Pod(w.SandboxOf(name)).Annotations).NotTo(HaveKey(key), name)
	}
	g.Expect(c.Wire.Count("sandbox", "adopt")).To(Equal(1), "the adoption has brought it")
}

func TestTheAnnotationsOfAClaimAndItsPodHaveTheNamesThatOthersKnow(t *testing.T) {
	w, c := started(t, 0)
	w.PatchTemplate("t", `{"podTemplate":{"metadata":{"labels":{"team":"a"},"annotations":{"note":"x","opentelemetry.io/trace-context":"{}"}}}}`)
	w.PatchPool("p", `{"replicas":1}`)
	w.Await(world.Converged("p", 1))
	w.Create(world.Claim("a", "p"))
	w.Await(resting(c, 1, "a"))
	g := NewWithT(t)
	claim, pod := w.Claim("a"), w.Pod(w.SandboxOf("a"))
	for _, key := range []string{"agents.x-k8s.io/controller-first-observed-at", "agents.x-k8s.io/claim-first-ready-at"} {
		_, err := time.Parse(time.RFC3339Nano, claim.Annotations[key])
		g.Expect(err).NotTo(HaveOccurred(), key)
	}
	g.Expect(pod.Annotations).To(And(
		HaveKeyWithValue("agents.x-k8s.io/propagated-labels", "team"),
		HaveKeyWithValue("agents.x-k8s.io/propagated-annotations", "note"),
		HaveKeyWithValue("note", "x"),
		Not(HaveKey("opentelemetry.io/trace-context")),
	))
}
