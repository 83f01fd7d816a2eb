package suite

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/stage"
	"github.com/kiln-sandbox/kiln/test/world"
)

// P5: without faults Kiln meets no conflict and no 404 that comes of itself, of the
// kubelet or of the scheduler. People do all that they can do, also all at once; what
// they have changed or deleted under Kiln's hands is theirs.
func TestEverythingAtOnceWithoutFaultsMeetsNoConflictAndNoNotFound(t *testing.T) {
	rounds := stage.Number("KILN_ROUNDS", 2)
	for _, row := range []struct {
		name string
		with func(*kit.World) // a world may have more to do
	}{
		{"pods that become ready at once", func(*kit.World) {}},
		{"pods whose launch takes several writes", func(w *kit.World) { w.Kubelet.Chatter(3) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			w.Replay("testdata/takeover/v1.0.yaml")
			row.with(w)
			c := w.Controller()
			m := &mixture{t: t, w: w, c: c, sizes: map[string]int32{"p": 2, "q": 3, "r": 3, "none": 0}, held: []string{"warm", "own"}}
			m.begin()
			for range rounds {
				m.round++
				m.play()
			}
			w.Await(c.Settled())
			m.blame()
		})
	}
}

// A mixture is a story in which everything happens at once.
type mixture struct {
	t     *testing.T
	w     *kit.World
	c     *kit.Controller
	round int
	sizes map[string]int32
	held  []string // claims that are to be bound at the end of a round
	ended []string // those that hold nothing any more, and stay
}

// begin makes pools of all strategies beside the one that is there.
func (m *mixture) begin() {
	one := intstr.FromInt32(1)
	m.w.Create(
		world.Recreating(world.Pool("q", 3)),
		world.Rolling(world.Pool("r", 3), one, one),
		world.Pool("none", 0),
	)
	m.w.PatchTemplate("t", `{"envVarsInjectionPolicy":"Allowed","service":true}`)
}

// name is one of this round's own.
func (m *mixture) name(what string, n int) string {
	return what + "-" + strconv.Itoa(m.round) + "-" + strconv.Itoa(n)
}

// play has people do everything, and returns when all has come to rest.
func (m *mixture) play() {
	w := m.w
	before := slices.Clone(m.held)
	w.Create(world.Template(m.name("passing", 0)))
	passing := world.Pool(m.name("passing", 0), 2)
	passing.Spec.TemplateRef.Name = passing.Name
	w.Create(passing, world.Sandbox(m.name("mine", 0)))

	var claims []metav1.Object
	for i := range 4 {
		for _, pool := range []string{"p", "q", "r"} {
			name := m.name(pool, i)
			claims, m.held = append(claims, world.Claim(name, pool)), append(m.held, name)
		}
	}
	own := world.Claim(m.name("none", 0), "none", world.WithLabel("sandbox.users.io/who", "me"))
	env := world.Claim(m.name("env", 0), "p", func(c *ext.SandboxClaim) { c.Spec.Env = []ext.EnvVar{{Name: "A", Value: "b"}} })
	m.held = append(m.held, own.Name, env.Name)
	at, none := time.Now().Add(2*time.Second), int32(0)
	kept := world.Claim(m.name("kept", 0), "p", ending(&at, nil, ext.ShutdownRetain))
	finished := world.Claim(m.name("finished", 0), "q", ending(nil, &none, ext.ShutdownRetain))
	m.ended = append(m.ended, kept.Name, finished.Name)
	claims = append(claims, own, env, kept, finished,
		world.Claim(m.name("gone", 0), "r", ending(&at, nil, ext.ShutdownDelete)),
		world.Claim(m.name("gone", 1), "none", ending(&at, nil, ext.ShutdownDelete)),
		world.Claim(m.name("passing", 1), passing.Name))
	w.CreateAtOnce(claims...)

	w.ChangeTemplate("t", "image:"+strconv.Itoa(m.round))
	m.scale()
	for _, name := range before[:2] { // they rest since the last round
		w.Delete(w.Claims(), name)
	}
	if name := w.SandboxOf(before[2%len(before)]); m.round > 1 {
		w.PatchSandbox(name, `{"operatingMode":"Suspended"}`)
		w.PatchClaim(before[2], `{"additionalPodMetadata":{"labels":{"sandbox.users.io/round":"`+strconv.Itoa(m.round)+`"}}}`)
		w.Await(world.SandboxSays(name, "SandboxSuspended", "Sandbox is suspended"))
		w.PatchSandbox(name, `{"operatingMode":"Running"}`)
	}
	m.held = slices.DeleteFunc(m.held, func(name string) bool { return slices.Contains(before[:2], name) })
	w.Await(world.Bound(finished.Name, m.name("passing", 1)))
	w.Kubelet.Succeed(w.SandboxOf(finished.Name))
	w.Delete(w.Pools(), passing.Name)
	w.Delete(w.Templates(), passing.Name)
	w.Delete(w.Sandboxes(), m.name("mine", 0))
	if free := m.free("p"); len(free) > 0 {
		w.Delete(w.Pods(), free[0])
	}
	w.Await(m.rest)
	w.Delete(w.Claims(), m.name("passing", 1))
	w.Delete(w.Pools(), m.name("passing", 0))
	w.Await(m.alone, m.c.Settled())
}

