package apply

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// readyStatus is the status of a sandbox that is Ready, or is not.
func readyStatus(is metav1.ConditionStatus) (s agents.SandboxStatus) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: ConditionReady, Status: is})
	return s
}

// A line of claims stands still as long as the members that they wait for are launched
// behind every sandbox that is made for one claim.
func TestAMemberThatAClaimWaitsForIsAsUrgentAsAClaimsOwnSandbox(t *testing.T) {
	g := NewWithT(t)
	member, other := aMember(t), aMember(t)
	other.Name = "other"
	a := &Applier{}
	of := func(s *agents.Sandbox) []class {
		return []class{a.launch(s, classTake).now(), a.ofReport(s, readyStatus(metav1.ConditionFalse)).now()}
	}
	g.Expect(of(member)).To(HaveEach(classWarm), "nobody has said that anybody waits")
	line := false
	a.Await(func(m cache.ObjectName) bool { return line && m == cache.MetaObjectToName(member) })
	g.Expect(of(member)).To(HaveEach(classWarm))
	line = true
	g.Expect(of(member)).To(HaveEach(classTake))
	g.Expect(of(other)).To(HaveEach(classWarm), "nobody waits for that one")
	g.Expect(a.ofMove(member, states.EventRetired).now()).To(Equal(classTrail), "nobody waits for its end")
	g.Expect(of(aUsersSandbox())).To(HaveEach(classWarm))
}

// A claim that has begun is finished before the next begins.
func TestWhatEndsALaunchThatAClaimWaitsForGoesBeforeWhatBeginsOne(t *testing.T) {
	g := NewWithT(t)
	own, member := made[agents.Sandbox](t, ownConfig(aClaim(), aBlueprint(t)), "sandbox"), aMember(t)
	a := &Applier{}
	ends := func(s *agents.Sandbox) []class {
		return []class{a.ofMove(s, states.EventWarmed).now(), a.ofReport(s, readyStatus(metav1.ConditionTrue)).now()}
	}
	g.Expect(ends(own)).To(HaveEach(classTell))
	g.Expect(ends(member)).To(HaveEach(classWarm), "nobody waits for it")
	a.Await(func(cache.ObjectName) bool { return true })
	g.Expect(ends(member)).To(HaveEach(classTell))
	own.Status = readyStatus(metav1.ConditionTrue)
	g.Expect(a.ofReport(own, readyStatus(metav1.ConditionTrue)).now()).To(Equal(classTake), "its launch was over before")
}

// Whoever waits behind a hundred others when a claim comes to wait for it would keep that
// claim waiting for them.
func TestAWriteThatWaitsIsHurriedWhenAClaimComesToWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		a := &Applier{gate: newGate(narrow)}
		line := map[string]bool{}
		a.Await(func(m cache.ObjectName) bool { return line[m.Name] })
		var busy []*place
		for range narrow[classWarm].most {
			p, err := a.gate.enter(t.Context(), ofClass(classWarm, flow{ns: "a", pool: "p"}))
			g.Expect(err).NotTo(HaveOccurred())
			busy = append(busy, p)
		}
		came := map[string]class{}
		gone := map[string]context.CancelFunc{}
		for _, name := range []string{"x", "y", "z"} {
			w := ofClass(classWarm, flow{ns: "a", pool: "p"})
			w.urgency = urgency{class: classWarm, hurried: classTake, member: cache.ObjectName{Namespace: "a", Name: name}, awaited: a.awaits}
			ctx, cancel := context.WithCancel(t.Context())
			gone[name] = cancel
			go func() {
				if p, err := a.gate.enter(ctx, w); err == nil {
					came[name] = p.class
					p.leave()
				}
			}()
			synctest.Wait()
		}
		a.Hurry(cache.ObjectName{Namespace: "b", Name: "y"})
		a.Hurry(cache.ObjectName{Namespace: "a", Name: "other"})
		synctest.Wait()
		g.Expect(came).To(BeEmpty(), "all wait")
		line["y"] = true
		a.Hurry(cache.ObjectName{Namespace: "a", Name: "y"})
		synctest.Wait()
		g.Expect(came).To(Equal(map[string]class{"y": classTake}), "it has the class that it was given")
		gone["x"]()
		synctest.Wait()
		busy[0].leave()
		synctest.Wait()
		g.Expect(came).To(Equal(map[string]class{"y": classTake, "z": classWarm}), "the others keep their places")
		busy[1].leave()
		g.Expect(a.gate.lines[classWarm].waiting).To(BeEmpty())
		g.Expect(a.gate.lines[classWarm].order).To(BeEmpty())
		g.Expect(a.gate.lines[classTake].busy).To(BeZero())
	})
}

// It is asked once more when it stands where Hurry looks: of the two, one sees the other.
func TestAClaimThatComesWhileAWriteGoesIntoItsLineIsNotOverlooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		a := &Applier{gate: newGate(narrow)}
		for range narrow[classWarm].most {
			_, err := a.gate.enter(t.Context(), ofClass(classWarm, flow{ns: "a"}))
			g.Expect(err).NotTo(HaveOccurred())
		}
		asked := 0
		a.Await(func(m cache.ObjectName) bool {
			asked++
			if asked == 1 {
				a.Hurry(m) // too early: the write waits nowhere
				return false
			}
			return true
		})
		w := ofClass(classWarm, flow{ns: "a"})
		w.urgency = urgency{class: classWarm, hurried: classTake, member: cache.ObjectName{Namespace: "a", Name: "x"}, awaited: a.awaits}
		p, err := a.gate.enter(t.Context(), w)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(p.class).To(Equal(classTake))
		g.Expect(asked).To(Equal(2))
	})
}
