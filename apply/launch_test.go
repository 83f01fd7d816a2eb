package apply

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/cache"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A line of claims stands still as long as the members that they wait for are launched
// behind every sandbox that is made for one claim.
func TestAMemberThatAClaimWaitsForIsAsUrgentAsAClaimsOwnSandbox(t *testing.T) {
	g := NewWithT(t)
	member, other := aMember(t), aMember(t)
	other.Name = "other"
	a := &Applier{}
	of := func(s *agents.Sandbox) []class {
		return []class{a.launchClass(s), a.moveClass(s, states.EventWarmed)}
	}
	g.Expect(of(member)).To(HaveEach(classWarm), "nobody has said that anybody waits")
	line := false
	a.Await(func(m cache.ObjectName) bool { return line && m == cache.MetaObjectToName(member) })
	g.Expect(of(member)).To(HaveEach(classWarm))
	line = true
	g.Expect(of(member)).To(HaveEach(classTake))
	g.Expect(of(other)).To(HaveEach(classWarm), "nobody waits for that one")
	g.Expect(a.moveClass(member, states.EventRetired)).To(Equal(classTrail), "nobody waits for its end")
	g.Expect(a.launchClass(aUsersSandbox())).To(Equal(classWarm))
}
