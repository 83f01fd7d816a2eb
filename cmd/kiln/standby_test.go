package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// hourly are the times of a replica whose elector looks no more often than every hour.
var hourly = []string{"--leader-elect-lease-duration=10h", "--leader-elect-renew-deadline=9h", "--leader-elect-retry-period=1h"}

func TestAStandbyLeadsAtOnceWhenItSeesThatTheLeaseIsFree(t *testing.T) {
	for _, row := range []struct {
		name string
		then func(*elected)
	}{
		{"the leader released it", func(e *elected) {
			e.lock.released()
			e.saw(true)
		}},
		{"it was taken by another and released again, which is seen one by one", func(e *elected) {
			e.saw(true)
			synctest.Wait()
			e.saw(false)
			synctest.Wait()
			e.lock.released()
			e.saw(true)
		}},
		{"it was released while the answer to a look was under way, and the elector would wait for the next", func(e *elected) {
			e.lock.read = func() {
				e.lock.read = nil
				e.lock.released()
				e.saw(true)
			}
			e.saw(true)
		}},
		{"it was released twice while one look follows the other", func(e *elected) {
			e.lock.released()
			e.saw(true)
			e.saw(true)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, lock := NewWithT(t), &paper{}
				lock.taken("other")
				ctx, stop := context.WithCancel(t.Context())
				e := elect(t, ctx, lock, hourly...)
				g.Expect(e.began).NotTo(BeClosed())
				row.then(e)
				synctest.Wait() // no time goes by
				g.Expect(e.began).To(BeClosed())
				g.Expect(lock.held()).To(Equal("me"))
				g.Expect(e.unwatched).To(BeClosed(), "a leader waits for nothing")
				stop()
				g.Expect(<-e.err).To(Succeed())
				g.Expect(lock.held()).To(BeEmpty())
			})
		})
	}
}

func TestWhatIsSeenEndsNoRunThatLeadsOrMayLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, lock := NewWithT(t), &paper{}
		lock.taken("other")
		ctx, stop := context.WithCancel(t.Context())
		e := elect(t, ctx, lock, hourly...)
		lock.before = func() { e.saw(true) } // while it is taken
		lock.released()
		e.saw(true)
		synctest.Wait()
		g.Expect(e.began).To(BeClosed())
		reads, writes := lock.asked()
		for range 3 {
			e.saw(true)
			synctest.Wait()
			again, written := lock.asked()
			g.Expect([]int{again, written}).To(Equal([]int{reads, writes}))
		}
		g.Expect(e.ended).NotTo(BeClosed())
		g.Expect(e.tenure.Holds()).To(Succeed())
		stop()
		g.Expect(<-e.err).To(Succeed())
		g.Expect(lock.held()).To(BeEmpty())
	})
}

func TestAFreeLeaseThatCannotBeTakenIsTriedForOnceEachTimeItIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, lock := NewWithT(t), &paper{}
		lock.taken("other")
		ctx, stop := context.WithCancel(t.Context())
		e := elect(t, ctx, lock, hourly...)
		lock.released()
		lock.refuse = errors.New("no")
		for seen := range 3 {
			e.saw(true)
			synctest.Wait()
			_, writes := lock.asked()
			g.Expect(writes).To(Equal(seen + 1))
		}
		time.Sleep(24 * time.Hour)
		_, writes := lock.asked()
		g.Expect(writes).To(And(BeNumerically(">", 3), BeNumerically("<", 3+25)), "then the elector goes on at its own pace")
		g.Expect(e.began).NotTo(BeClosed())
		stop()
		g.Expect(<-e.err).To(Succeed())
	})
}

func TestALeaseThatAnotherTookFirstIsLeftToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, lock := NewWithT(t), &paper{}
		lock.taken("other")
		ctx, stop := context.WithCancel(t.Context())
		e := elect(t, ctx, lock, hourly...)
		lock.taken("third")
		before, _ := lock.asked()
		e.saw(true)
		synctest.Wait()
		reads, writes := lock.asked()
		g.Expect(reads).To(Equal(before+1), "one look, to see that it is late")
		g.Expect(writes).To(BeZero())
		stop()
		g.Expect(<-e.err).To(Succeed())
		g.Expect(lock.held()).To(Equal("third"))
	})
}

