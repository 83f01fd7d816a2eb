package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A server is the API server as far as writes ask for it.
type server struct {
	asked int
	err   error
}

func (s *server) try(context.Context) error {
	s.asked++
	return s.err
}

func TestTheServerIsAskedOnceForAllWhoAskWithinAFewSeconds(t *testing.T) {
	g, now, api := NewWithT(t), time.Now(), &server{}
	w := &writes{try: api.try, now: func() time.Time { return now }}
	g.Expect(w.possible()).To(Succeed())
	api.err = errors.New("out of space")
	now = now.Add(writesEvery - 1)
	g.Expect(w.possible()).To(Succeed(), "that is what it knows")
	g.Expect(api.asked).To(Equal(1))
	now = now.Add(1)
	g.Expect(w.possible()).To(MatchError("the API server takes no write: out of space"))
	api.err = nil
	g.Expect(w.possible()).NotTo(Succeed(), "what is wrong is known as long")
	g.Expect(api.asked).To(Equal(2))
	now = now.Add(writesEvery)
	g.Expect(w.possible()).To(Succeed())
}

func TestWhoComesWhileTheServerIsAskedHasThatAnswer(t *testing.T) {
	g := NewWithT(t)
	begun, answer := make(chan struct{}), make(chan error)
	w := &writes{now: time.Now, try: func(context.Context) error {
		close(begun) // a second time would panic
		return <-answer
	}}
	heard := make([]error, 10)
	var asking sync.WaitGroup
	asking.Go(func() { heard[0] = w.possible() })
	<-begun
	for i := range heard[1:] {
		asking.Go(func() { heard[i+1] = w.possible() })
	}
	answer <- errors.New("no")
	asking.Wait()
	for _, err := range heard {
		g.Expect(err).To(MatchError("the API server takes no write: no"))
	}
}

func TestAServerThatDoesNotAnswerIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		w := &writes{now: time.Now, try: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		NewWithT(t).Expect(w.possible()).To(MatchError("the API server takes no write: no answer within 1s"))
		NewWithT(t).Expect(time.Since(begun)).To(Equal(writesLimit))
	})
}

func TestALeaderThatRenewsItsLeaseNeedNotAsk(t *testing.T) {
	mine := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
	g, now, lock, api := NewWithT(t), time.Now(), &paper{}, &server{err: errors.New("no")}
	clock := func() time.Time { return now }
	held := newTenure(lock, 2*time.Second)
	held.now = clock
	w := &writes{tenure: held, try: api.try, now: clock}
	g.Expect(w.possible()).To(MatchError("the API server takes no write: no"), "a standby asks")
	g.Expect(held.Create(t.Context(), mine)).To(Succeed())
	g.Expect(w.possible()).To(Succeed())
	now = now.Add(2 * time.Second)
	g.Expect(w.possible()).To(MatchError(ContainSubstring("the lease could not be renewed")), "it is permitted no write")
	g.Expect(held.Update(t.Context(), mine)).To(Succeed())
	g.Expect(w.possible()).To(Succeed())
	g.Expect(api.asked).To(Equal(1))
	now = now.Add(writesEvery)
	lock.taken("other")
	_, _, err := held.Get(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	api.err = nil
	g.Expect(w.possible()).To(Succeed(), "it is a standby again, and asks")
	g.Expect(api.asked).To(Equal(2))
}

func TestReadinessNamesAllThatIsWrongAndLogsWhatChanges(t *testing.T) {
	g, now, api, synced := NewWithT(t), time.Now(), &server{err: errors.New("no")}, false
	var log bytes.Buffer
	w := &writes{try: api.try, now: func() time.Time { return now }}
	r := newReadiness(func() bool { return synced }, w, slog.New(slog.NewTextHandler(&log, nil)))
	g.Expect(r.check()).To(MatchError("the informers have not synced yet\nthe API server takes no write: no"))
	synced = true
	g.Expect(r.check()).To(MatchError("the API server takes no write: no"))
	g.Expect(r.check()).NotTo(Succeed())
	now, api.err = now.Add(writesEvery), nil
	g.Expect(r.check()).To(Succeed())
	g.Expect(r.check()).To(Succeed())
	g.Expect(bytes.Count(log.Bytes(), []byte("msg=\"not ready\""))).To(Equal(2), log.String())
	g.Expect(bytes.Count(log.Bytes(), []byte("msg=ready"))).To(Equal(1), log.String())
}

func TestAnEventIsTriedAndNotKeptWhereAnyNamespaceTakesIt(t *testing.T) {
	g, closed := NewWithT(t), map[string]bool{}
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String())
		w.Header().Set("Content-Type", "application/json")
		for ns := range closed {
			if r.URL.Path == "/apis/events.k8s.io/v1/namespaces/"+ns+"/events" {
				w.WriteHeader(http.StatusForbidden)
				g.Expect(json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusForbidden, Message: ns + " is being terminated"})).To(Succeed())
				return
			}
		}
		g.Expect(json.NewEncoder(w).Encode(map[string]string{"apiVersion": "events.k8s.io/v1", "kind": "Event"})).To(Succeed())
	}))
	defer api.Close()
	core, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(tryEvent(t.Context(), core, namespaces{"a", "b"})).To(Succeed())
	g.Expect(asked).To(Equal([]string{"POST /apis/events.k8s.io/v1/namespaces/a/events?dryRun=All"}))
	closed["a"] = true
	g.Expect(tryEvent(t.Context(), core, namespaces{"a", "b"})).To(Succeed(), "one namespace is on its way out, and another is not")
	closed["b"] = true
	g.Expect(tryEvent(t.Context(), core, namespaces{"a", "b"})).To(MatchError(And(ContainSubstring("a is being"), ContainSubstring("b is being"))))
}
