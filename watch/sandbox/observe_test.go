package sandbox

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/view"
)

func bound(c *ext.SandboxClaim) {
	c.Status.State, c.Status.SandboxStatus = ext.StateBound, ext.SandboxStatus{Name: "s", UID: "u"}
}

var quota = refusal{reason: states.ReasonPodProblem, part: states.PartPod, words: "quota", retry: true}

func invalid(generation int64) func(*agents.Sandbox) {
	return func(b *agents.Sandbox) {
		c := view.Condition(view.Ready, metav1.ConditionFalse, view.ReasonInvalid, "no")
		c.ObservedGeneration = generation
		b.Status.Conditions = []metav1.Condition{c}
	}
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
		{"a pod of another name that names its UID is not its pod", []metav1.Object{aSandbox(), running(second)}, learned{}, none},
		{"unless the sandbox itself says that name", []metav1.Object{aSandbox(func(b *agents.Sandbox) {
			b.Annotations = map[string]string{apply.AnnotationPodName: running(second).Name}
		}), running(second)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Pod, f.Readiness = states.PodReady, states.ReasonPodReady
		})},
		{"a pod of its name that is somebody else's", []metav1.Object{aSandbox(), running(ofOther)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Pod, f.Readiness = states.PodForeign, states.ReasonPodForeign
		})},
		{"several pods", []metav1.Object{aSandbox(), running(), running(second)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Pod, f.Readiness = states.PodMultiple, states.ReasonPodMultiple
		})},
		{"suspended", []metav1.Object{aSandbox(suspend)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Suspended, f.PodUnseen, f.Readiness = true, true, states.ReasonSuspended
		})},
		{"suspended, and the API server was asked for a pod", []metav1.Object{aSandbox(suspend)}, learned{podRead: true}, but(func(f *states.SandboxFacts) {
			f.Suspended, f.Readiness = true, states.ReasonSuspended
		})},
		{"a pod spec that is none", []metav1.Object{aSandbox(func(b *agents.Sandbox) { b.Spec.PodTemplate.Spec.Raw = []byte(`{"containres":[]}`) })}, learned{},
			but(func(f *states.SandboxFacts) { f.Blocked, f.Readiness = true, states.ReasonInvalid })},
		{"storage that is missing", []metav1.Object{aSandbox(stores)}, learned{}, but(func(f *states.SandboxFacts) { f.Volumes = states.UpkeepCreate })},
		{"storage that is its own", []metav1.Object{aSandbox(stores), itsVolume()}, learned{}, none},
		{"storage of another sandbox", []metav1.Object{aSandbox(stores), itsVolume(func(v *corev1.PersistentVolumeClaim) { v.OwnerReferences[0].UID = "another" })}, learned{},
			but(func(f *states.SandboxFacts) { f.Blocked, f.Readiness = true, states.ReasonPodProblem })},
		{"storage of nobody's that may be adopted", []metav1.Object{aSandbox(stores), itsVolume(func(v *corev1.PersistentVolumeClaim) {
			v.OwnerReferences, v.Labels = nil, map[string]string{apply.LabelAdoptable: "true"}
		})}, learned{}, but(func(f *states.SandboxFacts) { f.Volumes = states.UpkeepSync })},
		{"storage of nobody's that was its own", []metav1.Object{aSandbox(stores), itsVolume(func(v *corev1.PersistentVolumeClaim) { v.OwnerReferences = nil })}, learned{},
			but(func(f *states.SandboxFacts) { f.Volumes = states.UpkeepSync })},
		{"storage of nobody's", []metav1.Object{aSandbox(stores), itsVolume(func(v *corev1.PersistentVolumeClaim) { v.OwnerReferences, v.Labels = nil, nil })}, learned{},
			but(func(f *states.SandboxFacts) { f.Blocked, f.Readiness = true, states.ReasonPodProblem })},
		{"a Service that is missing", []metav1.Object{aSandbox(serves)}, learned{}, but(func(f *states.SandboxFacts) { f.Service = states.UpkeepCreate })},
		{"a Service that nobody asks for", []metav1.Object{aSandbox()}, learned{}, none},
		{"a Service that is its own", []metav1.Object{aSandbox(serves), itsService()}, learned{}, none},
		{"a Service that is kept", []metav1.Object{aSandbox(), itsService(func(is *corev1.Service) { is.Spec.Selector = nil })}, learned{}, none},
		{"a Service that is not wanted any more", []metav1.Object{aSandbox(noService), itsService()}, learned{}, but(func(f *states.SandboxFacts) { f.Service = states.UpkeepDelete })},
		{"a Service that is not wanted and not its own", []metav1.Object{aSandbox(noService), itsService(func(is *corev1.Service) { is.OwnerReferences = nil })}, learned{}, none},
		{"a Service that drifted", []metav1.Object{aSandbox(serves), itsService(func(is *corev1.Service) { is.Spec.Selector = nil })}, learned{},
			but(func(f *states.SandboxFacts) { f.Service = states.UpkeepSync })},
		{"a Service that may be adopted", []metav1.Object{aSandbox(serves), itsService(func(is *corev1.Service) {
			is.OwnerReferences, is.Labels[apply.LabelAdoptable] = nil, "true"
		})}, learned{}, but(func(f *states.SandboxFacts) { f.Service = states.UpkeepSync })},
		{"a Service that may be adopted and has an address", []metav1.Object{aSandbox(serves), itsService(func(is *corev1.Service) {
			is.OwnerReferences, is.Labels[apply.LabelAdoptable], is.Spec.ClusterIP = nil, "true", "10.0.0.1"
		})}, learned{}, but(func(f *states.SandboxFacts) { f.Readiness = states.ReasonPodProblem })},
		{"a pod that may be adopted", []metav1.Object{aSandbox(), running(adoptable)}, learned{}, but(func(f *states.SandboxFacts) { f.Pod = states.PodAdoptable })},
		{"a pod that may be adopted and terminates", []metav1.Object{aSandbox(), running(adoptable, deleted)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Pod, f.Readiness = states.PodForeign, states.ReasonPodForeign
		})},
		{"a pod that may be adopted, and a sandbox that is a pool's", []metav1.Object{aSandbox(ofPool), aPool(), running(adoptable)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Holder, f.Warm, f.Pod, f.Readiness = states.HolderPool, true, states.PodForeign, states.ReasonPodForeign
		})},
		{"a pod that is being deleted", []metav1.Object{aSandbox(suspend), running(deleted)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Suspended, f.Pod, f.Readiness = true, states.PodTerminating, states.ReasonSuspending
		})},
		{"one that will end", []metav1.Object{aSandbox(ends(noon.Add(time.Minute)))}, learned{}, but(func(f *states.SandboxFacts) { f.ExpiresIn = time.Minute })},
		{"one that will end in a year", []metav1.Object{aSandbox(ends(noon.AddDate(1, 0, 0)))}, learned{}, but(func(f *states.SandboxFacts) { f.ExpiresIn = longestSleep })},
		{"one that ends now", []metav1.Object{aSandbox(ends(noon.Time))}, learned{}, but(func(f *states.SandboxFacts) { f.Expired, f.Readiness = true, states.ReasonExpired })},
		{"one that ended, and whose end was moved", []metav1.Object{aSandbox(ends(noon.Add(time.Hour)), hasExpired)}, learned{},
			but(func(f *states.SandboxFacts) { f.Expired, f.Readiness = true, states.ReasonExpired })},
		{"what it asks for was never to be accepted", []metav1.Object{aSandbox(invalid(3), serves)}, learned{}, but(func(f *states.SandboxFacts) {
			f.Blocked, f.Readiness = true, states.ReasonInvalid
		})},
		{"what it asked for before was never to be accepted", []metav1.Object{aSandbox(invalid(2))}, learned{}, none},
		{"a refusal of this step", []metav1.Object{aSandbox()}, learned{refusal: quota, reported: states.ReasonPodProblem}, but(func(f *states.SandboxFacts) {
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
		{"one whose claim is being deleted", []metav1.Object{aSandbox(ofClaim), aClaim(func(c *ext.SandboxClaim) { c.DeletionTimestamp = &noon })}, learned{},
			but(func(f *states.SandboxFacts) {
				f.Holder, f.Warm, f.ClaimEnds, f.ClaimUntold = states.HolderGone, true, true, true
			})},
		{"one whose claim was told of it and is being deleted", []metav1.Object{aSandbox(ofClaim), aClaim(bound, func(c *ext.SandboxClaim) { c.DeletionTimestamp = &noon })}, learned{},
			but(func(f *states.SandboxFacts) {
				f.Holder, f.Warm, f.ClaimEnds, f.ClaimKnows = states.HolderGone, true, true, true
			})},
		{"one that was made for its claim", []metav1.Object{aSandbox(ofClaim, func(b *agents.Sandbox) { b.Labels[apply.LabelLaunch] = apply.LaunchCold }), aClaim()}, learned{},
			but(func(f *states.SandboxFacts) { f.Holder, f.Own = states.HolderClaim, true })},
		{"one whose claim was made again under its name and is being deleted", []metav1.Object{aSandbox(ofClaim), aClaim(func(c *ext.SandboxClaim) { c.UID, c.DeletionTimestamp = "another", &noon })},
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
		w.Churn.Add("u", podsFree, noon.Time)
	}
	f := w.Observe(key, learned{}).Facts
	w.g.Expect(f.Retire).To(Equal(states.ReasonStuck))
	w.g.Expect(f.PodDelay).To(Equal(time.Second))
}
