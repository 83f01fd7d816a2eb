package suite

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
)

// seeds are the rollouts to try: KILN_SEEDS says how many (CI tries 200), and KILN_SEED which
// one alone.
func seeds() (all []uint64) {
	if one, err := strconv.ParseUint(os.Getenv("KILN_SEED"), 10, 64); err == nil {
		return []uint64{one}
	}
	for i := range number("KILN_SEEDS", 40) {
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
			c := w.Controller()
			sum := struct{ gaveUp, made, strictly int }{}
			for at := i; at < len(all) && !t.Failed(); at += worlds {
				j := newRollout(t, w, c, all[at]).play()
				sum.gaveUp, sum.made, sum.strictly = sum.gaveUp+j.gaveUp, sum.made+j.made, sum.strictly+j.strictly
			}
			t.Logf("%d members were made, and %d free ones given up, %d of them when nothing else was lost", sum.made, sum.gaveUp, sum.strictly)
		})
	}
}

// Otherwise the test above would not be worth much.
func TestTheJudgeOfRolloutsSeesWhatBreaksABudget(t *testing.T) {
	all := intstr.FromString("100%")
	w, c := rollable(t, kit.Rolling(kit.Pool("p", 4), all, all))
	now := w.Retemplate("t", "image:2")
	w.Await(kit.Fresh("p", now), kit.Right("p", 4, "held"))
	tight := func(*ext.SandboxWarmPool) (unavailable, surge int) { return 0, 0 }
	if j := judgeRollout(w.History(), c.Wire.Writes(), w.Pool("p"), budgetOf); len(j.wrongs) > 0 || j.gaveUp == 0 {
		t.Errorf("with its own budget: %d given up, %q", j.gaveUp, j.wrongs)
	}
	if j := judgeRollout(w.History(), c.Wire.Writes(), w.Pool("p"), tight); len(j.wrongs) < 4 {
		t.Errorf("with a budget of nothing: %q", j.wrongs)
	}
}

// A rollout is one random story of a pool that rolls, told by a seed.
type rollout struct {
	*kit.World
	t       *testing.T
	c       *kit.Controller
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

func newRollout(t *testing.T, w *kit.World, c *kit.Controller, seed uint64) *rollout {
	t.Logf("seed %d (KILN_SEED=%d tells it alone)", seed, seed)
	r := &rollout{World: w, t: t, c: c, rnd: rand.New(rand.NewPCG(seed, 1)), seed: seed, pool: fmt.Sprint("p", seed)}
	r.size = r.some(2)
	return r
}

// play tells the story, judges it, and leaves the world as it was.
func (r *rollout) play() *rolloutJudge {
	r.t.Helper()
	since := len(r.c.Wire.Writes())
	pool := kit.Rolling(kit.Pool(r.pool, r.size), r.share(), r.share(), func(u *ext.RollingUpdate) {
		u.ClaimPolicy = []ext.ClaimPolicy{ext.ClaimFresh, ext.ClaimAny}[r.rnd.IntN(2)]
	})
	pool.Spec.TemplateRef.Name = r.pool
	r.Create(kit.Template(r.pool), pool)
	r.Await(kit.Full(r.pool, int(r.size)))
	r.retemplate()
	for range 3 + r.rnd.IntN(6) {
		r.breathe()
		r.event()
	}
	r.Pause(r.pool, false)
	r.Kubelet.Mend()
	r.Kubelet.LetGo()
	r.Await(kit.All(kit.Fresh(r.pool, r.Revision(r.pool)), kit.Right(r.pool, int(r.size), r.claims...)))
	j := judgeRollout(r.History(), r.c.Wire.Writes()[since:], r.Pool(r.pool), budgetOf)
	for _, wrong := range j.wrongs {
		r.t.Errorf("seed %d: %s: %s", r.seed, r.plan(), wrong)
	}
	r.clear()
	return j
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
	r.Await(func(s *kit.Sight) error {
		if len(s.Pods)+len(s.Sandboxes)+len(s.Claims)+len(s.Pools)+len(s.Templates) > 0 {
			return errWaits
		}
		return nil
	})
}
