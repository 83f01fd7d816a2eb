package suite

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/stage"
	"github.com/kiln-sandbox/kiln/test/world"
)

// fuzzSeeds are how many seeds a run tries unless KILN_SEEDS says otherwise.
const fuzzSeeds = 4

// TestNothingThatAnotherNamespaceMakesChangesWhatHappensInThisOne plays random
// stories of two namespaces under one controller. In a, people use Kiln: claims,
// pools of every strategy, template and scale changes, lost pods. In b, and with odd
// seeds in a too, a stranger makes whatever the API server lets it make.
//
// What it finds when a guard is taken away, tried by hand; 20 seeds find each:
//
//	without the namespace in the keys of indexes  MultiplePods in a, claims not Ready, pools never full
//	with a pod of any name for a sandbox's own    the address of a stranger's pod published
func TestNothingThatAnotherNamespaceMakesChangesWhatHappensInThisOne(t *testing.T) {
	host := kit.New(t)
	all := seedsOr(fuzzSeeds)
	const pairs = 4
	r := &reign{host: host}
	r.begin()
	for i := range min(pairs, len(all)) {
		t.Run(fmt.Sprint("pair ", i), func(t *testing.T) {
			t.Parallel()
			a, b := kit.New(t), kit.New(t)
			r.over(a, b)
			b.Excuse(func(v string) bool { return strings.Contains(v, stranged) })
			for at := i; at < len(all) && !t.Failed(); at += pairs {
				f := newFuzz(t, a, b, all[at])
				f.reign = r
				f.play()
			}
		})
	}
}

// stranged begins the name of whatever a stranger makes.
const stranged = "x-"

// A fuzz is one story, given by a seed.
type fuzz struct {
	t       *testing.T
	rnd     *rand.Rand
	seed    uint64
	a, b    *kit.World
	reign   *reign
	inside  bool // the stranger is in a, too
	journal []string
	image   int
	made    int
	claims  []string
	ended   []string // claims whose time is over, and that stay
	sizes   map[string]int32
	told    map[types.UID]string // what the incumbent has told claims of
}

func newFuzz(t *testing.T, a, b *kit.World, seed uint64) *fuzz {
	f := &fuzz{
		t: t, rnd: rand.New(rand.NewPCG(seed, 2)), seed: seed, a: a, b: b, inside: seed%2 == 1,
		sizes: map[string]int32{}, told: map[types.UID]string{},
	}
	t.Logf("seed %d (KILN_SEED=%d runs it alone)", seed, seed)
	return f
}

// note keeps what was done, and what came of it.
func (f *fuzz) note(err error, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if err != nil {
		line += ": " + err.Error()
	}
	f.journal = append(f.journal, line)
}

// wrong fails the test with the seed and the end of the journal.
func (f *fuzz) wrong(format string, args ...any) {
	f.t.Helper()
	tail := f.journal[max(0, len(f.journal)-40):]
	f.t.Errorf("seed %d: %s\n  what was done last:\n    %s", f.seed, fmt.Sprintf(format, args...), strings.Join(tail, "\n    "))
}

// play tells the story, judges it, and leaves both namespaces as they were.
func (f *fuzz) play() {
	incumbent := os.Getenv("KILN_INCUMBENT") != "0" // the agent-sandbox controller has a part in the stories
	if f.seed%3 == 0 || !incumbent {
		f.begin()
	} else {
		f.reign.rest(func() {
			f.begin()
			predecessor{f, f.a}.settles()
		})
	}
	for range 10 + f.rnd.IntN(9) {
		switch n := f.rnd.IntN(16); {
		case n < 7:
			f.live()
		case n < 14:
			f.trick(f.victim())
		case n < 15:
			f.note(nil, "another controller %s", f.reign.change(f.rnd))
		case incumbent:
			f.reign.rest(predecessor{f, f.a}.reigns)
		}
		f.breathe()
	}
	f.depart(f.a)
	f.resume()
	f.touch()
	f.converge()
	f.quiet()
	f.judge()
	f.clear()
}

// begin makes what there is in both namespaces.
func (f *fuzz) begin() {
	for _, w := range []*kit.World{f.a, f.b} {
		w.Create(world.Template("t"))
	}
	for i, strategy := range []ext.UpdateStrategyType{ext.OnReplenish, ext.Recreate, ext.Rolling} {
		pool := world.Pool(fmt.Sprint("p", i), 1+f.rnd.Int32N(3))
		pool.Spec.UpdateStrategy.Type = strategy
		if strategy == ext.Rolling {
			pool = world.Rolling(pool, intstr.FromInt32(f.rnd.Int32N(2)), intstr.FromInt32(1))
		}
		f.sizes[pool.Name] = *pool.Spec.Replicas
		f.a.Create(pool)
	}
	f.b.Create(world.Pool("p0", 1))
}

