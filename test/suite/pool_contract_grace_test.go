package suite

import (
	"fmt"
	"testing"
	"time"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

func withGrace(p *ext.SandboxWarmPool, seconds int32) *ext.SandboxWarmPool {
	p.Spec.ReadinessGracePeriodSeconds = &seconds
	return p
}

// retires holds when a member that a pool had is not its member any more.
func retires(pool string, had string) world.Condition {
	return func(s *world.Snapshot) error {
		for _, is := range s.Members(pool) {
			if is == had {
				return fmt.Errorf("pool %s keeps %s", pool, had)
			}
		}
		return nil
	}
}

func TestAPoolsOwnGraceOverridesTheFlagUpAndDown(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	var at clock
	c := w.Controller(at.keep, func(o *watch.Options) { o.Grace = 5 * time.Minute })
	w.Kubelet.Hold()
	w.Create(world.Template("t"), world.Pool("flag", 1), withGrace(world.Pool("down", 1), 30), withGrace(world.Pool("up", 1), 3600))
	w.Await(pods(3))
	had := map[string]string{}
	for _, pool := range []string{"flag", "down", "up"} {
		had[pool] = w.Members(pool)[0]
	}
	look := func() {
		for pool, member := range had {
			w.LabelPod(member, "look", fmt.Sprint(at.ahead.Load()))
			w.Await(members(pool, 1))
		}
	}
	at.forward(time.Minute)
	look()
	w.Await(retires("down", had["down"]), members("down", 1))
	delete(had, "down")
	at.forward(10 * time.Minute)
	look()
	w.Await(retires("flag", had["flag"]), members("flag", 1))
	delete(had, "flag")
	at.forward(-10 * time.Minute) // the young ones are to live
	w.Kubelet.Release()
	w.Await(world.Full("up", 1), world.Full("down", 1), world.Full("flag", 1))
	same(t, w.Members("up"), had["up"])
	if n := c.Wire.Count("sandbox", "retire"); n < 2 {
		t.Errorf("%d members were given up", n)
	}
}

func TestAnotherGraceMakesNoMemberOld(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(world.Template("t"), world.Recreating(world.Pool("p", 3)))
	w.Await(resting(c, 3))
	before, revision := w.Members("p"), w.Pool("p").Status.CurrentRevision
	w.PatchPool("p", `{"readinessGracePeriodSeconds":45}`)
	w.Await(world.Counted("p", 3))
	same(t, w.Members("p"), before...)
	is := w.Pool("p").Status
	if is.CurrentRevision != revision || is.UpdatedReadyReplicas != 3 {
		t.Errorf("the status says revision %s and %d members of it; it was %s", is.CurrentRevision, is.UpdatedReadyReplicas, revision)
	}
	if n := c.Wire.Count("sandbox", "retire"); n != 0 {
		t.Errorf("%d members were given up", n)
	}
}
