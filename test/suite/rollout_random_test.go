package suite

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/stage"
	"github.com/kiln-sandbox/kiln/test/world"
)

// seeds are the rollouts to try: KILN_SEEDS says how many (CI tries 200), and KILN_SEED which
// one alone.
func seeds() (all []uint64) {
	if one, err := strconv.ParseUint(os.Getenv("KILN_SEED"), 10, 64); err == nil {
		return []uint64{one}
	}
	for i := range stage.Number("KILN_SEEDS", 12) {
		all = append(all, uint64(i+1))
	}
	return all
}

func TestNoEventOfAnyRolloutBreaksItsBudgetAndEachEndsFreshAndFull(t *testing.T) {
	const worlds = 6
	all := seeds()
	for i := range min(worlds, len(all)) {
		t.Run(fmt.Sprint("world ", i), func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			w.Controller()
			retired := 0
			for at := i; at < len(all) && !t.Failed(); at += worlds {
				retired += newRollout(t, w, all[at]).play().retired
			}
			t.Logf("%d free members were retired as outdated when nothing else was lost", retired)
		})
	}
}

func TestTheBoundOnRolloutsFindsWhatBreaksATighterBudget(t *testing.T) {
	all := intstr.FromString("100%")
	w, _ := rollable(t, world.Rolling(world.Pool("p", 4), all, all))
	now := w.ChangeTemplate("t", "image:2")
	w.Await(world.Fresh("p", now), world.Converged("p", 4, "held"))
	if b := bounded(w.History(), "p", world.Budget); len(b.tooFew)+len(b.tooMany) > 0 || b.retired == 0 {
		t.Errorf("with its own budget: %d retired, %q, %q", b.retired, b.tooFew, b.tooMany)
	}
	none := func(*ext.SandboxWarmPool) (int, int) { return 0, 0 }
	if b := bounded(w.History(), "p", none); len(b.tooFew) == 0 || len(b.tooMany) == 0 {
		t.Errorf("with a budget of nothing: %q, %q", b.tooFew, b.tooMany)
	}
}

// A rollout is one random run of a pool that rolls, given by a seed.
type rollout struct {
	*kit.World
	t       *testing.T
	rnd     *rand.Rand
	seed    uint64
	pool    string
	size    int32
	image   int
	claims  []string // those that live
	made    int
	paused  bool
	lingers bool
}

func newRollout(t *testing.T, w *kit.World, seed uint64) *rollout {
	t.Logf("seed %d (KILN_SEED=%d runs it alone)", seed, seed)
	r := &rollout{World: w, t: t, rnd: rand.New(rand.NewPCG(seed, 1)), seed: seed, pool: fmt.Sprint("p", seed)}
	r.size = r.some(2)
	return r
}

// play runs it, judges it, and leaves the world as it was.
func (r *rollout) play() *bound {
	r.t.Helper()
	pool := world.Rolling(world.Pool(r.pool, r.size), r.share(), r.share(), func(u *ext.RollingUpdate) {
		u.ClaimPolicy = []ext.ClaimPolicy{ext.ClaimFresh, ext.ClaimAny}[r.rnd.IntN(2)]
	})
	pool.Spec.TemplateRef.Name = r.pool
	r.Create(world.Template(r.pool), pool)
	r.Await(world.Converged(r.pool, int(r.size)))
	r.retemplate()
	for range 3 + r.rnd.IntN(6) {
		r.breathe()
		r.event()
	}
	r.Pause(r.pool, false)
	r.Kubelet.Repair()
	r.Kubelet.LetGo()
	r.Await(world.All(world.Fresh(r.pool, r.Revision(r.pool)), world.Converged(r.pool, int(r.size), r.claims...)))
	b := bounded(r.History(), r.pool, world.Budget)
	for _, wrong := range slices.Concat(b.tooMany, b.tooFew) {
		r.t.Errorf("seed %d: %s: %s", r.seed, r.plan(), wrong)
	}
	r.clear()
	return b
}

func (r *rollout) plan() string {
	u := r.Pool(r.pool).Spec.UpdateStrategy.RollingUpdate
	return fmt.Sprintf("%s unavailable, %s surge, claims %s", u.MaxUnavailable, u.MaxSurge, u.ClaimPolicy)
}

// breathe lets a while go by: a few answers of the server.
func (r *rollout) breathe() {
	for range r.rnd.IntN(30) {
		_, _ = r.Templates().Get(r.Context(), r.pool, metav1.GetOptions{})
	}
}

// clear takes the pool, its template and its claims away.
func (r *rollout) clear() {
	r.Delete(r.Claims(), r.claims...)
	r.Delete(r.Pools(), r.pool)
	r.Delete(r.Templates(), r.pool)
	r.Await(world.Empty)
}

// event is the next thing that happens to a rollout.
func (r *rollout) event() {
	switch n := r.rnd.IntN(22); {
	case n < 4:
		r.retemplate()
	case n < 10:
		r.made++
		r.claims = append(r.claims, fmt.Sprintf("%s-%d", r.pool, r.made))
		r.Create(world.Claim(r.claims[len(r.claims)-1], r.pool))
	case n < 12:
		if claim := r.one(r.claims); claim != "" {
			r.drop(claim)
			r.Delete(r.Claims(), claim)
		}
	case n < 15:
		r.size = r.some(1)
		r.Scale(r.pool, r.size)
	case n < 17:
		r.paused = !r.paused
		r.Pause(r.pool, r.paused)
	case n < 19:
		if pod := r.one(r.warm()); pod != "" {
			r.Kubelet.SetReady(pod, false)
		}
	case n < 21:
		if r.lingers = !r.lingers; r.lingers {
			r.Kubelet.Linger()
		} else {
			r.Kubelet.LetGo()
		}
	default:
		if pod := r.one(r.warm()); pod != "" {
			r.Delete(r.Pods(), pod)
		}
	}
}

// retemplate changes the template; now and then to one that does not work.
func (r *rollout) retemplate() {
	r.image++
	image := fmt.Sprint("image:", r.image)
	if r.rnd.IntN(5) == 0 {
		image = fmt.Sprint("broken:", r.image)
		r.Kubelet.Break(image)
	}
	r.ChangeTemplate(r.pool, image)
}

// warm are the free members of the pool.
func (r *rollout) warm() (pods []string) {
	r.Recorder.Look(func(s *world.Snapshot) { pods = s.Free(r.pool) })
	return pods
}

// some is a random size up to 6, more often a small one.
func (r *rollout) some(least int32) int32 {
	return least + min(r.rnd.Int32N(7-least), r.rnd.Int32N(7-least))
}

// share is a random part of a budget: a number, or a percentage.
func (r *rollout) share() intstr.IntOrString {
	if r.rnd.IntN(2) == 0 {
		return intstr.FromInt32(r.rnd.Int32N(4))
	}
	return intstr.FromString(fmt.Sprintf("%d%%", r.rnd.IntN(101)))
}

// one is a random one of several, or nothing.
func (r *rollout) one(of []string) string {
	if len(of) == 0 {
		return ""
	}
	return of[r.rnd.IntN(len(of))]
}

func (r *rollout) drop(claim string) {
	r.claims = slices.DeleteFunc(r.claims, func(c string) bool { return c == claim })
}