// pool is one of a's pools.
func (f *fuzz) pool() string { return fmt.Sprint("p", f.rnd.IntN(3)) }

// live is the next thing that people in a do.
func (f *fuzz) live() {
	switch n := f.rnd.IntN(18); {
	case n < 7:
		f.claim()
	case n < 9:
		if len(f.claims) == 0 {
			return
		}
		name := f.claims[f.rnd.IntN(len(f.claims))]
		f.claims = slices.DeleteFunc(f.claims, func(c string) bool { return c == name })
		f.a.Delete(f.a.Claims(), name)
		f.note(nil, "a: claim %s deleted", name)
	case n < 11:
		pool := f.pool()
		f.sizes[pool] = f.rnd.Int32N(4)
		f.a.Scale(pool, f.sizes[pool])
		f.note(nil, "a: %s scaled to %d", pool, f.sizes[pool])
	case n < 12:
		f.image++
		f.a.ChangeTemplate("t", fmt.Sprint("image:", f.image))
		f.note(nil, "a: template changed")
	case n < 16:
		f.rest()
	case n < 17:
		f.expire()
	default:
		if members := f.a.Recorder.Members(f.pool()); len(members) > 0 {
			pod := members[f.rnd.IntN(len(members))]
			f.a.Delete(f.a.Pods(), pod)
			f.note(nil, "a: pod %s deleted", pod)
		}
	}
}

// claim makes a claim on one of the pools.
func (f *fuzz) claim() {
	f.made++
	name, pool := fmt.Sprintf("c%d-%d", f.seed, f.made), f.pool()
	f.claims = append(f.claims, name)
	f.a.Create(world.Claim(name, pool))
	f.note(nil, "a: claim %s on %s", name, pool)
}

// rest suspends a sandbox, or has it go on, or says that its time is over.
func (f *fuzz) rest() {
	b := pick(f, f.all(f.a, func(o metav1.Object) bool {
		return world.KindOf(o) == "sandbox" && o.GetDeletionTimestamp() == nil && !strings.HasPrefix(o.GetName(), stranged)
	}))
	if b == nil {
		return
	}
	to := []string{`{"operatingMode":"Suspended"}`, `{"operatingMode":"Suspended"}`, `{"operatingMode":"Running"}`, `{"shutdownTime":"2020-01-01T00:00:00Z"}`}[f.rnd.IntN(4)]
	if owner := metav1.GetControllerOf(b); owner == nil || owner.Kind != ext.KindClaim {
		to = `{"operatingMode":"Suspended"}` // the end of a member is its pool's business
	}
	patched, err := f.a.Sandboxes().Patch(f.a.Context(), b.GetName(), types.MergePatchType, []byte(`{"spec":`+to+`}`), metav1.PatchOptions{})
	switch {
	case err == nil:
		f.a.Await(world.Seen(patched)) // whoever resumes all looks at what the watch has shown
	case !apierrors.IsNotFound(err):
		f.t.Fatal(err)
	}
	f.note(err, "a: sandbox %s gets %s", b.GetName(), to)
}

// expire has the time of a claim be over: it goes, or it stays and holds nothing.
func (f *fuzz) expire() {
	if len(f.claims) == 0 {
		return
	}
	name := f.claims[f.rnd.IntN(len(f.claims))]
	policy := []ext.ShutdownPolicy{ext.ShutdownDelete, ext.ShutdownRetain}[f.rnd.IntN(2)]
	f.claims = slices.DeleteFunc(f.claims, func(c string) bool { return c == name })
	if policy == ext.ShutdownRetain {
		f.ended = append(f.ended, name)
	}
	f.a.PatchClaim(name, fmt.Sprintf(`{"lifecycle":{"shutdownTime":"2020-01-01T00:00:00Z","shutdownPolicy":%q}}`, policy))
	f.note(nil, "a: the time of claim %s is over: %s", name, policy)
}

// resume has all sandboxes in a go on, and takes the claims away whose sandboxes never
// will: their time is over.
func (f *fuzz) resume() {
	for _, o := range f.all(f.a, func(o metav1.Object) bool { return world.KindOf(o) == "sandbox" }) {
		b := o.(*agents.Sandbox)
		if b.Spec.OperatingMode == agents.Suspended {
			if err := f.patch(f.a, b, `{"spec":{"operatingMode":"Running"}}`); err != nil && !apierrors.IsNotFound(err) {
				f.t.Fatal(err)
			}
		}
		owner := metav1.GetControllerOf(b)
		if b.Spec.ShutdownTime == nil || owner == nil || owner.Kind != ext.KindClaim || !slices.Contains(f.claims, owner.Name) {
			continue
		}
		f.claims = slices.DeleteFunc(f.claims, func(c string) bool { return c == owner.Name })
		f.a.Delete(f.a.Claims(), owner.Name)
	}
}

