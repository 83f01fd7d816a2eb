package sandbox

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/store"
)

func TestAPodWakesItsSandboxAndWhoCountsIt(t *testing.T) {
	born := func(p *corev1.Pod) { p.Annotations = map[string]string{apply.AnnotationPoolUID: "p-uid"} }
	for _, row := range []struct {
		name string
		has  []metav1.Object
		pod  *corev1.Pod
		want []string
	}{
		{"of a user's sandbox", []metav1.Object{aSandbox()}, running(), []string{"sandbox a/s"}},
		{"of a member", []metav1.Object{aSandbox(ofPool), aPool()}, running(born), []string{"sandbox a/s", "pool a/p"}},
		{"of a member that is no more", []metav1.Object{aPool()}, running(born), []string{"sandbox a/s", "pool a/p"}},
		{"of a member that is no more, in another namespace than the pool", []metav1.Object{aPool()}, running(born, inB), []string{"sandbox b/s"}},
		{"of nobody, in a sandbox's way", []metav1.Object{aSandbox()}, running(func(p *corev1.Pod) { p.OwnerReferences = nil }), []string{"sandbox a/s"}},
		{"of another sandbox, in a sandbox's way", []metav1.Object{aSandbox()}, running(ofOther, func(p *corev1.Pod) { p.OwnerReferences[0].Name = "t" }), []string{"sandbox a/s", "sandbox a/t"}},
		{"of nobody", nil, running(func(p *corev1.Pod) { p.OwnerReferences = nil }), nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, row.has...)
			w.onShelves()
			w.PodChanged(store.Change[*corev1.Pod]{Is: row.pod, HasIs: true})
			w.g.Expect(w.woken).To(Equal(row.want))
		})
	}
}

func TestWhatASandboxNeedsWakesIt(t *testing.T) {
	w := aWorld(t, aSandbox(stores))
	w.ServiceChanged(store.Change[*corev1.Service]{Was: itsService(), HadWas: true})
	w.VolumeChanged(store.Change[*corev1.PersistentVolumeClaim]{Is: itsVolume(func(v *corev1.PersistentVolumeClaim) { v.OwnerReferences = nil }), HasIs: true})
	w.VolumeChanged(store.Change[*corev1.PersistentVolumeClaim]{Is: itsVolume(func(v *corev1.PersistentVolumeClaim) { v.Name = "other" }), HasIs: true})
	w.g.Expect(w.woken).To(Equal([]string{"sandbox a/s", "sandbox a/s"}))
}

func TestAPodThatASandboxDoesNotWantAnyMoreIsNoLoss(t *testing.T) {
	w := aWorld(t, aSandbox(suspend))
	w.onShelves()
	w.PodChanged(store.Change[*corev1.Pod]{Was: running(), HadWas: true})
	w.g.Expect(w.Churn.Wait("u", 0, noon.Time)).To(BeZero())
}

func TestASandboxWakesItsOwnersOfBeforeAndAfter(t *testing.T) {
	member, taken := aSandbox(ofPool), aSandbox(ofClaim)
	for _, row := range []struct {
		name   string
		change store.Change[*agents.Sandbox]
		want   []string
	}{
		{"one that is new", store.Change[*agents.Sandbox]{Is: member, HasIs: true}, []string{"sandbox a/s", "pool a/p"}},
		{"one that was adopted", store.Change[*agents.Sandbox]{Was: member, HadWas: true, Is: taken, HasIs: true}, []string{"sandbox a/s", "claim a/c", "pool a/p"}},
		{"one that is gone, whose name a claim may wait for", store.Change[*agents.Sandbox]{Was: taken, HadWas: true}, []string{"claim a/c", "claim a/s"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t)
			w.onShelves()
			w.SandboxChanged(row.change)
			w.g.Expect(w.woken).To(Equal(row.want))
		})
	}
}

