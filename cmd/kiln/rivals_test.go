package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// theirs is a pod of the agent-sandbox controller with these arguments.
func theirs(args string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: "home"},
		Spec: corev1.PodSpec{ServiceAccountName: rivalAccount, Containers: []corev1.Container{{
			Command: []string{"/agent-sandbox-controller"}, Args: strings.Fields(args),
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func TestWhoDoesNotUseTheLeaseIsARival(t *testing.T) {
	for args, why := range map[string]string{
		"":                                    "",
		"--leader-elect=true --extensions":    "",
		"--leader-elect":                      "",
		"-leader-elect=1":                     "",
		"--leader-elect=false":                "it has --leader-elect=false",
		"-leader-elect=F":                     "it has --leader-elect=F",
		"--leader-elect=$(ELECT)":             "it has --leader-elect=$(ELECT)",
		"--leader-elect=false --leader-elect": "",
		"--leader-elect --leader-elect=0":     "it has --leader-elect=0",
		"--leader-election-namespace=home":    "",
		"--leader-election-namespace=":        "",
		"--leader-election-namespace=other":   "it has --leader-election-namespace=other",
		"-leader-election-namespace other":    "it has --leader-election-namespace=other",
		"controller --leader-elect=true --leader-election-namespace=home": "",
	} {
		if got := apart(theirs(args), true); got != why {
			t.Errorf("%q: %q, want %q", args, got, why)
		}
	}
	if apart(theirs(""), false) == "" {
		t.Error("who holds no lease shares none")
	}
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		ended := theirs("--leader-elect=false")
		ended.Status.Phase = phase
		if why := apart(ended, true); why != "" {
			t.Errorf("a pod that has %s: %s", phase, why)
		}
	}
}

// beside is what a process knows of the pods beside it.
func beside(t *testing.T, pods ...*corev1.Pod) *rivals {
	t.Helper()
	r := &rivals{
		namespace: "home", elects: true, self: "me", pods: cache.NewStore(cache.MetaNamespaceKeyFunc), log: slog.New(slog.DiscardHandler),
		known: make(chan struct{}), changed: make(chan struct{}), said: map[string]string{},
	}
	for _, p := range pods {
		NewWithT(t).Expect(r.pods.Add(p)).To(Succeed())
	}
	return r
}

func TestALeaseWhoseHoldersPodIsGoneIsTakenBeforeItRunsOut(t *testing.T) {
	for name, row := range map[string]struct {
		holder string
		leads  bool
	}{
		"its pod was there and is gone": {"theirs_1", true},
		"its pod was never there":       {"laptop_1", false},
		"another process of the pod":    {"theirs_2", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, pod, paper := NewWithT(t), theirs(""), &paper{}
				r := beside(t, pod)
				paper.taken("theirs_1") // for an hour
				ctx, stop := context.WithCancel(t.Context())
				e := electOn(t, ctx, &sharedLease{Interface: paper, rivals: r})
				time.Sleep(time.Minute)
				g.Expect(e.began).NotTo(BeClosed())
				if row.holder != "theirs_1" {
					g.Expect(r.pods.Delete(pod)).To(Succeed())
					paper.taken(row.holder)
				}
				g.Expect(r.pods.Delete(pod)).To(Succeed())
				time.Sleep(2 * time.Second)
				if row.leads {
					g.Expect(e.began).To(BeClosed())
					g.Expect(paper.held()).To(Equal("me"))
				} else {
					g.Expect(e.began).NotTo(BeClosed())
				}
				stop()
				g.Expect(<-e.err).To(Succeed())
			})
		})
	}
}

func TestALeaderGivesWayToARivalAndAStandbyWaitsForItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, paper, r := NewWithT(t), &paper{}, beside(t)
		e := electOn(t, t.Context(), &sharedLease{Interface: paper, rivals: r})
		g.Expect(e.began).To(BeClosed())
		rival := theirs("--leader-elect=false")
		g.Expect(r.pods.Add(rival)).To(Succeed())
		time.Sleep(10 * time.Second)
		g.Expect(e.err).To(Receive(MatchError(errLeaseLost)))
		g.Expect(e.tenure.Holds()).To(MatchError(errNoLease))

		ctx, stop := context.WithCancel(t.Context())
		next := electOn(t, ctx, &sharedLease{Interface: paper, rivals: r})
		time.Sleep(24 * time.Hour)
		g.Expect(next.began).NotTo(BeClosed())
		g.Expect(r.pods.Delete(rival)).To(Succeed())
		time.Sleep(2 * time.Second)
		g.Expect(next.began).To(BeClosed())
		stop()
		g.Expect(<-next.err).To(Succeed())
	})
}

func TestNothingBeginsBeforeThePodsAreKnownAndNoRivalIsAmongThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, rival := NewWithT(t), theirs("--leader-elect=false")
		r := beside(t, rival)
		done := make(chan error, 1)
		go func() { done <- r.none(t.Context()) }()
		synctest.Wait()
		g.Expect(done).NotTo(Receive())
		close(r.known)
		r.look()
		synctest.Wait()
		g.Expect(done).NotTo(Receive())
		g.Expect(r.pods.Delete(rival)).To(Succeed())
		r.look()
		synctest.Wait()
		g.Expect(done).To(Receive(Succeed()))

		own := theirs("--leader-elect=false")
		own.Name = r.self
		g.Expect(r.pods.Add(own)).To(Succeed())
		g.Expect(r.none(t.Context())).To(Succeed(), "a process is not its own rival")
	})
}