// victim is the namespace in which the stranger does the next thing.
func (f *fuzz) victim() *kit.World {
	if f.inside && f.rnd.IntN(2) == 0 {
		return f.a
	}
	return f.b
}

// breathe lets a while go by: a few answers of the server.
func (f *fuzz) breathe() {
	for range f.rnd.IntN(6) {
		_, _ = f.a.Templates().Get(f.a.Context(), "t", metav1.GetOptions{})
	}
}

// touch has Kiln look at everything in a again.
func (f *fuzz) touch() {
	for _, o := range f.all(f.a, func(metav1.Object) bool { return true }) {
		err := f.patch(f.a, o, `{"metadata":{"annotations":{"example.com/look":"again"}}}`)
		if err != nil && !apierrors.IsNotFound(err) {
			f.t.Fatal(err)
		}
	}
}

// converge waits until a is as it would be if it were alone.
func (f *fuzz) converge() {
	now := f.a.Revision("t")
	f.a.Await(func(s *world.Snapshot) error {
		for _, pool := range []string{"p1", "p2"} { // the strategies that replace old members
			if err := renews(pool, now)(s); err != nil {
				return fmt.Errorf("seed %d: %w\n%s", f.seed, err, strings.Join(f.journal, "\n"))
			}
		}
		if p := s.Policies[apply.PolicyName("t")]; p == nil || len(p.OwnerReferences) > 0 {
			return fmt.Errorf("seed %d: the policy of the template is not Kiln's", f.seed)
		}
		if err := freed(f.claims, s); err != nil {
			return fmt.Errorf("seed %d: %w", f.seed, err)
		}
		want := len(f.claims)
		for pool, n := range f.sizes {
			want += int(n)
			if err := world.All(world.Full(pool, int(n)), world.Counted(pool, n))(s); err != nil {
				return fmt.Errorf("seed %d: %w\n%s", f.seed, err, strings.Join(f.journal, "\n"))
			}
		}
		if err := world.Bound(f.claims...)(s); err != nil {
			return fmt.Errorf("seed %d: %w\n%s", f.seed, err, strings.Join(f.journal, "\n"))
		}
		for _, name := range f.ended {
			if err := world.HasState(name, states.Stale)(s); err != nil {
				return fmt.Errorf("seed %d: %w\n%s", f.seed, err, strings.Join(f.journal, "\n"))
			}
		}
		if len(s.Sandboxes) != want || len(s.Pods) != want || len(s.Claims) != len(f.claims)+len(f.ended) {
			return fmt.Errorf("seed %d: %d sandboxes and %d pods, not %d, and %d claims", f.seed, len(s.Sandboxes), len(s.Pods), want, len(s.Claims))
		}
		return world.Annotated(f.claims...)(s)
	}, world.Reported)
}

// quiet has the stranger in b go on when a is at rest. When the controller has
// served b, nothing has moved in a.
func (f *fuzz) quiet() {
	f.settle("before")
	before := len(f.a.Seen())
	for range 6 {
		f.trick(f.b)
	}
	f.settle("after")
	for _, c := range f.a.Seen()[before:] {
		if _, status := c.Object.(*ext.SandboxWarmPool); !status { // it may still have been on its way
			f.wrong("nobody did anything in a, and this changed: %s", c)
		}
	}
}

// settle returns when the controller has served a claim of b that is made now.
func (f *fuzz) settle(when string) {
	name := fmt.Sprintf("settled-%s-%d", when, f.seed)
	f.b.Create(world.Pool(name, 0), world.Claim(name, name))
	f.b.Await(world.Told(name))
}

// judge looks at every event of a, and at every promise in both namespaces.
func (f *fuzz) judge() {
	for _, v := range slices.Concat(f.a.Violations(), f.b.Violations()) {
		f.wrong("%s", v)
	}
	history := f.a.Seen()
	f.inherits(history)
	theirs := f.addresses(history)
	for _, c := range history {
		if strings.HasPrefix(c.Object.GetName(), stranged) {
			continue
		}
		for _, ip := range ipsOf(c.Object) {
			if !theirs[ip] {
				f.wrong("%s, which is the address of no pod that Kiln made in a", c)
			}
		}
	}
	if said := saidOf(history, "MultiplePods"); !f.inside && len(said) > 0 {
		f.wrong("nobody in a made a second pod: %s", said[0])
	}
}

