package sandbox

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/memory"
)

func bound(c *ext.SandboxClaim) {
	c.Status.State, c.Status.SandboxStatus = ext.StateBound, ext.SandboxStatus{Name: "s", UID: "u"}
}

// A row names the facts that differ from those of a user's sandbox without a pod.
func TestWhatIsGatheredOfASandbox(t *testing.T) {
	none := states.SandboxFacts{State: states.Warming, Readiness: states.ReasonPodMissing}
	but := func(change func(*states.SandboxFacts)) states.SandboxFacts { f := none; change(&f); return f }
	for _, row := range []struct {
		name  string
		has   []metav1.Object
		known learned
		want  states.SandboxFacts
	}{
		{"none", nil, learned{}, states.SandboxFacts{Gone: true}},
		{"a user's, without a pod", []metav1.Object{aSandbox()}, learned{}, none},
		{"its pod", []metav1.Object{aSandbox(), running(carries(states.Ready))}, learned{}, but(func(f *states.SandboxFacts) {
			f.Pod, f.State, f.Readiness = states.PodReady, states.Ready, states.ReasonPodReady
		})},
		{"a pod of another namespace that names its UID", []metav1.Object{aSandbox(), running(inB)}, learned{}, none},
		{"its pod, and one of another namespace that names its UID", []metav1.Object{aSandbox(), running(), running(inB, second)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Pod, f.Readiness = states.PodReady, states.ReasonPodReady
		})},
		{"a pod of another name that names its UID is its pod", []metav1.Object{aSandbox(), running(second)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Pod, f.Readiness = states.PodReady, states.ReasonPodReady
		})},
		{"a pod of its name that is somebody else's", []metav1.Object{aSandbox(), running(ofOther)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Pod, f.Readiness = states.PodForeign, states.ReasonPodForeign
		})},
		{"several pods", []metav1.Object{aSandbox(), running(), running(second)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Pod, f.Readiness = states.PodMultiple, states.ReasonPodMultiple
		})},
		{"suspended", []metav1.Object{aSandbox(suspend)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Blocked, f.Readiness = true, states.ReasonSuspended
		})},
		{"a pod spec that is none", []metav1.Object{aSandbox(func(b *agents.Sandbox) { b.Spec.PodTemplate.Spec.Raw = []byte(`{"containres":[]}`) })}, learned{},
			but(func(f *states.SandboxFacts) { f.Blocked, f.Readiness = true, states.ReasonPodProblem })},
		{"storage that this version does not make", []metav1.Object{aSandbox(func(b *agents.Sandbox) {
			b.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{}}
		})}, learned{}, but(func(f *states.SandboxFacts) { f.Blocked, f.Readiness = true, states.ReasonPodProblem })},
		{"a Service that this version does not make", []metav1.Object{aSandbox(func(b *agents.Sandbox) { yes := true; b.Spec.Service = &yes })}, learned{},
			but(func(f *states.SandboxFacts) { f.Blocked, f.Readiness = true, states.ReasonPodProblem })},
		{"a refusal of this step", []metav1.Object{aSandbox()}, learned{refusal: "quota", reported: states.ReasonPodProblem}, but(func(f *states.SandboxFacts) {
			f.Blocked, f.Retryable, f.Readiness, f.Reported = true, true, states.ReasonPodProblem, states.ReasonPodProblem
		})},
		{"retired", []metav1.Object{aSandbox(func(b *agents.Sandbox) { b.Annotations = map[string]string{apply.AnnotationRetired: "stuck"} })}, learned{},
			but(func(f *states.SandboxFacts) { f.Retired = true })},
		{"being deleted", []metav1.Object{aSandbox(func(b *agents.Sandbox) { b.DeletionTimestamp = &noon })}, learned{},
			but(func(f *states.SandboxFacts) { f.Terminating = true })},

		{"a member", []metav1.Object{aSandbox(ofPool), aPool()}, learned{}, but(func(f *states.SandboxFacts) {
			f.Holder, f.Warm = states.HolderPool, true
		})},
		{"a member of a pool that is not shown yet", []metav1.Object{aSandbox(ofPool)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Holder, f.Warm = states.HolderPool, true
		})},
		{"a member of a pool that ends", []metav1.Object{aSandbox(ofPool), aPool(func(p *ext.SandboxWarmPool) { p.DeletionTimestamp = &noon })}, learned{},
			but(func(f *states.SandboxFacts) { f.Holder, f.Warm, f.Terminating = states.HolderPool, true, true })},
		{"a member of a pool that was made again under its name", []metav1.Object{aSandbox(ofPool), aPool(func(p *ext.SandboxWarmPool) { p.UID = "another" })}, learned{},
			but(func(f *states.SandboxFacts) { f.Holder, f.Warm, f.Terminating = states.HolderPool, true, true })},

		{"one whose claim is not shown", []metav1.Object{aSandbox(ofClaim)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Holder, f.Warm = states.HolderUnseen, true
		})},
		{"one whose claim does not exist, as the server says", []metav1.Object{aSandbox(ofClaim)}, learned{claimIs: states.PresenceMissing},
			but(func(f *states.SandboxFacts) { f.Holder, f.Warm = states.HolderGone, true })},
		{"one whose claim's name is in another namespace", []metav1.Object{aSandbox(ofClaim), aClaim(func(c *ext.SandboxClaim) { c.Namespace = "b" })}, learned{},
			but(func(f *states.SandboxFacts) { f.Holder, f.Warm = states.HolderUnseen, true })},
		{"one whose claim's name is another claim's, which may be the one before", []metav1.Object{aSandbox(ofClaim), aClaim(func(c *ext.SandboxClaim) { c.UID = "another" })}, learned{},
			but(func(f *states.SandboxFacts) { f.Holder, f.Warm = states.HolderUnseen, true })},
		{"one whose claim was made again under its name, as the server says", []metav1.Object{aSandbox(ofClaim), aClaim(func(c *ext.SandboxClaim) { c.UID = "another" })},
			learned{claimIs: states.PresenceShown}, but(func(f *states.SandboxFacts) { f.Holder, f.Warm = states.HolderGone, true })},
		{"one whose claim was not told", []metav1.Object{aSandbox(ofClaim), aClaim()}, learned{loan: states.LoanOpen}, but(func(f *states.SandboxFacts) {
			f.Holder, f.Warm, f.Loan = states.HolderClaim, true, states.LoanOpen
		})},
		{"one whose claim knows", []metav1.Object{aSandbox(ofClaim), aClaim(bound)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Holder, f.Warm, f.ClaimKnows = states.HolderClaim, true, true
		})},
		{"one whose claim has refused it", []metav1.Object{aSandbox(ofClaim), aClaim(func(c *ext.SandboxClaim) { c.Status.RefusedSandboxes = []types.UID{"u"} })}, learned{},
			but(func(f *states.SandboxFacts) { f.Holder, f.Warm, f.Refused = states.HolderElsewhere, true, true })},
		{"one whose claim has another", []metav1.Object{aSandbox(ofClaim), aClaim(bound, func(c *ext.SandboxClaim) { c.Status.SandboxStatus.UID = "another" })}, learned{},
			but(func(f *states.SandboxFacts) { f.Holder, f.Warm = states.HolderElsewhere, true })},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, row.has...)
			w.g.Expect(w.Observe(key, row.known).Facts).To(Equal(row.want))
		})
	}
}

