package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

var key = view.Key{Namespace: "a", Name: "x"}

// A counter is a kind whose step learns how many effects it has had. Its decision is
// made by a function of that number.
type counter struct {
	decide func(learned int) states.Decision
	fails  func(learned int) error
	within func(context.Context) // what an effect is done in

	mu   sync.Mutex
	did  []string
	keys []view.Key
}

func (c *counter) Observe(key view.Key, learned int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = append(c.keys, key)
	return learned
}

func (c *counter) Decide(learned int) states.Decision { return c.decide(learned) }

func (c *counter) Do(ctx context.Context, learned int, d states.Decision) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.within != nil {
		c.within(ctx)
	}
	c.did = append(c.did, fmt.Sprintf("%d %s %s", learned, d.Act, d.Reason))
	if c.fails != nil && d.Act != states.Retry {
		return learned + 1, c.fails(learned)
	}
	return learned + 1, nil
}

// upTo decides to create until so much was learned, and then ends.
func upTo(n int, end states.Decision) func(int) states.Decision {
	return func(learned int) states.Decision {
		if learned < n {
			return states.Decision{Act: states.Create, Reason: states.ReasonPodMissing}
		}
		return end
	}
}

func TestAStepFeedsBackWhatWasLearnedAndStopsAtTheEnd(t *testing.T) {
	for _, row := range []struct {
		end  states.Decision
		want Result
	}{
		{states.Decision{Act: states.Rest, Reason: states.ReasonGone}, Result{}},
		{states.Decision{Act: states.Rest, Reason: states.ReasonPodsEnd, After: time.Minute}, Result{After: time.Minute}},
		{states.Decision{Act: states.Wait, Reason: states.ReasonInLine, After: time.Second}, Result{After: time.Second}},
		{states.Decision{Act: states.Retry, Reason: states.ReasonCreateRefused}, Result{Retry: true}},
		{states.Decision{Act: states.Retry, Reason: states.ReasonCreateRefused, After: time.Second}, Result{Retry: true, After: time.Second}},
	} {
		t.Run(row.end.Act.String(), func(t *testing.T) {
			g := NewWithT(t)
			c := &counter{decide: upTo(2, row.end)}
			g.Expect(Step(t.Context(), c, key)).To(Equal(row.want))
			g.Expect(c.did).To(Equal([]string{"0 create PodMissing", "1 create PodMissing", fmt.Sprintf("2 %s %s", row.end.Act, row.end.Reason)}),
				"the kind is told of the end")
		})
	}
}

func TestAStepThatDoesNotEndLetsOthersHaveTheirTurn(t *testing.T) {
	g := NewWithT(t)
	c := &counter{decide: upTo(1000, states.Decision{})}
	g.Expect(Step(t.Context(), c, key)).To(Equal(Result{Again: true}))
	g.Expect(c.did).To(HaveLen(maxEffects))
}

func TestAStepStopsAtAnErrorAndTheKindIsTold(t *testing.T) {
	g := NewWithT(t)
	no := errors.New("no")
	c := &counter{decide: upTo(5, states.Decision{}), fails: func(learned int) error {
		if learned == 1 {
			return no
		}
		return nil
	}}
	r := Step(t.Context(), c, key)
	g.Expect(r.Retry).To(BeTrue())
	g.Expect(r.Err).To(MatchError(no))
	g.Expect(c.did).To(Equal([]string{"0 create PodMissing", "1 create PodMissing", "2 retry Failed"}), "with what was learned by then")
}

// However a step ends, what was begun around it ends, and once.
func TestWhatIsAroundAStepEndsWithIt(t *testing.T) {
	type mark struct{}
	for name, c := range map[string]*counter{
		"at rest":       {decide: upTo(1, states.Decision{})},
		"in an error":   {decide: upTo(5, states.Decision{}), fails: func(int) error { return errors.New("no") }},
		"before others": {decide: upTo(1000, states.Decision{})},
	} {
		t.Run(name, func(t *testing.T) {
			g, ended := NewWithT(t), 0
			options := quiet("one", 1)
			options.Around = func(ctx context.Context) (context.Context, func()) {
				return context.WithValue(ctx, mark{}, true), func() {
					g.Expect(c.did).NotTo(BeEmpty(), "the step is over")
					ended++
				}
			}
			c.within = func(ctx context.Context) { g.Expect(ctx.Value(mark{})).To(BeTrue()) }
			New(options, c).step(t.Context(), key)
			g.Expect(ended).To(Equal(1))
		})
	}
}

