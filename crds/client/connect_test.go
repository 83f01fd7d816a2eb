package client_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
)

// A listener counts the connections of a server that answers every request with
// an object of the kind that was asked for.
type listener struct {
	*httptest.Server
	mu     sync.Mutex
	opened int
	accept []string
}

func listen(t *testing.T) *listener {
	l := &listener{}
	l.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.accept = append(l.accept, r.Header.Get("Accept"))
		answer := `{"apiVersion":"agents.x-k8s.io/v1beta1","kind":"Sandbox"}`
		switch {
		case strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata"):
			answer = `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata"}`
		case strings.HasSuffix(r.URL.Path, "/pods/a"):
			answer = `{"apiVersion":"v1","kind":"Pod"}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer)) // a closed test connection has no one to tell
	}))
	l.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s == http.StateNew {
			l.opened++
		}
	}
	l.Start()
	t.Cleanup(l.Close)
	return l
}

func TestTheClientsOfAConnectionShareOneTransportAndNoTwoConnectionsDo(t *testing.T) {
	g, server := NewWithT(t), listen(t)
	cfg := &rest.Config{Host: server.URL}
	for range 2 {
		c, err := client.Connect(cfg, nil)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = c.Core.CoreV1().Pods("x").Get(t.Context(), "a", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = c.Kiln.Sandboxes("x").Get(t.Context(), "a", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = c.Metadata.Resource(agents.Resource).Namespace("x").Get(t.Context(), "a", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	g.Expect(server.opened).To(Equal(2))
	g.Expect(server.accept[0]).To(Equal("application/vnd.kubernetes.protobuf,application/json"), "pods")
	g.Expect(server.accept[1]).NotTo(ContainSubstring("protobuf"), "custom resources have none")
}

func TestAConnectionIsWrappedAndHasNoRateLimitUnlessItIsAskedFor(t *testing.T) {
	g, server := NewWithT(t), listen(t)
	wrapped := 0
	c, err := client.Connect(&rest.Config{Host: server.URL}, func(next http.RoundTripper) http.RoundTripper {
		wrapped++
		return next
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(wrapped).To(Equal(1))
	g.Expect(c.Config.QPS).To(Equal(float32(-1)))
	c, err = client.Connect(&rest.Config{Host: server.URL, QPS: 7, Burst: 7}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Config.QPS).To(Equal(float32(7)))
}
