package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	agentsac "github.com/kiln-sandbox/kiln/crds/agents/v1beta1/applyconfiguration/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	extensionsac "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1/applyconfiguration/extensions/v1beta1"
)

func TestEachKindIsAppliedAtItsOwnAddress(t *testing.T) {
	g := NewWithT(t)
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, r.Body) // a write to a closed test connection has no one to tell
	}))
	defer server.Close()
	cfg := &rest.Config{Host: server.URL}
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	c, err := client.New(cfg, server.Client())
	g.Expect(err).NotTo(HaveOccurred())
	opts := metav1.ApplyOptions{FieldManager: "m"}

	s, err := c.Sandboxes("x").Apply(t.Context(), agentsac.Sandbox("a", "x"), opts)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Name).To(Equal("a"))
	g.Expect(asked).To(Equal("PATCH /apis/agents.x-k8s.io/v1beta1/namespaces/x/sandboxes/a application/apply-patch+yaml"))

	_, err = c.Claims("x").ApplyStatus(t.Context(), extensionsac.SandboxClaim("a", "x"), opts)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(asked).To(ContainSubstring("/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/x/sandboxclaims/a/status "))

	_, err = c.Pools("x").ApplyStatus(t.Context(), extensionsac.SandboxWarmPool("a", "x"), opts)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(asked).To(ContainSubstring("/namespaces/x/sandboxwarmpools/a/status "))

	_, err = c.Templates("x").Apply(t.Context(), extensionsac.SandboxTemplate("a", "x"), opts)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(asked).To(ContainSubstring("/namespaces/x/sandboxtemplates/a "))
}
