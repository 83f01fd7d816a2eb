package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// A trial is one scenario under way.
type trial struct {
	*session
	scenario string
	ledger   *ledger
	// claims is the path of the claims, make makes one, look is done with each that was
	// served.
	claims string
	make   func(context.Context, *life) error
	look   func(context.Context, *life)

	mu   sync.Mutex
	made int
}

// A load makes claims, and deletes them.
type load func(context.Context, *trial) error

// measure puts a load on the pool as it stands and takes every figure, until all is as
// it was.
func (s *session) measure(ctx context.Context, scenario string, rate float64, put load) (Result, error) {
	t := &trial{session: s, scenario: scenario, ledger: newLedger(), claims: s.path("sandboxclaims")}
	t.make = t.makeClaim
	counts, throttled := s.counts(ctx), s.server.throttled.Load()
	cpu, meter := s.processes.used(procDir), s.processes.measure(ctx)
	t.ledger.begun = time.Now()
	s.live.Store(t.ledger)
	err := errors.Join(put(ctx, t), ctx.Err())
	if err == nil {
		err = s.settle(ctx, t.ledger.pods())
	}
	took, usage, used := time.Since(t.ledger.begun), meter.end(), s.processes.used(procDir)
	if err != nil {
		return Result{}, err
	}
	lives, errs := t.ledger.close()
	r := summarize(lives)
	r.Scenario, r.Pool, r.Rate, r.CycleSeconds, r.Errors = scenario, s.size, rate, took.Seconds(), errs
	r.Throttled = int(s.server.throttled.Load() - throttled)
	r.Checks, r.Violations = judge(lives)
	r.Fill, s.fill = s.fill, nil
	if len(s.processes) > 0 {
		r.Memory = s.processes.resident(procDir)
	}
	r.Usage, r.CPU = usage, between(cpu, used, r.Claims)
	if counts != nil {
		r.Requests = perClaim(counts, s.counts(ctx), r.Claims)
	}
	s.progress.say("round %d: %-10s %5d claims  p50 %s  p90 %s  p99 %s ms  %v", s.round, scenario, r.Claims,
		figure(r.Latency.P50), figure(r.Latency.P90), figure(r.Latency.P99), r.Checks)
	return r, nil
}

// counts are the API server's own, or nil where they may not be read.
func (s *session) counts(ctx context.Context) map[asked]float64 {
	counts, err := s.server.counts(ctx)
	if err != nil {
		s.note("no requests per claim: %v", err)
		return nil
	}
	return counts
}

// ask makes a claim and waits until it is served, or is not in time.
func (t *trial) ask(ctx context.Context) (*life, bool) {
	t.mu.Lock()
	t.made++
	id := fmt.Sprintf("%s-%d-%d", strings.NewReplacer("@", "-", ".", "-").Replace(t.scenario), t.round, t.made)
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	one := t.ledger.ask(id)
	err := t.make(ctx, one)
	t.ledger.answer(one, err)
	waiting, served := t.ledger.waiting()
	t.progress.update("round %d: %s: %d served, %d waiting", t.round, t.scenario, served, waiting)
	if err != nil {
		return one, false
	}
	select {
	case <-one.done:
	case <-ctx.Done():
		return one, false
	}
	if t.look != nil {
		t.look(ctx, one)
	}
	return one, true
}

// drop deletes a claim. One that could not be made may be there all the same: an answer
// that is lost says nothing.
func (t *trial) drop(ctx context.Context, one *life) {
	if one.refused == "" {
		t.ledger.drop(one)
	}
	if err := t.server.remove(ctx, t.claims+"/"+one.name); err != nil {
		t.ledger.fail("delete", err)
	}
}

func (t *trial) makeClaim(ctx context.Context, one *life) error {
	_, err := t.server.create(ctx, t.claims, fmt.Appendf(nil,
		`{"apiVersion":"extensions.agents.x-k8s.io/v1beta1","kind":"SandboxClaim","metadata":{"name":%q},"spec":{"warmPoolRef":{"name":%q}}}`, one.name, bench))
	return err
}

// inspect notes of which revision the pod of a claim is, if that was promised: one read
// after the claim was served. A pod has the name of its sandbox.
func (t *trial) inspect(ctx context.Context, one *life) {
	if one.wants == 0 {
		return
	}
	pod, err := t.server.get(ctx, t.pods()+"/"+one.sandbox)
	revision := 0
	if err == nil {
		revision, err = revisionOf(pod)
	}
	if err != nil {
		t.ledger.fail("read the pod", err)
		return
	}
	t.ledger.revise(one, revision)
}

// pods are the names of the pods that claims were given.
func (l *ledger) pods() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	used := map[string]bool{}
	for _, one := range l.lives {
		if one.sandbox != "" {
			used[one.sandbox] = true
		}
	}
	return used
}
