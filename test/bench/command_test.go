package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/cmd/kiln/bench"
)

// few are options that make few claims.
func few(scenarios ...string) bench.Options {
	o := bench.Defaults()
	o.Scenarios, o.Claims, o.Pool, o.Rate, o.Duration, o.Dwell = scenarios, 5, 5, 4, 3*time.Second, 100*time.Millisecond
	for _, name := range measured {
		o.Processes = append(o.Processes, fmt.Sprintf("%s=%d", name, plane.PID(name)))
	}
	return o
}

func core(g *WithT) kubernetes.Interface {
	c, err := kubernetes.NewForConfig(plane.Config)
	g.Expect(err).NotTo(HaveOccurred())
	return c
}

// left are the namespaces and definitions of benchmarks that are there, and since when the
// API server is to remove a definition.
func left(g *WithT) (names []string) {
	all, err := core(g).CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=kiln-bench"})
	g.Expect(err).NotTo(HaveOccurred())
	for _, one := range all.Items {
		names = append(names, one.Name)
	}
	raw, err := core(g).CoreV1().RESTClient().Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").DoRaw(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	var definitions metav1.PartialObjectMetadataList
	g.Expect(json.Unmarshal(raw, &definitions)).To(Succeed())
	for _, one := range definitions.Items {
		if strings.Contains(one.Name, ".kiln-bench-") {
			names = append(names, fmt.Sprintf("%s, deleted at %v", one.Name, one.DeletionTimestamp))
		}
	}
	return names
}

func TestAClusterIsMeasuredAndLeftAsItWas(t *testing.T) {
	g := NewWithT(t)
	var said bytes.Buffer
	r, err := bench.Run(ctx, plane.Config, few(bench.Burst, bench.Floor, bench.Rollout, bench.Serial), bench.NewProgress(&said, false))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.Broken()).To(Succeed())
	g.Expect(r.Rounds).To(HaveLen(1))
	r.Divide(nil)
	g.Expect(r.Rounds[0].Notes).To(BeEmpty())
	var names []string
	for _, one := range r.Rounds[0].Results {
		names = append(names, one.Scenario)
		g.Expect(one.Claims).To(BeNumerically(">", 1), one.Scenario)
		g.Expect(one.Ready).To(Equal(one.Claims), one.Scenario)
		g.Expect(one.Errors).To(BeEmpty(), one.Scenario)
		g.Expect(one.Latency.P50).To(BeNumerically(">", 0), one.Scenario)
		g.Expect(one.Checks).To(BeZero(), one.Scenario)
		if one.Scenario == bench.FloorBurst {
			continue // it has no whole cycle
		}
		g.Expect(one.CPU.Sum).To(BeNumerically(">", 0), one.Scenario)
		g.Expect(one.ToFloor.CPU).To(BeNumerically(">", 0), one.Scenario)
		g.Expect(one.Timeline).To(HaveLen(one.Claims), one.Scenario)
		g.Expect(asked(one, "POST", "sandboxclaims")).To(BeNumerically("~", 1, 0.001), one.Scenario)
		g.Expect(asked(one, "DELETE", "sandboxclaims")).To(BeNumerically("~", 1, 0.001), one.Scenario)
	}
	g.Expect(names).To(Equal([]string{bench.Floor, bench.FloorBurst, bench.Serial, bench.Rollout, bench.Burst}))
	g.Expect(r.Rounds[0].Results[2].Fill.Members).To(Equal(5))
	floor, burst := r.Rounds[0].Results[0], r.Rounds[0].Results[4]
	g.Expect(asked(floor, "POST", "sandboxes")).To(BeNumerically("~", 1, 0.001))
	g.Expect(asked(floor, "POST", "pods")).To(BeNumerically("~", 1, 0.001))
	g.Expect(asked(floor, "PATCH", "sandboxclaims/status")).To(BeNumerically("~", 1, 0.001))
	g.Expect(floor.CPU.By["API server"]).To(BeNumerically(">", 0))
	g.Expect(burst.WarmServedFraction).To(Equal(1.0))
	g.Expect(burst.ToFloor.P50).To(BeNumerically("~", burst.Latency.P50/r.Rounds[0].Results[1].Latency.P50, 0.001))
	g.Expect(left(g)).To(BeEmpty())
	page, err := r.Page(time.Second)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(page)).To(ContainSubstring("Requests per claim"))
	g.Expect(said.String()).To(ContainSubstring("round 1: burst"))
}

