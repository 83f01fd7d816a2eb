package suite

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

const ttl = "example.com/ttl"

// annotate has a template say an annotation of its pods, or none if the value is empty. It
// makes no member old.
func annotate(t *testing.T, w *kit.World, value string) {
	t.Helper()
	g := NewWithT(t)
	is, err := w.Templates().Get(w.Context(), "t", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	is.Spec.PodTemplate.ObjectMeta.Annotations = map[string]string{ttl: value}
	if value == "" {
		is.Spec.PodTemplate.ObjectMeta.Annotations = nil
	}
	is, err = w.Templates().Update(w.Context(), is, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	w.Await(world.Seen(is))
}

// withOldMembers is a pool whose members have an annotation that their template has no
// more.
func withOldMembers(t *testing.T, members int) (*kit.World, *kit.Controller) {
	t.Helper()
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	old := world.Template("t")
	old.Spec.PodTemplate.ObjectMeta.Annotations = map[string]string{ttl: "1h"}
	w.Create(old, world.Pool("p", int32(members)))
	w.Await(resting(c, members))
	annotate(t, w, "")
	w.CatchUp()
	return w, c
}

func TestAClaimPassesOverAMemberWhoseAnnotationConflictsAndTakesAnother(t *testing.T) {
	w, c := withOldMembers(t, 1)
	old := w.Members("p")[0]
	w.Scale("p", 2)
	w.Await(resting(c, 2))
	w.Create(world.Claim("a", "p", world.WithAnnotation(ttl, "2h")))
	w.Await(world.Bound("a"), world.Launched(apply.LaunchWarm, "a"), c.Settled())
	if got := w.SandboxOf("a"); got == old {
		t.Errorf("it has %s, whose pod says 1h", got)
	}
	if got := w.Pod(w.SandboxOf("a")).Annotations[ttl]; got != "2h" {
		t.Errorf("its pod says %q", got)
	}
	w.Create(world.Claim("b", "p"))
	w.Await(world.Bound("b"), world.Launched(apply.LaunchWarm, "b"))
	unhurt(t, c)
}

func TestAClaimWithWhichAllMembersConflictStartsCold(t *testing.T) {
	w, c := withOldMembers(t, 3)
	writes := len(c.Wire.Writes())
	w.Create(world.Claim("a", "p", world.WithAnnotation(ttl, "2h")))
	w.Await(world.Bound("a"), world.Launched(apply.LaunchCold, "a"), world.Annotated("a"), c.Settled())
	g := NewWithT(t)
	g.Expect(c.Wire.Count("sandbox", "adopt")).To(BeZero())
	g.Expect(c.Wire.Count("claimstatus", "report")).To(BeZero(), "it is told of no conflict")
	g.Expect(len(c.Wire.Writes())-writes).To(BeNumerically("<", 15), "nothing is tried again and again")
	w.Await(world.Full("p", 3))
	unhurt(t, c)
}

// A member that is starting may conflict too, which shows when it is ready: whoever waited
// for it does not wait on.
func TestAClaimThatWaitsForAMemberWithWhichItConflictsStartsCold(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Kubelet.Hold()
	old := world.Template("t")
	old.Spec.PodTemplate.ObjectMeta.Annotations = map[string]string{ttl: "1h"}
	w.Create(old, world.Pool("p", 1))
	w.Await(func(s *world.Snapshot) error {
		if len(s.Pods) == 0 {
			return errors.New("no pod yet")
		}
		return nil
	})
	annotate(t, w, "")
	w.Create(world.Claim("a", "p", world.WithAnnotation(ttl, "2h")))
	w.Await(world.HasReason("a", "AdoptionPending"))
	w.Kubelet.Release()
	w.Await(world.Bound("a"), world.Launched(apply.LaunchCold, "a"), world.Full("p", 1), c.Settled())
	unhurt(t, c)
}

// What the template says now is what a claim is told of.
func TestAClaimThatConflictsWithTheTemplateOfTodayIsTold(t *testing.T) {
	w, _ := withOldMembers(t, 1)
	annotate(t, w, "3h")
	w.Create(world.Claim("a", "p", world.WithAnnotation(ttl, "2h")))
	w.Await(world.ClaimSays("a", "InvalidMetadata", `metadata override conflict: spec.additionalPodMetadata.annotations[example.com/ttl] is "2h" and the template says "3h"`))
	annotate(t, w, "")
	w.Await(world.Bound("a"))
}
