package suite

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

// lines are the lines of a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
	return len(line), nil
}

// with are those that contain a text.
func (l *lines) with(text string) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, text) {
			all = append(all, line)
		}
	}
	return all
}

// The server refuses the adoption of a member, for whatever reason: the member leaves
// the shelf, its pool says which and why, and the claim gets another one.
func TestAMemberWhoseAdoptionIsRefusedIsSaidOfItsPoolAndTheClaimGetsAnother(t *testing.T) {
	t.Parallel()
	for code, reason := range map[int]metav1.StatusReason{http.StatusUnprocessableEntity: metav1.StatusReasonInvalid, http.StatusForbidden: metav1.StatusReasonForbidden} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			w := kit.New(t)
			c := w.Prepared(func(c *kit.Controller) {
				c.Wire.Inject(kit.Fault{On: kit.On("sandbox", "adopt"), Do: kit.Answer(code, reason)})
			})
			w.Create(world.Template("t"), world.Pool("p", 2))
			w.Await(resting(c, 2))
			w.Create(world.Claim("a", "p"))
			w.Await(world.Bound("a"), world.Launched(apply.LaunchWarm, "a"))
			var refused string
			for _, one := range c.Wire.Writes() {
				if one.Is("sandbox", "adopt") && refused == "" {
					refused = one.Name
				}
			}
			g.Expect(w.Claim("a").Status.SandboxStatus.Name).NotTo(Equal(refused))
			w.Await(world.PoolSays("p", "Degraded", "AdoptionRefused", fmt.Sprintf(
				"the API server refuses to hand out Sandbox %q: a fault of the test; it is tried again ever more rarely, and claims get others: mend what refuses, or delete the Sandbox", refused)))
			w.Await(world.Full("p", 2), c.Settled())
			g.Expect(c.Wire.Count("sandbox", "adopt")).To(Equal(1+1), "no hot loop")
			w.Delete(w.Sandboxes(), refused)
			w.Await(world.Converged("p", 2, "a"), world.PoolSays("p", "Degraded", "AsExpected", ""))
		})
	}
}

// Every member is refused: the claim gets a sandbox of its own, and nothing is tried
// again while nothing changes.
func TestAClaimOnAPoolWhoseMembersAreAllRefusedStartsCold(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := kit.New(t)
	stands, log := metav1.Now().Time, &lines{}
	refuse := kit.Fault{On: kit.On("sandbox", "adopt"), Do: kit.Answer(http.StatusForbidden, metav1.StatusReasonForbidden)}
	c := w.Prepared(func(c *kit.Controller) {
		for range 3 {
			c.Wire.Inject(refuse)
		}
	}, func(o *watch.Options) { o.Now, o.Log = stands.Local, slog.New(slog.NewTextHandler(log, nil)) })
	w.Create(world.Template("t"), world.Pool("p", 3))
	w.Await(world.Full("p", 3))
	w.Create(world.Claim("a", "p"))
	w.Await(world.Bound("a"), world.Launched(apply.LaunchCold, "a"), c.Settled())
	g.Expect(c.Wire.Count("sandbox", "adopt")).To(Equal(3), "each member once")
	w.Await(world.PoolSays("p", "Degraded", "AdoptionRefused", "a fault of the test"))
	said := log.with("the API server refuses to hand out a member")
	g.Expect(said).To(HaveLen(1), "once for one cause")
	g.Expect(said[0]).To(And(ContainSubstring("level=WARN"), ContainSubstring("pool="+w.Namespace+"/p "), ContainSubstring("claim="+w.Namespace+"/a "), ContainSubstring("a fault of the test")))
	w.Create(world.Claim("b", "p"))
	w.Await(world.Bound("b"), world.Launched(apply.LaunchCold, "b"), c.Settled())
	g.Expect(c.Wire.Count("sandbox", "adopt")).To(Equal(3), "they are on no shelf")
}