func quiet(name string, workers int) Options {
	return Options{Name: name, Workers: workers, Log: slog.New(slog.DiscardHandler), Metrics: NewQueueMetrics(nil)}
}

// running runs a loop, and returns what is closed when it has ended.
func running(t *testing.T, l *Loop) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		l.Run(t.Context())
		close(done)
	}()
	return done
}

// over ends a loop that has no step under way and no key set aside.
func over(g Gomega, l *Loop, done chan struct{}) {
	g.Expect(l.crowd.flows).To(BeEmpty())
	g.Expect(l.crowd.spaces).To(BeEmpty())
	g.Expect(l.crowd.aside).To(BeEmpty())
	l.Stop()
	<-done
}

// A standby that watches for a year must not remember every key it has seen.
func TestALoopThatHasNotStartedDropsWhatWakesIt(t *testing.T) {
	g := NewWithT(t)
	l := New(quiet("standby", 1), &counter{decide: upTo(0, states.Decision{})})
	for i := range 1_000_000 {
		l.Wake(view.Key{Namespace: "a", Name: fmt.Sprint(i)})
	}
	l.WakeAfter(key, 0)
	g.Expect(l.queue.Len()).To(BeZero())
	l.Start()
	l.Wake(key)
	l.Wake(key)
	g.Expect(l.queue.Len()).To(Equal(1), "several become one")
	l.Stop()
}

// Whoever works next steps what waits; a leader that is told to go must not step
// thousands of keys first.
func TestALoopThatIsStoppedFinishesTheStepsThatHaveBegunAndBeginsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		l := New(quiet("end", 2), &counter{})
		var began, ended atomic.Int32
		l.step = func(context.Context, view.Key) Result {
			began.Add(1)
			time.Sleep(patience / 2)
			ended.Add(1)
			return Result{Again: true}
		}
		l.Start()
		for i := range 10 {
			l.Wake(view.Key{Name: fmt.Sprint(i)})
		}
		done := running(t, l)
		synctest.Wait()
		l.Stop()
		l.Wake(key)
		<-done
		g.Expect(began.Load()).To(Equal(int32(2)))
		g.Expect(ended.Load()).To(Equal(int32(2)))
	})
}

func TestALoopWhoseStepsNeverEndIsStuckAndOneThatIsSlowIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		l := New(quiet("stuck", 2), &counter{})
		hangs := make(chan struct{})
		l.step = func(_ context.Context, key view.Key) Result {
			if key.Name == "slow" {
				time.Sleep(StuckAfter - time.Second)
				return Result{}
			}
			<-hangs
			return Result{}
		}
		l.Start()
		go l.Run(t.Context())
		time.Sleep(2 * StuckAfter)
		g.Expect(l.Stuck(time.Now())).To(Succeed(), "it has nothing to do")
		l.Wake(view.Key{Namespace: "a", Name: "hangs"})
		for range 3 {
			l.Wake(view.Key{Namespace: "b", Name: "slow"})
			time.Sleep(StuckAfter - time.Second)
			synctest.Wait()
			g.Expect(l.Stuck(time.Now())).To(Succeed(), "one step hangs, and others end")
		}
		time.Sleep(StuckAfter)
		g.Expect(l.Stuck(time.Now())).To(MatchError("loop stuck is stuck: steps are running (1) and none has ended for 10m0s"))
		close(hangs)
		synctest.Wait()
		g.Expect(l.Stuck(time.Now())).To(Succeed(), "it has ended")
		l.Stop()
	})
}

// A slow admission webhook holds up the steps of one namespace for as long as it
// likes.
func TestStepsThatHangHoldUpNoOtherNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		l := New(quiet("slow", 4), &counter{})
		hangs := make(chan struct{})
		var mu sync.Mutex
		stepped := map[string]int{}
		l.step = func(_ context.Context, key view.Key) Result {
			mu.Lock()
			stepped[key.Namespace]++
			mu.Unlock()
			if key.Namespace != "fast" {
				<-hangs
			}
			return Result{}
		}
		count := func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(stepped)
		}
		l.Start()
		for i := range 100 {
			l.Wake(view.Key{Namespace: "slow", Name: fmt.Sprint(i)})
		}
		done := running(t, l)
		synctest.Wait()
		for i := range 100 {
			l.Wake(view.Key{Namespace: "fast", Name: fmt.Sprint(i)})
		}
		synctest.Wait()
		g.Expect(count()).To(Equal(map[string]int{"slow": 4}), "all workers wait")
		time.Sleep(patience)
		synctest.Wait()
		g.Expect(count()).To(Equal(map[string]int{"slow": 4, "fast": 100}), "the workers were replaced, and no more of the slow ones began")
		close(hangs)
		synctest.Wait()
		g.Expect(count()).To(Equal(map[string]int{"slow": 100, "fast": 100}), "what was set aside is not forgotten")
		over(g, l, done)
	})
}

