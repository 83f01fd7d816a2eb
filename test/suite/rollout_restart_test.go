package suite

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

func TestARolloutThatIsStuckIsNoLessStuckAfterARestart(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	var at clock
	patient := func(o *watch.Options) { o.Grace = 24 * time.Hour }
	first := w.Controller(at.keep, patient)
	w.Create(world.Template("t"), rolling("p", 4))
	w.Await(world.Full("p", 4))
	w.Kubelet.Break(broken)
	bad := w.ChangeTemplate("t", broken)
	w.Await(stopped(3, 2, bad), standing(5, 2, 0))
	at.forward(time.Hour)
	claims(w, ext.ClaimAny) // it looks at its clock
	w.Await(world.Progress("p", metav1.ConditionFalse, "ProgressDeadlineExceeded"))
	first.Stop()
	last := w.Pool("p").ResourceVersion
	w.Controller(at.keep, patient)
	claims(w, ext.ClaimFresh)
	w.Await(standing(5, 2, 0)) // the next one has looked, and said what it saw
	same(t, reasonsSince(w, last), "ProgressDeadlineExceeded")
	good := w.ChangeTemplate("t", "image:3")
	w.Await(world.Fresh("p", good), world.Converged("p", 4), world.Progress("p", metav1.ConditionFalse, "Complete"))
}

func TestARolloutThatHasArrivedIsNotUnderWayAgainAfterARestartWhenClaimsTakeMembers(t *testing.T) {
	w, first := rollable(t, rolling("p", 4))
	now := w.ChangeTemplate("t", "image:2")
	w.Await(world.Fresh("p", now), world.Converged("p", 4, "held"), world.Progress("p", metav1.ConditionFalse, "Complete"))
	last := w.Pool("p").ResourceVersion
	w.Kubelet.Release(append(w.Members("p"), w.SandboxOf("held"))...)
	w.Kubelet.Hold() // those that come next
	w.Create(world.Claim("a", "p"), world.Claim("b", "p"))
	w.Await(world.Bound("a", "b"), counted("p", 4, 2))
	first.Stop()
	w.Controller()
	claims(w, ext.ClaimAny)
	w.Await(standing(4, 4, 0)) // the next one has looked, and said what it saw
	same(t, reasonsSince(w, last), "Complete", "Warming")
	w.Kubelet.Release()
	w.Await(world.Converged("p", 4, "held", "a", "b"))
}

// claims changes which members of p claims may take.
func claims(w *kit.World, policy ext.ClaimPolicy) {
	w.PatchPool("p", `{"updateStrategy":{"rollingUpdate":{"claimPolicy":"`+string(policy)+`"}}}`)
}

// reasonsSince are the reasons that the Progressing condition of p has given, one
// after another, from a version on.
func reasonsSince(w *kit.World, version string) (reasons []string) {
	since := false
	for _, c := range w.History() {
		p, ok := c.Object.(*ext.SandboxWarmPool)
		if !ok || p.Name != "p" {
			continue
		}
		since = since || p.ResourceVersion == version
		said := meta.FindStatusCondition(p.Status.Conditions, "Progressing")
		if since && (len(reasons) == 0 || reasons[len(reasons)-1] != said.Reason) {
			reasons = append(reasons, said.Reason)
		}
	}
	return reasons
}
