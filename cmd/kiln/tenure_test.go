package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A paper is a lease in memory.
type paper struct {
	resourcelock.Interface
	read   func() // a read has its answer and has not returned
	before func() // a write is answered

	mu     sync.Mutex
	record resourcelock.LeaderElectionRecord
	gone   bool
	err    error // of every request
	refuse error // of every write
	reads  int
	writes int
}

func (p *paper) Identity() string   { return "me" }
func (p *paper) Describe() string   { return "a lease in memory" }
func (p *paper) RecordEvent(string) {}

func (p *paper) fails(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// taken has another hold the lease for ever.
func (p *paper) taken(by string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record = resourcelock.LeaderElectionRecord{HolderIdentity: by, LeaseDurationSeconds: 3600}
}

// released has nobody hold the lease.
func (p *paper) released() { p.taken("") }

// deleted has there be no lease.
func (p *paper) deleted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
}

func (p *paper) held() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.record.HolderIdentity
}

// asked is how often the lease was read and written.
func (p *paper) asked() (reads, writes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reads, p.writes
}

func (p *paper) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	p.mu.Lock()
	p.reads++
	r, err := p.record, p.err
	if p.gone {
		err = apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, leaseName)
	}
	p.mu.Unlock()
	if p.read != nil {
		p.read()
	}
	return &r, []byte(fmt.Sprint(r)), err
}

func (p *paper) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return p.Update(ctx, r)
}

func (p *paper) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if p.before != nil {
		p.before()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
	if err := cmp.Or(p.err, p.refuse); err != nil {
		return err
	}
	p.record, p.gone = r, false
	return nil
}

func TestATenureEndsWhenTheLeaseDoesWhoeverNoticesThat(t *testing.T) {
	mine, released := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}, resourcelock.LeaderElectionRecord{}
	for _, row := range []struct {
		name  string
		then  func(*tenure, *paper, *time.Time)
		holds bool
	}{
		{"it was just taken", func(*tenure, *paper, *time.Time) {}, true},
		{"the process was stopped for longer than the lease", func(_ *tenure, _ *paper, now *time.Time) {
			*now = now.Add(3 * time.Second)
		}, false},
		{"it was renewed", func(t *tenure, _ *paper, now *time.Time) {
			*now = now.Add(2 * time.Second)
			_ = t.Update(context.Background(), mine)
			*now = now.Add(2 * time.Second)
		}, true},
		{"it could not be renewed", func(t *tenure, p *paper, now *time.Time) {
			*now, p.err = now.Add(2*time.Second), errors.New("no")
			_ = t.Update(context.Background(), mine)
			*now = now.Add(2 * time.Second)
		}, false},
		{"the answer came late: the lease counts from the question", func(t *tenure, p *paper, now *time.Time) {
			p.before = func() { *now = now.Add(3 * time.Second) }
			_ = t.Update(context.Background(), mine)
		}, false},
		{"another has it", func(t *tenure, p *paper, _ *time.Time) {
			p.record.HolderIdentity = "other"
			_, _, _ = t.Get(context.Background())
		}, false},
		{"it is released, whether or not that is answered", func(t *tenure, p *paper, _ *time.Time) {
			p.err = errors.New("no")
			t.end()
			_ = t.Update(context.Background(), released)
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			g, now, lock := NewWithT(t), time.Now(), &paper{}
			held := newTenure(lock, 3*time.Second)
			held.now = func() time.Time { return now }
			g.Expect(held.Holds()).To(MatchError(errNoLease))
			g.Expect(held.Create(t.Context(), mine)).To(Succeed())
			row.then(held, lock, &now)
			g.Expect(held.Holds() == nil).To(Equal(row.holds))
		})
	}
}

