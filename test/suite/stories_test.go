package suite

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states/stories"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// The transcripts are the same that the pure world plays.
func TestEveryStoryGoesAsItsTranscriptSays(t *testing.T) {
	all, err := stories.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, story := range all {
		t.Run(story.Name, func(t *testing.T) {
			t.Parallel()
			s := &staged{World: kit.New(t), story: story, sizes: map[string]int{}, claims: map[string]bool{}, steps: map[move]int{}}
			s.c = s.Controller()
			s.Create(world.Template("t"))
			s.play()
		})
	}
}

// A staged story is told on a real server.
type staged struct {
	*kit.World
	c      *kit.Controller
	story  stories.Story
	step   int
	steps  map[move]int // the step to which what moved so far belongs
	sizes  map[string]int
	claims map[string]bool // those that have a sandbox in the end; false: they have lost it
	held   bool
	image  int
}

// A move is one transition of one object: the nth of its life.
type move struct {
	object types.UID
	nth    int
}

// play does one step after another. A step is over when all has moved that the
// transcript says and the world is at rest; whatever moves then is of the next.
func (s *staged) play() {
	for _, step := range s.story.Steps {
		for _, command := range step.Commands {
			s.do(command)
		}
		s.Await(world.All(s.rests, s.agrees))
		s.Look(s.close)
		s.step++
	}
}

func (s *staged) do(c stories.Command) {
	switch c.Verb {
	case stories.Pool:
		pool := world.Pool(c.Name, int32(c.Size))
		pool.Spec.UpdateStrategy.Type = ext.UpdateStrategyType(c.Strategy)
		s.sizes[c.Name] = c.Size
		s.Create(pool)
	case stories.Claim:
		s.claims[c.Name] = true
		s.Create(world.Claim(c.Name, c.Pool))
	case stories.DeleteClaim:
		claim := s.World.Claim(c.Name)
		delete(s.claims, c.Name)
		s.Delete(s.Claims(), c.Name)
		s.Await(world.Deleted(claim))
	case stories.DeleteSandbox:
		sandbox := s.World.Sandbox(s.SandboxOf(c.Name))
		s.claims[c.Name] = false
		s.Delete(s.Sandboxes(), sandbox.Name)
		s.Await(world.Deleted(sandbox))
	case stories.Scale:
		s.sizes[c.Name] = c.Size
		s.World.Scale(c.Name, int32(c.Size))
	case stories.HoldPods:
		s.held = true
		s.Kubelet.Hold()
	case stories.ReleasePods:
		s.held = false
		s.Kubelet.Release()
	case stories.Crash:
		s.c.Crash()
		s.c = s.Controller()
	case stories.TemplateChange:
		s.image++
		s.ChangeTemplate("t", fmt.Sprint("image:", s.image+1))
	}
}

// rests holds when nothing is left to be done. While pods are held there are
// members that are not ready and claims that wait.
func (s *staged) rests(now *world.Snapshot) error {
	bound, all := 0, 0
	for claim, has := range s.claims {
		if !has {
			continue
		}
		bound++
		if err := world.Bound(claim)(now); err != nil && !s.held {
			return err
		}
		if c, ok := now.Claims[claim]; s.held && (!ok || len(c.Status.Conditions) == 0) {
			return fmt.Errorf("claim %s does not say why it waits", claim)
		}
	}
	for pool, size := range s.sizes {
		all += size
		if n := len(now.Members(pool)); s.held && n != size {
			return fmt.Errorf("pool %s has %d members", pool, n)
		}
		if err := world.All(world.Full(pool, size), world.Counted(pool, int32(size)))(now); err != nil && !s.held {
			return err
		}
		if p, ok := now.Pools[pool]; !ok || p.Status.ObservedGeneration != p.Generation ||
			p.Status.ObservedTemplateGeneration != now.Templates["t"].Generation {
			return fmt.Errorf("pool %s has not observed its spec or template", pool)
		}
	}
	if n := len(now.Sandboxes); !s.held && n != all+bound || len(now.Pods) != n {
		return fmt.Errorf("there are %d sandboxes and %d pods; %d is right", n, len(now.Pods), all+bound)
	}
	return s.c.Settled()(now)
}

// agrees holds when what has moved is what the transcript says.
func (s *staged) agrees(now *world.Snapshot) error { return s.story.Check(s.moved(now)) }

// moved is what has moved in each step.
func (s *staged) moved(now *world.Snapshot) [][]stories.Transition {
	all := make([][]stories.Transition, s.step+1)
	each(now, func(m move, t world.Transition) {
		step, over := s.steps[m]
		if !over {
			step = s.step
		}
		all[step] = append(all[step], stories.Transition{
			Kind: t.Chart.Kind, Name: t.Object.GetName(), Pool: s.poolOf(t.Object),
			From: t.Bare, To: t.To, Event: string(t.Edge.Event), By: strings.Join(world.StateManagers(t.Object), ","),
		})
	})
	return all
}

// close counts what has moved to this step.
func (s *staged) close(now *world.Snapshot) {
	each(now, func(m move, _ world.Transition) {
		if _, over := s.steps[m]; !over {
			s.steps[m] = s.step
		}
	})
}

// each calls do with the moves from a state to another.
func each(now *world.Snapshot, do func(move, world.Transition)) {
	nth := map[types.UID]int{}
	for _, t := range now.Transitions {
		uid := t.Object.GetUID()
		nth[uid]++
		if t.From != world.Absent && t.To != world.Gone {
			do(move{uid, nth[uid]}, t)
		}
	}
}

// poolOf is the pool of which a pod was made a member: members are called after it.
func (s *staged) poolOf(o metav1.Object) string {
	for pool := range s.sizes {
		if _, claimed := s.claims[o.GetName()]; !claimed && world.KindOf(o) == "pod" && strings.HasPrefix(o.GetName(), pool+"-") {
			return pool
		}
	}
	return ""
}
