package apply

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/states"
)

// A line of claims stands still as long as the members that they wait for are launched
// behind every sandbox that is made for one claim.
func TestAMemberThatClaimsWaitForIsAsUrgentAsAClaimsOwnSandbox(t *testing.T) {
	g := NewWithT(t)
	member := aMember(t)
	pool := types.UID(OwnerOf(member).UID)
	a := &Applier{}
	all := func() []class {
		return []class{a.memberClass(pool), a.launchClass(member), a.moveClass(member, states.EventWarmed)}
	}
	g.Expect(all()).To(HaveEach(classWarm), "nobody has said that anybody waits")
	line := false
	a.Await(func(of types.UID) bool { return line && of == pool })
	g.Expect(all()).To(HaveEach(classWarm))
	line = true
	g.Expect(all()).To(HaveEach(classTake))
	g.Expect(a.memberClass("another")).To(Equal(classWarm), "nobody waits for that one's")
	g.Expect(a.moveClass(member, states.EventRetired)).To(Equal(classTrail), "nobody waits for its end")
	g.Expect(a.launchClass(aUsersSandbox())).To(Equal(classWarm))
}