// client-go's elector releases the lease when it could not renew it, and also one that
// another has by now.
func TestOnlyALeaseThatIsOursIsReleasedAndWhenTheWorkHasEnded(t *testing.T) {
	g, lock, none := NewWithT(t), &paper{}, resourcelock.LeaderElectionRecord{}
	held := newTenure(lock, time.Minute)
	g.Expect(held.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"})).To(Succeed())
	g.Expect(held.Update(t.Context(), none)).To(MatchError(errGoesOn))
	g.Expect(held.Holds()).To(Succeed())
	held.end()
	lock.before = func() { g.Expect(held.Holds()).To(MatchError(errNoLease), "the writer is told first") }
	g.Expect(held.Update(t.Context(), none)).To(Succeed())
	lock.record.HolderIdentity = "other"
	_, _, err := held.Get(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(held.Update(t.Context(), none)).To(MatchError(errGoesOn))
	g.Expect(lock.record.HolderIdentity).To(Equal("other"))
}

// elected is an election over a lease in memory, and what its work does.
type elected struct {
	election
	lock *paper
	// saw is told what a watch of the lease shows, which ends when unwatched is closed.
	saw       func(free bool)
	unwatched chan struct{}
	// began and ended are closed by the work.
	began, ended chan struct{}
	err          chan error
}

// elect runs a replica until ctx ends, and returns when all it can do is wait.
func elect(t *testing.T, ctx context.Context, lock *paper, args ...string) *elected {
	t.Helper()
	e := electOn(t, ctx, lock, args...)
	e.lock = lock
	return e
}

// electOn is elect for what looks at a lease.
func electOn(t *testing.T, ctx context.Context, lock resourcelock.Interface, args ...string) *elected {
	t.Helper()
	s, err := parse(args)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	e := &elected{unwatched: make(chan struct{}), began: make(chan struct{}), ended: make(chan struct{}), err: make(chan error, 1)}
	watch := func(ctx context.Context, saw func(bool)) {
		e.saw = saw
		<-ctx.Done()
		close(e.unwatched)
	}
	e.election = election{settings: s, tenure: newTenure(lock, s.leaseDuration), watch: watch, log: slog.New(slog.DiscardHandler)}
	go func() {
		e.err <- e.lead(ctx, func(ctx context.Context) error {
			close(e.began)
			<-ctx.Done()
			close(e.ended)
			return nil
		})
	}()
	synctest.Wait()
	return e
}

func TestALeaderThatCannotRenewWritesNothingAndGoesOnWhenItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		ctx, stop := context.WithCancel(t.Context())
		e := elect(t, ctx, &paper{})
		g.Expect(e.tenure.Holds()).To(Succeed())
		e.lock.fails(errors.New("the API server is away"))
		time.Sleep(time.Minute)
		g.Expect(e.tenure.Holds()).To(MatchError(errNoLease))
		g.Expect(e.ended).NotTo(BeClosed(), "nobody else can have it either")
		e.lock.fails(nil)
		time.Sleep(2 * e.settings.leaseDuration)
		g.Expect(e.tenure.Holds()).To(Succeed())
		stop()
		g.Expect(<-e.err).To(Succeed())
		g.Expect(e.ended).To(BeClosed())
		g.Expect(e.lock.held()).To(BeEmpty(), "it is released")
	})
}

func TestALeaderWhoseLeaseAnotherHasEndsAndLeavesItAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		e := elect(t, t.Context(), &paper{})
		e.lock.fails(errors.New("the API server is away"))
		time.Sleep(time.Minute)
		e.lock.fails(nil)
		e.lock.taken("other")
		g.Expect(<-e.err).To(MatchError(errLeaseLost))
		g.Expect(e.ended).To(BeClosed())
		g.Expect(e.tenure.Holds()).To(MatchError(errNoLease))
		g.Expect(e.lock.held()).To(Equal("other"))
	})
}

func TestACandidateThatIsToldToStopTouchesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, lock := NewWithT(t), &paper{}
		lock.taken("other")
		ctx, stop := context.WithCancel(t.Context())
		e := elect(t, ctx, lock)
		time.Sleep(time.Second)
		stop()
		g.Expect(<-e.err).To(Succeed())
		g.Expect(e.began).NotTo(BeClosed())
		g.Expect(e.unwatched).To(BeClosed())
		g.Expect(lock.held()).To(Equal("other"))
		g.Expect(lock.writes).To(BeZero())
	})
}
