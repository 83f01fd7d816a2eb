package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// A script answers one request after the other, and keeps what was asked.
type script struct {
	mu      sync.Mutex
	asked   []string
	remotes map[string]bool
	answers []func(http.ResponseWriter)
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
	s.remotes[r.RemoteAddr] = true
	n := min(len(s.asked), len(s.answers)) - 1
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	s.answers[n](w)
}

func says(code int, text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(code)
		fmt.Fprintln(w, text)
	}
}

// play connects to a server that follows a script.
func play(t *testing.T, connections int, answers ...func(http.ResponseWriter)) (*server, *script) {
	t.Helper()
	script := &script{answers: answers, remotes: map[string]bool{}}
	h := httptest.NewServer(script)
	t.Cleanup(h.Close)
	s, err := connect(&rest.Config{Host: h.URL}, connections)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s, script
}

func TestWhoIsToldToComeBackLaterComesBackLater(t *testing.T) {
	g := NewWithT(t)
	s, script := play(t, 1,
		func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			says(429, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`)(w)
		},
		says(201, `{"metadata":{"name":"a","uid":"u"}}`),
	)
	o, err := s.create(t.Context(), "/x", []byte("{}"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Metadata.UID).To(Equal("u"))
	g.Expect(script.asked).To(HaveLen(2))
	g.Expect(s.throttled.Load()).To(BeEquivalentTo(1))
}

func TestRequestsAreSpreadOverConnections(t *testing.T) {
	g := NewWithT(t)
	s, script := play(t, 3, says(200, `{}`))
	for range 6 {
		_, err := s.get(t.Context(), "/x")
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(script.remotes).To(HaveLen(3))
}

func TestErrorsAreCountedByTheirKind(t *testing.T) {
	g := NewWithT(t)
	s, _ := play(t, 1, says(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
	_, err := s.create(t.Context(), "/x", []byte("{}"))
	g.Expect(kindOf(err)).To(Equal("Forbidden"))
	g.Expect(kindOf(context.DeadlineExceeded)).To(Equal("Timeout"))
	g.Expect(kindOf(fmt.Errorf("reset by peer"))).To(Equal("Connection"))
	g.Expect(s.remove(t.Context(), "/x")).NotTo(Succeed())
}

func TestAWatchGoesOnWhereItWasAndListsAgainWhenThatIsForgotten(t *testing.T) {
	g := NewWithT(t)
	line := func(kind, name, version string) string {
		return fmt.Sprintf(`{"type":%q,"object":{"metadata":{"name":%q,"resourceVersion":%q},"spec":{"a":[1]},"status":{"readyReplicas":3}}}`, kind, name, version)
	}
	s, script := play(t, 1,
		says(200, `{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a"}}]}`),
		says(200, line("MODIFIED", "a", "6")+"\n"+line(bookmark, "", "8")),
		says(200, line(added, "b", "9")+"\n"+`{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}}`),
		says(200, `{"metadata":{"resourceVersion":"12"},"items":[{"metadata":{"name":"b"}}]}`),
		says(200, line(deleted, "b", "13")),
	)
	var seen []string
	err := s.follow(t.Context(), source{path: "/x", field: "metadata.name=n"}, func(_ time.Time, e event) bool {
		seen = append(seen, e.Type+" "+e.Object.Metadata.Name)
		return e.Type != deleted
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(seen).To(Equal([]string{
		"LISTING ", "ADDED a", "LISTED ", "MODIFIED a", "ADDED b", "LISTING ", "ADDED b", "LISTED ", "DELETED b",
	}))
	watch := func(version string) string {
		return "GET /x?allowWatchBookmarks=true&fieldSelector=metadata.name%3Dn&resourceVersion=" + version + "&watch=true"
	}
	g.Expect(script.asked).To(Equal([]string{
		"GET /x?fieldSelector=metadata.name%3Dn", watch("5"), watch("8"), "GET /x?fieldSelector=metadata.name%3Dn", watch("12"),
	}))
}

func TestAWatchThatIsRefusedEndsWhatRestsOnIt(t *testing.T) {
	g := NewWithT(t)
	s, _ := play(t, 1, says(404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
	_, stop, err := s.attend(t.Context(), source{path: "/x"}, func(time.Time, event) {})
	stop()
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)

	s, _ = play(t, 1, says(200, `{"metadata":{"resourceVersion":"5"}}`), says(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
	ctx, stop, err := s.attend(t.Context(), source{path: "/x"}, func(time.Time, event) {})
	g.Expect(err).NotTo(HaveOccurred(), "it was listed, however soon its watch is refused")
	<-ctx.Done()
	g.Expect(apierrors.IsForbidden(context.Cause(ctx))).To(BeTrue())
	stop()
}

func TestOnlyAServerOnThisMachineHasItsProcessesHere(t *testing.T) {
	g := NewWithT(t)
	for host, here := range map[string]bool{
		"https://127.0.0.1:6443": true, "https://localhost": true, "https://[::1]:6443": true,
		"https://10.0.0.1:6443": false, "https://api.example.com": false, "%": false,
	} {
		g.Expect(local(host)).To(Equal(here), host)
	}
}

func TestProgressIsOneLineOnATerminalAndFewLinesElsewhere(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	p := NewProgress(&out, false)
	for range 3 {
		p.update("on its way")
	}
	p.say("done")
	g.Expect(out.String()).To(Equal("bench: on its way\nbench: done\n"))

	out.Reset()
	p = NewProgress(&out, true)
	p.update("on its way")
	p.say("done")
	g.Expect(out.String()).To(Equal(rewrite + "bench: on its way" + rewrite + "bench: done\n"))
}