func TestALossIsCountedOfTheSandboxAndItsPool(t *testing.T) {
	lost := func(w *world, of types.UID) bool { return w.Churn.Wait(of, 0, noon.Time) > 0 }
	retired := func(b *agents.Sandbox) { b.Annotations = map[string]string{apply.AnnotationRetired: "surplus"} }
	for _, row := range []struct {
		name             string
		sandbox          *agents.Sandbox
		pool             *ext.SandboxWarmPool
		sandboxGoes      bool
		counted, poolToo bool
	}{
		{"a pod of a user's", aSandbox(), aPool(), false, true, false},
		{"a pod of a member", aSandbox(ofPool), aPool(), false, true, true},
		{"a pod of a member that was retired", aSandbox(ofPool, retired), aPool(), false, false, false},
		{"a member that somebody deleted", aSandbox(ofPool), aPool(), true, false, true},
		{"a member that was retired", aSandbox(ofPool, retired), aPool(), true, false, false},
		{"a pod of one that names the pool of another namespace", aSandbox(ofPool, func(b *agents.Sandbox) { b.Namespace = "b" }), aPool(), false, true, false},
		{"one that names the pool of another namespace", aSandbox(ofPool, func(b *agents.Sandbox) { b.Namespace = "b" }), aPool(), true, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, row.sandbox, row.pool)
			w.onShelves()
			if row.sandboxGoes {
				w.SandboxChanged(store.Change[*agents.Sandbox]{Was: row.sandbox, HadWas: true})
			} else {
				w.PodChanged(store.Change[*corev1.Pod]{Was: running(func(p *corev1.Pod) { p.Namespace = row.sandbox.Namespace }), HadWas: true})
			}
			w.g.Expect(lost(w, "u")).To(Equal(row.counted))
			w.g.Expect(lost(w, "p-uid")).To(Equal(row.poolToo))
		})
	}
}

// A pool on nodes that come and go loses members every day. That says nothing of those
// that it makes next.
func TestAMemberThatWasReadyIsNoLossOfItsPool(t *testing.T) {
	b := aSandbox(ofPool)
	pod := running()
	for name, end := range map[string]func(*world){
		"its pod vanishes":    func(w *world) { w.PodChanged(store.Change[*corev1.Pod]{Was: pod, HadWas: true}) },
		"somebody deletes it": func(w *world) { w.SandboxChanged(store.Change[*agents.Sandbox]{Was: b, HadWas: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := aWorld(t, b, aPool())
			w.onShelves()
			w.PodChanged(store.Change[*corev1.Pod]{Is: pod, HasIs: true})
			w.g.Expect(w.Churn.Lived("u")).To(BeTrue())
			end(w)
			w.g.Expect(w.Churn.Wait("p-uid", 0, noon.Time)).To(BeZero())
			w.g.Expect(w.Churn.Lived("u")).To(BeFalse(), "what comes next has not been ready")
		})
	}
}

// The event of a pod may come after the end of its sandbox, and a step may still run.
func TestNothingIsRememberedOfASandboxThatHasEnded(t *testing.T) {
	w := aWorld(t, aPool())
	w.onShelves()
	w.live(aSandbox(ofPool))
	w.lostPod(aSandbox())
	w.g.Expect(w.Churn.Len()).To(BeZero())
}

func TestWhatIsRememberedOfASandboxEndsWithIt(t *testing.T) {
	w := aWorld(t)
	w.onShelves()
	w.Churn.Add("u", podsFree, noon.Time)
	w.Retirements.Add("u", memory.Retirement{Reason: states.ReasonStuck})
	w.SandboxChanged(store.Change[*agents.Sandbox]{Was: aSandbox(), HadWas: true})
	w.g.Expect(w.Churn.Wait("u", 0, noon.Time)).To(BeZero())
	w.g.Expect(w.Retirements.Reason("u")).To(BeEmpty())
}

// Made and gone over a gap of the watch: what is remembered ends, and how it ended nobody
// has seen, so that it is no loss.
func TestNothingIsRememberedOfASandboxWhoseEndWasMissed(t *testing.T) {
	b := aSandbox(ofPool)
	w := aWorld(t, b, aPool())
	w.onShelves()
	w.PodChanged(store.Change[*corev1.Pod]{Was: running(), HadWas: true, Missed: true})
	w.g.Expect(w.Churn.Len()).To(BeZero(), "its pod's end was missed, too")
	w.PodChanged(store.Change[*corev1.Pod]{Is: running(), HasIs: true})
	w.Churn.Restart("u") // as if it had never been ready
	w.Churn.Add("u", podsFree, noon.Time)
	w.SandboxChanged(store.Change[*agents.Sandbox]{Was: b, HadWas: true, Missed: true})
	w.g.Expect(w.Churn.Len()).To(BeZero())
}