// addresses are the addresses that the pods have had which Kiln made in a.
func (f *fuzz) addresses(history []world.Change) map[string]bool {
	all := map[string]bool{}
	for _, c := range history {
		if strings.HasPrefix(c.Object.GetName(), stranged) || world.KindOf(c.Object) != "pod" {
			continue
		}
		for _, ip := range ipsOf(c.Object) {
			all[ip] = true
		}
	}
	return all
}

// clear takes everything away in both namespaces.
func (f *fuzz) clear() {
	for _, w := range []*kit.World{f.a, f.b} {
		f.depart(w)
		for _, o := range f.all(w, func(metav1.Object) bool { return true }) {
			if o.GetDeletionTimestamp() == nil && world.KindOf(o) != "pod" && world.KindOf(o) != "sandbox" {
				f.remove(w, o)
			}
		}
		w.Await(func(s *world.Snapshot) error {
			if err := world.Empty(s); err != nil {
				return fmt.Errorf("seed %d: %w", f.seed, err)
			}
			return nil
		})
		w.Forget()
	}
}

// depart takes all away that the stranger has made in a namespace.
func (f *fuzz) depart(w *kit.World) {
	for _, o := range f.all(w, func(o metav1.Object) bool { return strings.HasPrefix(o.GetName(), stranged) }) {
		f.remove(w, o)
	}
}

func (f *fuzz) all(w *kit.World, which func(metav1.Object) bool) (all []metav1.Object) {
	w.Recorder.Look(func(s *world.Snapshot) {
		for _, kind := range []string{"claim", "pool", "template", "sandbox", "pod"} {
			all = append(all, byName(s.All(kind))...)
		}
	})
	return slices.DeleteFunc(all, func(o metav1.Object) bool { return !which(o) })
}

// byName puts objects in an order that is the same for a seed.
func byName(all []metav1.Object) []metav1.Object {
	slices.SortFunc(all, func(a, b metav1.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// remove deletes an object, finalizers and all.
func (f *fuzz) remove(w *kit.World, o metav1.Object) {
	if len(o.GetFinalizers()) > 0 {
		if err := f.patch(w, o, `{"metadata":{"finalizers":null}}`); err != nil && !apierrors.IsNotFound(err) {
			f.t.Fatal(err)
		}
	}
	switch world.KindOf(o) {
	case "claim":
		w.Delete(w.Claims(), o.GetName())
	case "pool":
		w.Delete(w.Pools(), o.GetName())
	case "template":
		w.Delete(w.Templates(), o.GetName())
	case "sandbox":
		w.Delete(w.Sandboxes(), o.GetName())
	case "pod":
		w.Delete(w.Pods(), o.GetName())
	}
	w.Await(func(s *world.Snapshot) error {
		for _, now := range s.All(world.KindOf(o)) {
			if now.GetUID() == o.GetUID() && now.GetDeletionTimestamp() == nil {
				return fmt.Errorf("%s %s is still there", world.KindOf(o), o.GetName())
			}
		}
		return nil
	})
}

// patch changes an object by a merge patch, as a stranger does.
func (f *fuzz) patch(w *kit.World, o metav1.Object, patch string) (err error) {
	by := metav1.PatchOptions{FieldManager: "stranger"}
	switch world.KindOf(o) {
	case "claim":
		_, err = w.Claims().Patch(w.Context(), o.GetName(), types.MergePatchType, []byte(patch), by)
	case "pool":
		_, err = w.Pools().Patch(w.Context(), o.GetName(), types.MergePatchType, []byte(patch), by)
	case "template":
		_, err = w.Templates().Patch(w.Context(), o.GetName(), types.MergePatchType, []byte(patch), by)
	case "sandbox":
		_, err = w.Sandboxes().Patch(w.Context(), o.GetName(), types.MergePatchType, []byte(patch), by)
	case "pod":
		_, err = w.Pods().Patch(w.Context(), o.GetName(), types.MergePatchType, []byte(patch), by)
	}
	return err
}

// seedsOr are the seeds that the environment says, or the first few.
func seedsOr(otherwise int) []uint64 {
	if all := seeds(); len(all) == 1 || stage.Number("KILN_SEEDS", 0) > 0 {
		return all
	}
	return seeds()[:otherwise]
}

// ours are the labels and annotations that mean something to Kiln.
var ours = []string{
	apply.LabelState, apply.LabelNameHash, apply.LabelPool, apply.LabelTemplate, apply.LabelRevision, apply.LabelClaimUID,
	apply.LabelLaunch, apply.LabelCreatedBy, apply.LabelBlueprintHash, "agents.x-k8s.io/adoptable",
}
