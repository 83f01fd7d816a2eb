package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
)

func TestEachProbeSaysWhatItIsAbout(t *testing.T) {
	g := NewWithT(t)
	var stuck, unready error
	h := healthHandler(func() error { return stuck }, func() error { return unready })
	says := func(path string) string {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return http.StatusText(answer.Code) + ": " + strings.TrimSpace(answer.Body.String())
	}
	all := func() []string { return []string{says("/healthz"), says("/livez"), says("/readyz")} }
	g.Expect(all()).To(Equal([]string{"OK: ok", "OK: ok", "OK: ok"}))
	stuck, unready = errors.New("loop sandbox is stuck"), errors.New("the informers have not synced yet")
	g.Expect(all()).To(Equal([]string{"OK: ok", "Service Unavailable: loop sandbox is stuck", "Service Unavailable: the informers have not synced yet"}))
}

func TestProfilesAreForThePodItselfUnlessAGuardAsksWhoWantsThem(t *testing.T) {
	const heap, cpu = "/debug/pprof/heap?debug=1", "/debug/pprof/profile"
	for _, row := range []struct {
		name, line, path, from string
		status                 int
	}{
		{"a pod", "--enable-pprof-debug", heap, "10.244.1.7:40000", 403},
		{"a pod, by IPv6", "--enable-pprof-debug", heap, "[fd00::7]:40000", 403},
		{"a pod that wants CPU", "--enable-pprof", cpu, "10.244.1.7:40000", 403},
		{"nobody knows who", "--enable-pprof-debug", heap, "@", 403},
		{"kubectl port-forward", "--enable-pprof-debug", heap, "127.0.0.1:40000", 200},
		{"kubectl port-forward, by IPv6", "--enable-pprof-debug", heap, "[::1]:40000", 200},
		{"kubectl port-forward, by IPv4 in IPv6", "--enable-pprof-debug", heap, "[::ffff:127.0.0.1]:40000", 200},
		{"kubectl port-forward for CPU", "--enable-pprof", cpu, "127.0.0.1:40000", 200},
		{"kubectl port-forward, for what was not asked for", "--enable-pprof", heap, "127.0.0.1:40000", 404},
		{"a pod that a guard let through", "--enable-pprof-debug --metrics-secure", heap, "10.244.1.7:40000", 200},
		{"a pod, by default", "", heap, "10.244.1.7:40000", 404},
		{"a pod that wants metrics", "--enable-pprof-debug", "/metrics", "10.244.1.7:40000", 200},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			s, err := parse(strings.Fields(row.line))
			g.Expect(err).NotTo(HaveOccurred())
			gone, cancel := context.WithCancel(t.Context())
			cancel() // a profile of the CPU ends with its client
			r := httptest.NewRequestWithContext(gone, http.MethodGet, row.path, nil)
			r.RemoteAddr = row.from
			r.Header.Set("X-Forwarded-For", "127.0.0.1")
			answer := httptest.NewRecorder()
			metricsHandler(s, prometheus.NewRegistry()).ServeHTTP(answer, r)
			g.Expect(answer.Code).To(Equal(row.status), answer.Body.String())
			if row.status == http.StatusForbidden {
				g.Expect(answer.Body.String()).To(And(ContainSubstring("--metrics-secure"), ContainSubstring("kubectl port-forward")))
			}
		})
	}
}

// The command fails for want of a kubeconfig, after it has told the runtime.
func TestProfilesOfBlockingAndOfLocksAreSampledForWhoServesThem(t *testing.T) {
	t.Cleanup(func() {
		runtime.SetBlockProfileRate(0)
		runtime.SetMutexProfileFraction(0)
	})
	sampled := func() (n int64) {
		records := make([]runtime.BlockProfileRecord, 10000)
		count, _ := runtime.BlockProfile(records)
		for _, r := range records[:count] {
			n += r.Count
		}
		return n
	}
	blocks := func() bool {
		before, opened := sampled(), make(chan struct{})
		time.AfterFunc(10*time.Millisecond, func() { close(opened) })
		<-opened
		return sampled() > before
	}
	for _, row := range []struct {
		line     string
		fraction int
		blocks   bool
	}{
		{"--enable-pprof --pprof-block-profile-rate=1 --pprof-mutex-profile-fraction=7", 0, false},
		{"--enable-pprof-debug", 10, true},
		{"--enable-pprof-debug --pprof-block-profile-rate=1 --pprof-mutex-profile-fraction=7", 7, true},
		{"--enable-pprof-debug --pprof-block-profile-rate=0 --pprof-mutex-profile-fraction=0", 0, false},
	} {
		g := NewWithT(t)
		_, err := kiln(append(strings.Fields("controller --kubeconfig=/missing "), strings.Fields(row.line)...)...)
		g.Expect(err).To(MatchError(ContainSubstring("/missing")))
		g.Expect(runtime.SetMutexProfileFraction(-1)).To(Equal(row.fraction), row.line)
		g.Expect(blocks()).To(Equal(row.blocks), row.line)
	}
}