// What a watch does not show although it has passed what names it does not exist.
func TestAWatchThatIsPastASandboxKnowsThatItsOwnerIsGone(t *testing.T) {
	w := aWorld(t, aSandbox(ofClaim))
	informers := w.Stores.Informers()
	w.g.Expect(informers[2].GetIndexer().Add(&ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "other", ResourceVersion: "5"}})).To(Succeed())
	w.g.Expect(w.Observe(key, learned{}).Facts.Holder).To(Equal(states.HolderGone))

	w = aWorld(t, aSandbox(ofPool))
	w.g.Expect(w.Observe(key, learned{}).Facts.Terminating).To(BeFalse())
	informers = w.Stores.Informers()
	w.g.Expect(informers[3].GetIndexer().Add(&ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "other", ResourceVersion: "5"}})).To(Succeed())
	w.g.Expect(w.Observe(key, learned{}).Facts.Terminating).To(BeTrue(), "the garbage collector takes the member too")
}

func TestWhatTheProcessRemembersOfASandboxIsAFact(t *testing.T) {
	w := aWorld(t, aSandbox(ofPool), aPool())
	w.Retirements.Add("u", memory.Retirement{Reason: states.ReasonStuck})
	for range podsFree + 1 {
		w.Churn.Add("u", noon.Time)
	}
	f := w.Observe(key, learned{}).Facts
	w.g.Expect(f.Retire).To(Equal(states.ReasonStuck))
	w.g.Expect(f.PodDelay).To(Equal(time.Second))
}
