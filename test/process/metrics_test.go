package process

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/util/cert"

	"github.com/kiln-sandbox/kiln/test/stage"
)

// reader is the token of a new account, which is bound to roles.
func reader(g *WithT, name string, roles ...string) (token string) {
	cfg, _, err := world.cluster.ServiceAccountConfig(world.ctx, "monitoring", name)
	g.Expect(err).NotTo(HaveOccurred())
	for _, role := range roles {
		g.Expect(world.cluster.Apply(world.ctx, fmt.Appendf(nil, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s-%[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[2]s}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: monitoring}]
`, name, role))).To(Succeed())
	}
	return cfg.BearerToken
}

// get asks as the owner of a token, and returns the status and what is served; nobody has
// no token.
func get(url, token string) (status int, text string, err error) {
	r, err := http.NewRequestWithContext(world.ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := skipping().Do(r)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), errors.Join(err, answer.Body.Close())
}

// skipping is a client that takes any certificate, and each request with a handshake of
// its own.
func skipping() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
}

func TestSecureMetricsAreForWhomTheAPIServerLets(t *testing.T) {
	g := NewWithT(t)
	g.Expect(world.cluster.Apply(world.ctx, []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-metrics}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-profiles}
rules: [{nonResourceURLs: [/debug/pprof/*], verbs: [get]}]
`))).To(Succeed())
	certs := t.TempDir()
	certified(g, certs, "first.example")
	r, err := stage.Kiln{
		Name: "secure", Binary: world.binary, Alive: true, Secure: true, Args: []string{"--enable-pprof-debug", "--metrics-cert-dir=" + certs},
	}.Run(world.ctx, world.cluster)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(r.Stop()).To(Succeed()) }()

	prometheus, developer, nobody := reader(g, "prometheus", "reads-metrics"), reader(g, "developer", "reads-profiles"), reader(g, "nobody")
	profile := strings.TrimSuffix(r.Metrics, "/metrics") + "/debug/pprof/goroutine?debug=1"
	for _, row := range []struct {
		name, url, token string
		status           int
		served           string
	}{
		{"without a token", r.Metrics, "", 401, ""},
		{"with a token that is none", r.Metrics, "none", 401, ""},
		{"with a token that somebody has changed", r.Metrics, prometheus[:len(prometheus)-8] + "AAAAAAAA", 401, ""},
		{"without the right", r.Metrics, nobody, 403, ""},
		{"with the right", r.Metrics, prometheus, 200, "agent_sandbox_build_info{"},
		{"with the right to metrics alone, profiles", profile, prometheus, 403, ""},
		{"with the right to profiles", profile, developer, 200, "goroutine profile:"},
		{"with the right to profiles alone, metrics", r.Metrics, developer, 403, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Eventually(func(g Gomega) { // the server learns of roles by a watch
				status, text, err := get(row.url, row.token)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(status).To(Equal(row.status), text)
				g.Expect(text).To(ContainSubstring(row.served))
				if row.status != http.StatusOK {
					g.Expect(text).To(Equal(http.StatusText(row.status) + "\n"))
				}
			}, long).Should(Succeed())
		})
	}

	t.Run("a certificate that was renewed is shown to the next who comes", func(t *testing.T) {
		g := NewWithT(t)
		shown := func() string {
			answer, err := skipping().Get(r.Metrics)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Body.Close()).To(Succeed())
			return answer.TLS.PeerCertificates[0].DNSNames[0]
		}
		g.Expect(shown()).To(Equal("first.example"))
		certified(g, certs, "second.example")
		g.Expect(shown()).To(Equal("second.example"))
	})
}

// certified writes a certificate into a directory as a mounted Secret has it.
func certified(g *WithT, dir, host string) {
	chain, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	for name, text := range map[string][]byte{"tls.crt": chain, "tls.key": key} {
		g.Expect(os.WriteFile(filepath.Join(dir, name), text, 0o600)).To(Succeed())
	}
}
