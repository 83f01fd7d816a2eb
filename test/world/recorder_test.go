package world

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

// held is a sandbox that something controls, at a version.
func held(name string, by types.UID, version uint64) Change {
	b := Sandbox(name)
	b.UID, b.ResourceVersion = types.UID("uid of "+name), fmt.Sprint(version)
	if by != "" {
		yes := true
		b.OwnerReferences = []metav1.OwnerReference{{Kind: "K", Name: "k", UID: by, Controller: &yes}}
	}
	return Change{Object: b, Version: version}
}

func TestARecorderThatForgetsKeepsNothingOfWhatIsNoMore(t *testing.T) {
	g, r := NewWithT(t), NewRecorder()
	stays, goes := held("stays", "owner", 2), held("goes", "owner", 3)
	for _, c := range []Change{stays, goes, {Object: goes.Object, Deleted: true, Version: 4}} {
		r.see(c)
	}
	r.Forget()
	s := &r.snapshot
	g.Expect(s.versions).To(Equal(map[types.UID]uint64{"uid of stays": 2}))
	g.Expect(s.owners).To(HaveLen(1))
	g.Expect(s.owned).To(HaveLen(1))
	g.Expect(s.Deleted).To(BeEmpty())
	g.Expect(r.Holds(Seen(stays.Object))).To(Succeed())
}

func TestASandboxIsHeldByItsControllerAlone(t *testing.T) {
	g, s := NewWithT(t), newSnapshot()
	s.Take(held("b", "pool", 2))
	s.Take(held("a", "pool", 3))
	g.Expect(s.HeldBy("pool")).To(Equal([]string{"a", "b"}))
	s.Take(held("a", "claim", 4))
	g.Expect(s.HeldBy("pool")).To(Equal([]string{"b"}))
	g.Expect(s.HeldBy("claim")).To(Equal([]string{"a"}))
	g.Expect(s.Owned("claim")).To(ConsistOf(HaveField("Spec", BeAssignableToTypeOf(agents.SandboxSpec{}))))
	s.Take(held("a", "", 5))
	s.Take(Change{Object: held("b", "pool", 2).Object, Deleted: true, Version: 6})
	g.Expect(s.owned).To(BeEmpty())
	g.Expect(s.owners).To(BeEmpty())
}
