package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/crds/client"
)

// manager is who owns what the benchmark applies.
const manager = "kiln-bench"

// A server is the API server over several connections, which take turns. Watches have
// one of their own.
type server struct {
	connections []rest.Interface
	watches     rest.Interface
	turn        atomic.Uint64
	throttled   atomic.Int64
}

// connect opens the connections. The client asks again after a 429 when the server has
// said how long to wait.
func connect(cfg *rest.Config, connections int) (*server, error) {
	s := &server{}
	for range connections + 1 {
		isolated, err := client.Connect(cfg, s.count)
		if err != nil {
			return nil, err
		}
		c := isolated.Config
		c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
		c.AcceptContentTypes, c.ContentType = runtime.ContentTypeJSON, runtime.ContentTypeJSON
		one, err := rest.UnversionedRESTClientFor(c)
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
		}
		s.connections = append(s.connections, one)
	}
	s.watches, s.connections = s.connections[0], s.connections[1:]
	return s, nil
}

// count counts the answers that say too many requests.
func (s *server) count(next http.RoundTripper) http.RoundTripper {
	return tripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil && answer.StatusCode == http.StatusTooManyRequests {
			s.throttled.Add(1)
		}
		return answer, err
	})
}

type tripper func(*http.Request) (*http.Response, error)

func (t tripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func (s *server) next() rest.Interface {
	return s.connections[s.turn.Add(1)%uint64(len(s.connections))]
}

func (s *server) create(ctx context.Context, path string, body []byte) (object, error) {
	return decoded(s.next().Post().AbsPath(path).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx))
}

// apply makes an object what body says; only the benchmark writes those fields.
func (s *server) apply(ctx context.Context, path string, body []byte) (object, error) {
	return decoded(s.next().Patch(types.ApplyPatchType).AbsPath(path).
		Param("fieldManager", manager).Param("force", "true").Body(body).Do(ctx))
}

func (s *server) merge(ctx context.Context, path string, body []byte) (object, error) {
	return decoded(s.next().Patch(types.MergePatchType).AbsPath(path).Body(body).Do(ctx))
}

func (s *server) get(ctx context.Context, path string) ([]byte, error) {
	return s.next().Get().AbsPath(path).Do(ctx).Raw()
}

// remove deletes an object; what depends on it follows later. One that is gone is fine.
func (s *server) remove(ctx context.Context, path string) error {
	err := s.next().Delete().AbsPath(path).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// decoded is what the benchmark reads of an answer.
func decoded(answer rest.Result) (object, error) {
	raw, err := answer.Raw()
	if err != nil {
		return object{}, err
	}
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		return object{}, fmt.Errorf("decode the answer: %w", err)
	}
	return o, nil
}

// kindOf is the kind of an error, by which errors are counted.
func kindOf(err error) string {
	switch reason := apierrors.ReasonForError(err); {
	case reason != metav1.StatusReasonUnknown:
		return string(reason)
	case errors.Is(err, context.DeadlineExceeded):
		return string(metav1.StatusReasonTimeout)
	case errors.Is(err, context.Canceled):
		return "Cancelled"
	default:
		return "Connection"
	}
}
