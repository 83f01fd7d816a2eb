package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A reviewer is an API server that knows the token "known" and "other", lets the owner
// of the first get /metrics, and counts what it is asked.
type reviewer struct {
	*httptest.Server
	asked []string
	down  bool
}

func review(t *testing.T) *reviewer {
	g, v := NewWithT(t), &reviewer{}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v.down {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch {
		case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
			one := &authenticationv1.TokenReview{}
			g.Expect(json.NewDecoder(r.Body).Decode(one)).To(Succeed())
			v.asked = append(v.asked, "whose is "+one.Spec.Token)
			one.Status.Authenticated = one.Spec.Token == "known" || one.Spec.Token == "other"
			one.Status.User = authenticationv1.UserInfo{Username: one.Spec.Token, UID: "1", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
			answer = one
		case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
			one := &authorizationv1.SubjectAccessReview{}
			g.Expect(json.NewDecoder(r.Body).Decode(one)).To(Succeed())
			s := one.Spec
			v.asked = append(v.asked, fmt.Sprintf("may %s %s %v %v %s %s", s.User, s.UID, s.Groups, s.Extra, s.NonResourceAttributes.Verb, s.NonResourceAttributes.Path))
			one.Status.Allowed = s.User == "known" && s.NonResourceAttributes.Verb == "get" && s.NonResourceAttributes.Path == "/metrics"
			answer = one
		}
		g.Expect(json.NewEncoder(w).Encode(answer)).To(Succeed())
	}))
	t.Cleanup(v.Close)
	return v
}

type handClock struct{ time.Time }

func (c *handClock) Now() time.Time { return c.Time }

// guarded is a guard that asks a reviewer, and whose cache has a clock of its own.
func guarded(t *testing.T, v *reviewer, most int) (*guard, *handClock) {
	t.Helper()
	core, err := kubernetes.NewForConfig(&rest.Config{Host: v.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	clock := &handClock{time.Now()}
	return &guard{
		next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "figures") }),
		core: core, log: slog.New(slog.DiscardHandler), verdicts: cache.NewLRUExpireCacheWithClock(most, clock),
	}, clock
}

func says(g *guard, method, path, authorization string) string {
	r := httptest.NewRequest(method, path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	answer := httptest.NewRecorder()
	g.ServeHTTP(answer, r)
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", answer.Code, strings.TrimSpace(answer.Body.String()), answer.Header().Get("WWW-Authenticate")))
}

func TestTheGuardAsksWhoseATokenIsAndWhetherTheOwnerMay(t *testing.T) {
	for _, row := range []struct {
		name, method, path, authorization, says string
		asked                                   []string
	}{
		{"no token costs nobody a question", "GET", "/metrics", "", "401 Unauthorized Bearer", nil},
		{"a password is no token", "GET", "/metrics", "Basic a25vd246", "401 Unauthorized Bearer", nil},
		{"an empty token is none", "GET", "/metrics", "Bearer  ", "401 Unauthorized Bearer", nil},
		{"a token that nobody knows", "GET", "/metrics", "Bearer x", "401 Unauthorized Bearer", []string{"whose is x"}},
		{"somebody without the right", "GET", "/metrics", "Bearer other", "403 Forbidden", []string{"whose is other", "may other 1 [g] map[k:[v]] get /metrics"}},
		{"somebody with the right", "GET", "/metrics", "bearer known", "200 figures", []string{"whose is known", "may known 1 [g] map[k:[v]] get /metrics"}},
		{"another path is another right", "GET", "/debug/pprof/heap", "Bearer known", "403 Forbidden", []string{"whose is known", "may known 1 [g] map[k:[v]] get /debug/pprof/heap"}},
		{"another verb, too", "POST", "/metrics", "Bearer known", "403 Forbidden", []string{"whose is known", "may known 1 [g] map[k:[v]] post /metrics"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			g, v := NewWithT(t), review(t)
			guard, _ := guarded(t, v, 10)
			for range 2 { // the second time it knows
				g.Expect(says(guard, row.method, row.path, row.authorization)).To(Equal(row.says))
				g.Expect(v.asked).To(Equal(row.asked))
			}
		})
	}
}

func TestAVerdictHoldsForAWhileAndOnlySoManyAreKept(t *testing.T) {
	g, v := NewWithT(t), review(t)
	guard, clock := guarded(t, v, 2)
	ask := func(token string) int {
		before := len(v.asked)
		says(guard, "GET", "/metrics", "Bearer "+token)
		return len(v.asked) - before
	}
	g.Expect(ask("known")).To(Equal(2))
	clock.Time = clock.Add(verdictLasts)
	g.Expect(ask("known")).To(BeZero())
	clock.Time = clock.Add(1)
	g.Expect(ask("known")).To(Equal(2), "a right may be gone by now")
	for _, stranger := range []string{"a", "b", "c"} {
		g.Expect(ask(stranger)).To(Equal(1))
	}
	g.Expect(guard.verdicts.Keys()).To(HaveLen(2))
	g.Expect(ask("known")).To(Equal(2), "it was pushed out, and that costs questions alone")
}

func TestWhatCannotBeReviewedIsRefusedAndAskedAgain(t *testing.T) {
	g, v := NewWithT(t), review(t)
	guard, _ := guarded(t, v, 10)
	v.down = true
	g.Expect(says(guard, "GET", "/metrics", "Bearer known")).To(Equal("503 the API server does not say who may ask for this"))
	v.down = false
	g.Expect(says(guard, "GET", "/metrics", "Bearer known")).To(Equal("200 figures"))
}