// A run is ended exactly when it waits although the lease is free.
func TestARunEndsOnlyWhileItWaits(t *testing.T) {
	mine := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
	for _, row := range []struct {
		name string
		then func(*standby, *paper)
		ends bool
	}{
		{"it has not looked yet, and will at once", func(s *standby, _ *paper) { s.saw(true) }, false},
		{"it waits for who holds the lease", func(s *standby, p *paper) {
			p.taken("other")
			_, _, _ = s.Get(context.Background())
			s.saw(true)
		}, true},
		{"it waits, and the lease is renewed", func(s *standby, p *paper) {
			p.taken("other")
			_, _, _ = s.Get(context.Background())
			s.saw(false)
		}, false},
		{"it has found the lease free, and writes next", func(s *standby, _ *paper) {
			_, _, _ = s.Get(context.Background())
			s.saw(true)
		}, false},
		{"it was too late, and the lease is free again", func(s *standby, p *paper) {
			_, _, _ = s.Get(context.Background())
			s.saw(true)
			p.refuse = errors.New("conflict")
			_ = s.Update(context.Background(), mine)
		}, true},
		{"it was too late, and another holds the lease", func(s *standby, p *paper) {
			_, _, _ = s.Get(context.Background())
			s.saw(true)
			s.saw(false)
			p.refuse = errors.New("conflict")
			_ = s.Update(context.Background(), mine)
		}, false},
		{"there is no lease, and it makes one next", func(s *standby, p *paper) {
			p.deleted()
			_, _, _ = s.Get(context.Background())
			s.saw(true)
		}, false},
		{"it has won", func(s *standby, _ *paper) {
			_, _, _ = s.Get(context.Background())
			_ = s.Update(context.Background(), mine)
			s.saw(true)
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			g, lock := NewWithT(t), &paper{}
			s := &standby{Interface: lock, unwatch: func() {}}
			s.saw(true) // before there is a run
			run, end := s.stand(t.Context())
			defer end()
			row.then(s, lock)
			g.Expect(run.Err() != nil).To(Equal(row.ends))
			if writes := lock.writes; row.ends {
				g.Expect(s.Update(t.Context(), mine)).To(MatchError(errLooksAgain), "what was ended does not win")
				g.Expect(lock.writes).To(Equal(writes))
			}
			s.saw(true) // between two runs
			next, end := s.stand(t.Context())
			defer end()
			g.Expect(next.Err()).NotTo(HaveOccurred())
		})
	}
}

// leaseOf is the lease as somebody holds it.
func leaseOf(holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName, Namespace: "home"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
}

// watched runs a watch of the lease until the test ends.
func watched(t *testing.T, objects cache.ListerWatcher, log *slog.Logger) (saw chan bool) {
	t.Helper()
	saw = make(chan bool, 10)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		leaseWatch{objects, log}.run(ctx, func(free bool) { saw <- free })
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return saw
}

func TestTheWatchTellsWhetherTheLeaseIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, events := NewWithT(t), watch.NewFake()
		held := &coordinationv1.LeaseList{Items: []coordinationv1.Lease{*leaseOf("other")}}
		saw := watched(t, &cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return held, nil },
			WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
				if o.SendInitialEvents != nil {
					return nil, errors.New("list first")
				}
				return events, nil
			},
		}, slog.New(slog.DiscardHandler))
		g.Expect(<-saw).To(BeFalse(), "it is held")
		events.Modify(leaseOf(""))
		g.Expect(<-saw).To(BeTrue(), "it is released")
		events.Modify(leaseOf("third"))
		g.Expect(<-saw).To(BeFalse(), "it is taken")
		events.Delete(leaseOf("third")) // a leader that works makes it again: that is left to the elector
		events.Add(&coordinationv1.Lease{ObjectMeta: leaseOf("").ObjectMeta})
		g.Expect(<-saw).To(BeTrue(), "nobody has held it yet")
	})
}

func TestAWatchThatIsForbiddenSaysSoOnceAndGoesOnTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, log, tries := NewWithT(t), &bytes.Buffer{}, 0
		saw := watched(t, &cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				if tries++; tries < 3 {
					return nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), leaseName, errors.New("no right"))
				}
				return &coordinationv1.LeaseList{Items: []coordinationv1.Lease{*leaseOf("")}}, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				return nil, errors.New("list first")
			},
		}, slog.New(slog.NewTextHandler(log, nil)))
		g.Expect(<-saw).To(BeTrue())
		g.Expect(bytes.Count(log.Bytes(), []byte("the lease is not watched"))).To(Equal(1), log.String())
	})
}