// More pools of one namespace hang than there are workers. It has others.
func TestStepsThatHangHoldUpNoOtherPoolOfTheirNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, slow, each = 4, 6, 20
		g := NewWithT(t)
		pool := func(key view.Key) string { return strings.Split(key.Name, "-")[0] }
		options := quiet("slow", workers)
		options.Pool = pool
		l := New(options, &counter{})
		hangs := make(chan struct{})
		var mu sync.Mutex
		stepped := map[string]int{}
		l.step = func(_ context.Context, key view.Key) Result {
			mu.Lock()
			stepped[pool(key)]++
			mu.Unlock()
			if pool(key) != "fast" {
				<-hangs
			}
			return Result{}
		}
		l.Start()
		for i := range slow * each {
			l.Wake(view.Key{Namespace: "a", Name: fmt.Sprintf("slow%d-%d", i/each, i)})
		}
		for i := range each {
			l.Wake(view.Key{Namespace: "a", Name: fmt.Sprint("fast-", i)})
		}
		done := running(t, l)
		time.Sleep(slow * patience)
		synctest.Wait()
		g.Expect(stepped).To(Equal(map[string]int{"slow0": 4, "slow1": 4, "slow2": 4, "slow3": 4, "slow4": 1, "slow5": 1, "fast": each}),
			"the namespace narrows to one step for each pool, and never closes")
		close(hangs)
		synctest.Wait()
		for of, n := range stepped {
			g.Expect(n).To(Equal(each), of)
		}
		over(g, l, done)
	})
}

// A pool that was emptied has as many steps under way as there are workers, whose writes
// wait behind more urgent ones. What a claim waits for does not wait for those.
func TestAKeyThatAClaimWaitsForDoesNotStandBehindOthersOfItsPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 4
		g := NewWithT(t)
		var mu sync.Mutex
		hurried, stepped := map[string]bool{"first": true}, map[string]int{}
		options := quiet("slow", workers)
		options.Hurries = func(key view.Key) bool {
			mu.Lock()
			defer mu.Unlock()
			return hurried[key.Name]
		}
		l := New(options, &counter{})
		hangs := make(chan struct{})
		l.step = func(_ context.Context, key view.Key) Result {
			mu.Lock()
			stepped[key.Name]++
			hurries := hurried[key.Name]
			mu.Unlock()
			if !hurries {
				<-hangs
			}
			return Result{}
		}
		steps := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(stepped)
		}
		l.Start()
		for i := range 20 {
			l.Wake(view.Key{Namespace: "a", Name: fmt.Sprint(i)})
		}
		done := running(t, l)
		time.Sleep(patience)
		g.Expect(steps()).To(Equal(workers), "the others were set aside")
		l.Wake(view.Key{Namespace: "a", Name: "first"})
		g.Expect(steps()).To(Equal(workers + 1))

		late := view.Key{Namespace: "a", Name: "19"}
		l.Hurry(late)
		g.Expect(steps()).To(Equal(workers+1), "it has its turn again, and no claim waits for it")
		mu.Lock()
		hurried["19"] = true
		mu.Unlock()
		l.Wake(late)
		l.Hurry(late)
		g.Expect(steps()).To(Equal(workers + 2))
		g.Expect(stepped["19"]).To(Equal(1), "several become one")
		l.Hurry(late)
		l.Hurry(view.Key{Namespace: "a", Name: "none"})
		g.Expect(steps()).To(Equal(workers+2), "it is not set aside any more")

		close(hangs)
		g.Expect(steps()).To(Equal(21))
		for name, n := range stepped {
			g.Expect(n).To(Equal(1), name)
		}
		over(g, l, done)
	})
}

