// The Go benchmarks of Kiln as it is deployed, on a whole control plane: how long a
// claim takes from its creation to Ready, as a watch shows it. Figures of two versions
// compare only within one run on one machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/stage"
)

const ns = metav1.NamespaceDefault

var (
	ctx   context.Context
	kiln  *client.Clients
	plane *cluster.Cluster
)

func TestMain(m *testing.M) {
	stage.TestMain("bench", func(ctx context.Context, dir string) (int, error) { return runAll(ctx, dir, m) })
}

func runAll(started context.Context, dir string, m *testing.M) (code int, err error) {
	ctx = started
	binary, err := stage.Build(ctx, dir)
	if err != nil {
		return 1, err
	}
	c, err := cluster.Start(ctx, cluster.Options{CRDs: true, Manager: true, Scheduler: true, Nodes: 20})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	plane = c
	if _, err := (stage.Kiln{Name: "kiln", Binary: binary}).Run(ctx, c); err != nil {
		return 1, err
	}
	h, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return 1, err
	}
	if kiln, err = client.New(c.Config, h); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// pool makes a full pool of a size, and has it emptied when the benchmark ends.
func pool(b *testing.B, name string, replicas int32, with ...func(*ext.SandboxWarmPool)) {
	b.Helper()
	template := &ext.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	template.Spec.PodTemplate = agents.PodTemplate{Spec: runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"main","image":"image"}]}`)}}
	must(b, kiln.Templates(ns).Create, template)
	p := &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec = ext.SandboxWarmPoolSpec{Replicas: &replicas, TemplateRef: ext.SandboxTemplateRef{Name: name}}
	for _, change := range with {
		change(p)
	}
	must(b, kiln.Pools(ns).Create, p)
	full(b, name, replicas)
	b.Cleanup(func() {
		if err := kiln.Pools(ns).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	})
}

func must[T any](b *testing.B, create func(context.Context, T, metav1.CreateOptions) (T, error), o T) {
	b.Helper()
	if _, err := create(ctx, o, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// full waits until a pool says that it is full.
func full(b *testing.B, name string, replicas int32) {
	b.Helper()
	w, err := kiln.Pools(ns).Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: name}))
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if p, ok := e.Object.(*ext.SandboxWarmPool); ok && p.Status.ReadyReplicas == replicas {
			return
		}
	}
	b.Fatal("the watch ended before the pool was full")
}

// A clock notes when each claim was asked for, and when a watch showed it Ready.
type clock struct {
	mu    sync.Mutex
	asked map[string]time.Time
	took  map[string]time.Duration
	seen  chan string
}

func newClock(b *testing.B, n int) *clock {
	b.Helper()
	c := &clock{asked: map[string]time.Time{}, took: map[string]time.Duration{}, seen: make(chan string, n)}
	now, err := kiln.Claims(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	// The server drops a watch that is slow under a burst; this one comes back.
	w, err := toolswatch.NewRetryWatcherWithContext(ctx, now.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return kiln.Claims(ns).Watch(ctx, o)
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			if claim, ok := e.Object.(*ext.SandboxClaim); ok && meta.IsStatusConditionTrue(claim.Status.Conditions, "Ready") {
				c.note(claim.Name)
			}
		}
	}()
	return c
}

func (c *clock) note(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked, ours := c.asked[name]
	if _, again := c.took[name]; !ours || again {
		return
	}
	c.took[name] = time.Since(asked)
	c.seen <- name
}

func (c *clock) ask(b *testing.B, name, pool string) {
	b.Helper()
	c.mu.Lock()
	c.asked[name] = time.Now()
	c.mu.Unlock()
	claim := &ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	claim.Spec.WarmPoolRef.Name = pool
	if _, err := kiln.Claims(ns).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		b.Error(err)
	}
}

// of is a quantile, in milliseconds.
func (c *clock) of(quantile int) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Sorted(maps.Values(c.took))
	return float64(all[(len(all)-1)*quantile/100].Microseconds()) / 1000
}

func (c *clock) report(b *testing.B) {
	for _, q := range []int{50, 90, 99} {
		b.ReportMetric(c.of(q), fmt.Sprintf("p%d-ms", q))
	}
}

func forget(b *testing.B, names []string) {
	b.Helper()
	for _, name := range names {
		if err := kiln.Claims(ns).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkClaim takes one warm claim after another.
func BenchmarkClaim(b *testing.B) {
	name := fmt.Sprintf("one-%d", b.N)
	pool(b, name, 20)
	c := newClock(b, b.N)
	b.ResetTimer()
	for i := range b.N {
		claim := fmt.Sprintf("%s-%d", name, i)
		c.ask(b, claim, name)
		forget(b, []string{<-c.seen})
	}
	b.StopTimer()
	c.report(b)
}

// BenchmarkClaimFresh takes one warm claim after another, in turn from a pool whose
// claims take any member and from one whose claims must get a fresh one: what the
// proof costs is the difference.
func BenchmarkClaimFresh(b *testing.B) {
	kinds := map[string]*clock{}
	for kind, strategy := range map[string]ext.UpdateStrategyType{"any": ext.OnReplenish, "fresh": ext.Recreate} {
		pool(b, fmt.Sprintf("%s-%d", kind, b.N), 20, func(p *ext.SandboxWarmPool) { p.Spec.UpdateStrategy.Type = strategy })
		kinds[kind] = newClock(b, b.N)
	}
	b.ResetTimer()
	for i := range b.N {
		for _, kind := range []string{"any", "fresh"} {
			name := fmt.Sprintf("%s-%d", kind, b.N)
			kinds[kind].ask(b, fmt.Sprintf("%s-%d", name, i), name)
			forget(b, []string{<-kinds[kind].seen})
		}
	}
	b.StopTimer()
	for kind, c := range kinds {
		b.ReportMetric(c.of(50), "p50-"+kind+"-ms")
		b.ReportMetric(c.of(90), "p90-"+kind+"-ms")
	}
	b.ReportMetric(kinds["fresh"].of(50)/kinds["any"].of(50), "p50-ratio")
}

// BenchmarkBurst takes a whole pool of 300 at once.
func BenchmarkBurst(b *testing.B) {
	const size = 300
	for i := range b.N {
		name := fmt.Sprintf("burst-%d-%d", b.N, i)
		b.StopTimer()
		pool(b, name, size)
		c := newClock(b, size)
		b.StartTimer()
		var asking sync.WaitGroup
		for n := range size {
			asking.Go(func() { c.ask(b, fmt.Sprintf("%s-%d", name, n), name) })
		}
		asking.Wait()
		var names []string
		for range size {
			names = append(names, <-c.seen)
		}
		b.StopTimer()
		c.report(b)
		forget(b, names)
	}
}