func (m *mixture) free(pool string) (free []string) {
	m.w.Look(func(s *world.Snapshot) { free = s.Free(pool) })
	return free
}

// scale has pools grow in one round and shrink in the next.
func (m *mixture) scale() {
	for _, pool := range []string{"p", "q", "r"} {
		m.sizes[pool] = 2 + int32(m.round)%2*3
		m.w.Scale(pool, m.sizes[pool])
	}
}

// rest holds when everybody has what is theirs, and nobody anything else.
func (m *mixture) rest(s *world.Snapshot) error {
	for pool, n := range m.sizes {
		if err := filled(pool, int(n))(s); err != nil {
			return err
		}
	}
	for _, name := range m.ended {
		if err := world.HasState(name, states.Stale)(s); err != nil {
			return err
		}
	}
	return world.All(world.Bound(m.held...), world.Annotated(m.held...))(s)
}

// alone holds when there is nothing else any more.
func (m *mixture) alone(s *world.Snapshot) error {
	want := len(m.held)
	for _, n := range m.sizes {
		want += int(n)
	}
	extra := 1 // the claim that had ended before Kiln came
	if len(s.Sandboxes) != want || len(s.Pods) != want || len(s.Claims) != len(m.held)+len(m.ended)+extra {
		return fmt.Errorf("%d sandboxes, %d pods and %d claims; %d are right", len(s.Sandboxes), len(s.Pods), len(s.Claims), want)
	}
	return m.rest(s)
}

// blame finds out who is to blame for each write that met a conflict, or nothing.
func (m *mixture) blame() {
	history := m.w.History()
	deleted := map[types.UID]bool{}
	for _, one := range m.c.Wire.Writes() {
		deleted[one.UID] = deleted[one.UID] || one.Verb == "delete" && one.Code < 300
	}
	by, failed := map[string]int{}, 0
	for _, one := range m.c.Wire.Writes() {
		if one.Code < 300 {
			continue
		}
		failed++
		who := blamed(history, one, deleted[one.UID])
		by[strings.SplitN(who, ":", 2)[0]]++
		if who != "a hand" {
			m.t.Errorf("%s %s %s: the server answered %d, and to blame is %s", one.Kind, one.Verb, one.Name, one.Code, who)
		}
	}
	m.t.Logf("%d writes, %d of them lost, by who is to blame: %v", len(m.c.Wire.Writes()), failed, by)
	NewWithT(m.t).Expect(len(m.c.Wire.Writes())).To(BeNumerically(">", 100*m.round), "it was a full story")
}

// blamed is who changed an object after the version that a write had seen: the first
// change is what the write did not know of. What the garbage collector took is the hand's
// that took the owner, or that said when its time is over.
func blamed(history []world.Change, lost kit.Write, deletedByKiln bool) string {
	if lost.Code != http.StatusConflict && lost.Code != http.StatusNotFound {
		return "the write itself"
	}
	kind := strings.TrimSuffix(lost.Kind, "status")
	version, _ := strconv.ParseUint(lost.Version, 10, 64)
	var was metav1.Object
	for _, c := range history {
		o := c.Object
		if lost.UID != "" && o.GetUID() != lost.UID || world.KindOf(o) != kind || o.GetName() != lost.Name {
			continue
		}
		if c.Version <= version || was == nil && version == 0 {
			was = o
			if !c.Deleted {
				continue
			}
		}
		switch goes := c.Deleted || o.GetDeletionTimestamp() != nil; {
		case goes && !deletedByKiln:
			return "a hand"
		case goes:
			return "Kiln, which deleted it"
		case version == 0:
			was = o
		case asked(was, o):
			return "a hand"
		default:
			return "whoever made of it: " + c.String()
		}
	}
	return "nobody: it has not changed"
}

// asked reports whether an object differs from what it was in what people alone write.
func asked(was, is metav1.Object) bool {
	switch is := is.(type) {
	case *corev1.Pod:
		return false
	case *agents.Sandbox:
		was := was.(*agents.Sandbox)
		return was.Spec.OperatingMode != is.Spec.OperatingMode || was.Spec.ShutdownTime != is.Spec.ShutdownTime
	}
	return was.GetGeneration() != is.GetGeneration()
}