func TestContestantsAreThisControllerAndTheOthersByTheirNames(t *testing.T) {
	g := NewWithT(t)
	all, err := contestants("bin/kiln", []string{"old/kiln", "wide"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all).To(Equal([]turn{{name: "this", controller: "bin/kiln"}, {name: "kiln", controller: "old/kiln"}, {name: "wide", controller: "wide"}}))
	_, err = contestants("bin/kiln", []string{"a/wide", "b/wide"})
	g.Expect(err).To(MatchError(ContainSubstring("name the binary b/wide differently")))
}

// asked is how often a claim cost a request.
func asked(r bench.Result, verb, resource string) (n float64) {
	for _, one := range r.Requests {
		if one.Verb == verb && one.Resource == resource {
			n += one.PerClaim
		}
	}
	return n
}

func TestANamespaceThatSomebodyElseMadeIsRefused(t *testing.T) {
	g := NewWithT(t)
	theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "theirs-"}}
	theirs, err := core(g).CoreV1().Namespaces().Create(ctx, theirs, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	o := few(bench.Serial)
	o.Namespace = theirs.Name
	_, err = bench.Run(ctx, plane.Config, o, bench.NewProgress(io.Discard, false))
	g.Expect(err).To(MatchError(ContainSubstring("is there already, and kiln bench works only in one that it makes")))
	now, err := core(g).CoreV1().Namespaces().Get(ctx, theirs.Name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(now.DeletionTimestamp).To(BeNil(), "it is left alone")
}

// An interrupter ends a run when it says something.
type interrupter struct {
	when string
	end  context.CancelFunc
}

func (i interrupter) Write(said []byte) (int, error) {
	if strings.Contains(string(said), i.when) {
		i.end()
	}
	return len(said), nil
}

func TestARunThatIsInterruptedCleansUp(t *testing.T) {
	for _, when := range []string{"the floor: waiting", "round 1: serial     "} {
		t.Run(when, func(t *testing.T) {
			g := NewWithT(t)
			ctx, end := context.WithCancel(ctx)
			defer end()
			o := few(bench.Serial, bench.Sustained)
			if strings.Contains(when, "floor") {
				o.Scenarios = []string{bench.Floor}
			}
			o.Namespace = fmt.Sprintf("kiln-bench-interrupted-%d", len(when))
			r, err := bench.Run(ctx, plane.Config, o, bench.NewProgress(interrupter{when, end}, false))
			g.Expect(err).To(MatchError(context.Canceled))
			if o.Scenarios[0] == bench.Serial {
				g.Expect(r.Rounds).To(HaveLen(1), "what was measured until then is not lost")
				g.Expect(r.Rounds[0].Results).To(HaveLen(1))
			}
			_, gone := core(g).CoreV1().Namespaces().Get(t.Context(), o.Namespace, metav1.GetOptions{})
			g.Expect(apierrors.IsNotFound(gone)).To(BeTrue(), "%v", gone)
			g.Eventually(func() []string { return left(g) }).WithTimeout(time.Minute).Should(BeEmpty(), "%v", err)
		})
	}
}

// A liar changes what a client reads, line by line.
type liar struct {
	next http.RoundTripper
	lie  func(path, line string) string
}

func (l liar) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet {
		return answer, err
	}
	truth, told := answer.Body, bufio.NewReader(answer.Body)
	read, write := io.Pipe()
	go func() {
		for {
			line, err := told.ReadString('\n')
			if _, gone := write.Write([]byte(l.lie(r.URL.Path, line))); gone != nil || err != nil {
				_ = write.CloseWithError(err)
				return
			}
		}
	}()
	answer.Body, answer.ContentLength = both{read, truth}, -1
	answer.Header.Del("Content-Length")
	return answer, nil
}

// both is a pipe that closes its source, too.
type both struct {
	*io.PipeReader
	source io.Closer
}

func (b both) Close() error {
	_ = b.PipeReader.Close()
	return b.source.Close()
}

// deceived is the access of somebody to whom a real server tells lies.
func deceived(lie func(path, line string) string) *rest.Config {
	cfg := rest.CopyConfig(plane.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return liar{next, lie} })
	return cfg
}

var given = regexp.MustCompile(`"sandbox":\{[^}]*\}`)

func TestEveryCheckFailsWhenItShould(t *testing.T) {
	var mu sync.Mutex
	first := ""
	for says, c := range map[string]struct {
		scenario string
		lie      func(path, line string) string
		count    func(bench.Checks) int
	}{
		"two claims are told of one sandbox": {bench.Burst, func(path, line string) string {
			mu.Lock()
			defer mu.Unlock()
			if !strings.HasSuffix(path, "/sandboxclaims") || !given.MatchString(line) {
				return line
			}
			if first == "" {
				first = given.FindString(line)
			}
			return given.ReplaceAllLiteralString(line, first)
		}, func(c bench.Checks) int { return c.DoubleHeld }},
		"a claim made after the change gets a pod from before it": {bench.Rollout, func(path, line string) string {
			if !strings.Contains(path, "/pods/") {
				return line
			}
			return strings.ReplaceAll(line, `"KILN_BENCH_REVISION","value":"2"`, `"KILN_BENCH_REVISION","value":"1"`)
		}, func(c bench.Checks) int { return c.StaleServed }},
		"a claim is never told": {bench.Serial, func(path, line string) string {
			if !strings.HasSuffix(path, "/sandboxclaims") {
				return line
			}
			return strings.ReplaceAll(line, `"sandbox":{`, `"lost":{`)
		}, func(c bench.Checks) int { return c.Unbound }},
		"a pod never says that it is the claim's": {bench.Serial, func(path, line string) string {
			if !strings.HasSuffix(path, "/pods") {
				return line
			}
			return strings.ReplaceAll(line, `"agents.x-k8s.io/claim-uid":"`, `"agents.x-k8s.io/claim-uid":"another-`)
		}, func(c bench.Checks) int { return c.UnreachableAtReady }},
	} {
		t.Run(says, func(t *testing.T) {
			g := NewWithT(t)
			o := few(c.scenario)
			if o.Scenarios[0] == bench.Serial {
				o.Claims = 1
			}
			if o.Scenarios[0] != bench.Rollout {
				o.Timeout = 10 * time.Second
			}
			r, err := bench.Run(ctx, deceived(c.lie), o, bench.NewProgress(io.Discard, false))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(c.count(r.Rounds[0].Results[0].Checks)).To(BeNumerically(">", 0))
			g.Expect(r.Broken()).To(MatchError(ContainSubstring("promises were broken")))
			g.Expect(left(g)).To(BeEmpty())
		})
	}
}