// Thousands of sandboxes are to get their pods, one step after another. Those that have one
// are finished beside that, and do not wait until all have one.
func TestWhatHasBegunDoesNotWaitUntilAllHaveBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 50
		g := NewWithT(t)
		var mu sync.Mutex
		begun, ended, most := map[string]bool{}, 0, 0
		options := quiet("launches", 1)
		options.Begun = func(key view.Key) bool {
			mu.Lock()
			defer mu.Unlock()
			return begun[key.Name]
		}
		l := New(options, &counter{})
		l.step = func(_ context.Context, key view.Key) Result {
			time.Sleep(2 * patience)
			mu.Lock()
			defer mu.Unlock()
			if begun[key.Name] {
				ended++
				return Result{}
			}
			begun[key.Name] = true
			most = max(most, len(begun)-ended)
			l.Wake(key)
			return Result{}
		}
		l.Start()
		for i := range n {
			l.Wake(view.Key{Namespace: "a", Name: fmt.Sprint(i)})
		}
		done := running(t, l)
		time.Sleep(2 * n * 2 * patience) // each has two steps
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		g.Expect(ended).To(Equal(n))
		g.Expect(most).To(BeNumerically("<=", 3))
		over(g, l, done)
	})
}

func TestTheResultSaysWhenAKeyComesAgain(t *testing.T) {
	for _, row := range []struct {
		name   string
		result Result
		after  time.Duration // zero means never
	}{
		{"nothing is left to do", Result{}, 0},
		{"after a time", Result{After: time.Minute}, time.Minute},
		{"again, behind the keys that wait now", Result{Again: true}, time.Nanosecond},
		{"with the key's own back-off", Result{Retry: true}, backoffFirst},
		{"it is due whatever the back-off says", Result{Retry: true, After: time.Millisecond}, time.Millisecond},
		{"an error that is logged", Result{Retry: true, Err: errors.New("no")}, backoffFirst},
		{"nothing is made any more in a namespace that ends", Result{Retry: true, Err: fmt.Errorf("pod: %w", apply.ErrNamespaceEnds)}, 0},
		{"an error that is a lost race", Result{Retry: true, Err: apply.ErrLost}, backoffFirst},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				l := New(quiet("one", 1), &counter{})
				var at []time.Duration
				begun := time.Now()
				l.step = func(context.Context, view.Key) Result {
					at = append(at, time.Since(begun))
					if len(at) > 1 {
						return Result{}
					}
					return row.result
				}
				l.Start()
				l.Wake(key)
				go l.Run(t.Context())
				time.Sleep(2 * time.Minute)
				l.Stop()
				synctest.Wait()
				g.Expect(at[0]).To(BeZero())
				if row.after == 0 {
					g.Expect(at).To(HaveLen(1))
					return
				}
				g.Expect(len(at)).To(BeNumerically(">", 1))
				g.Expect(at[1]).To(BeNumerically("~", row.after, 2*time.Millisecond))
			})
		})
	}
}

func TestEachFailureDoublesTheBackOffAndASuccessForgetsIt(t *testing.T) {
	g := NewWithT(t)
	l := New(quiet("one", 1), &counter{})
	fails := true
	l.step = func(context.Context, view.Key) Result { return Result{Retry: fails} }
	next := func() int {
		l.queue.Add(key)
		l.next(t.Context())
		return l.queue.NumRequeues(key)
	}
	g.Expect([]int{next(), next(), next()}).To(Equal([]int{1, 2, 3}))
	fails = false
	g.Expect(next()).To(BeZero())
	l.Stop()
}

// It is asked once more when it stands where Hurry looks: of the two, one sees the other.
func TestAClaimThatComesWhileAKeyIsSetAsideIsNotOverlooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var l *Loop
		asked := 0
		options := quiet("slow", 1)
		options.Hurries = func(key view.Key) bool {
			if key.Name != "late" {
				return false
			}
			asked++
			if asked == 1 {
				l.Hurry(key) // too early: the key is set aside nowhere
			}
			return asked > 1
		}
		l = New(options, &counter{})
		hangs, stepped := make(chan struct{}), make(chan struct{})
		l.step = func(_ context.Context, key view.Key) Result {
			if key.Name == "late" {
				close(stepped)
				return Result{}
			}
			<-hangs
			return Result{}
		}
		l.Start()
		l.Wake(view.Key{Namespace: "a", Name: "first"})
		go l.Run(t.Context())
		time.Sleep(patience)
		l.Wake(view.Key{Namespace: "a", Name: "late"})
		synctest.Wait()
		g.Expect(stepped).To(BeClosed())
		close(hangs)
		l.Stop()
	})
}
