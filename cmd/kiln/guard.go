package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/crds/client"
)

// What a stranger with many tokens can cost: so many verdicts are remembered, and so many
// reviews are asked for in a second.
const (
	verdictsMost   = 1024
	reviewsASecond = 10
	reviewsAtOnce  = 20
)

// verdictLasts is how long a verdict holds, and so how long a right that was taken away
// or a token that was revoked still opens.
const verdictLasts = 10 * time.Second

// reviewLimit is the longest that a review may take.
const reviewLimit = 5 * time.Second

// A guard lets a request through if the API server knows its bearer token and lets its
// owner do what it asks for, as for a request to a path of the API server's own.
type guard struct {
	next http.Handler
	core kubernetes.Interface
	log  *slog.Logger
	// verdicts are HTTP statuses by question.
	verdicts *cache.LRUExpireCache
}

// A question is who asks for what. The token is kept as a hash: memory may be read by
// who reads profiles.
type question struct {
	token      [sha256.Size]byte
	verb, path string
}

// newGuard returns a guard of what a handler serves. It asks on a connection of its own.
func newGuard(cfg *rest.Config, next http.Handler, log *slog.Logger) (*guard, error) {
	own := rest.CopyConfig(cfg)
	own.QPS, own.Burst = reviewsASecond, reviewsAtOnce
	c, err := client.Connect(own, nil)
	if err != nil {
		return nil, fmt.Errorf("guard the metrics: %w", err)
	}
	return &guard{next: next, core: c.Core, log: log, verdicts: cache.NewLRUExpireCache(verdictsMost)}, nil
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	verdict, err := g.judge(r)
	switch {
	case err != nil:
		g.log.Warn("who asks for the metrics cannot be reviewed", "err", err)
		http.Error(w, "the API server does not say who may ask for this", http.StatusServiceUnavailable)
	case verdict == http.StatusOK:
		g.next.ServeHTTP(w, r)
	default:
		if verdict == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, http.StatusText(verdict), verdict)
	}
}

// judge returns the verdict on a request as an HTTP status. What could not be asked is
// asked again the next time.
func (g *guard) judge(r *http.Request) (verdict int, err error) {
	token, ok := bearer(r)
	if !ok {
		return http.StatusUnauthorized, nil
	}
	q := question{sha256.Sum256([]byte(token)), strings.ToLower(r.Method), r.URL.Path}
	if known, ok := g.verdicts.Get(q); ok {
		return known.(int), nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewLimit)
	defer cancel()
	if verdict, err = g.review(ctx, token, q); err != nil {
		return 0, err
	}
	g.verdicts.Add(q, verdict, verdictLasts)
	return verdict, nil
}

// bearer is the token of a request.
func bearer(r *http.Request) (token string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// review asks the API server whose a token is, and whether the owner may.
func (g *guard) review(ctx context.Context, token string, q question) (verdict int, err error) {
	who, err := g.core.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review the token: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user, extra := who.Status.User, map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := g.core.AuthorizationV1().SubjectAccessReviews().Create(ctx,
		&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: q.verb, Path: q.path},
		}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review what %s may do: %w", user.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
