package kit

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/world"
)

// waitTimeout is how long a world may take to fulfil a condition. It is no measure
// of anything: only a world that will never get there takes that long.
const waitTimeout = 5 * time.Minute

// A World is one namespace, with everyone who lives in it.
type World struct {
	*world.Recorder
	Kubelet   *Kubelet
	Collector *Collector
	// Namespace is its name.
	Namespace string

	t           *testing.T
	ctx         context.Context
	log         *logBuffer
	controllers []*Controller
}

// New makes a world for a test. When the test ends, the controllers that still
// run are stopped and everything that ever happened is judged.
func New(t *testing.T) *World {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ns, err := server.Core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &World{Recorder: world.NewRecorder(), Namespace: ns.Name, t: t, ctx: ctx, log: &logBuffer{}}
	w.Kubelet = newKubelet(w)
	w.Collector = newCollector(w)
	ended, err := w.Watch(ctx, server.Clients, w.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(ended)
	running.Go(func() { w.Kubelet.run(ctx) })
	running.Go(func() { w.Collector.run(ctx) })
	t.Cleanup(func() {
		w.end()
		cancel()
		running.Wait()
	})
	return w
}

// end stops what runs, catches up with the server, and judges the history.
func (w *World) end() {
	for _, c := range w.controllers {
		c.Stop()
		for _, leak := range c.Watches.leaks() {
			w.t.Error(leak)
		}
	}
	if !w.t.Failed() {
		all, err := w.CaughtUp(w.ctx, server.Clients, w.Namespace)
		if err != nil {
			w.t.Error(err)
			return
		}
		w.Await(all)
	}
	for _, violation := range world.Violations(w.History(), w.deletions()) {
		w.t.Error(violation)
	}
	if w.t.Failed() {
		w.t.Logf("the log of the controllers:\n%s", w.log)
		w.t.Logf("what happened:\n%s", world.Text(w.History()))
		for i, c := range w.controllers {
			w.t.Logf("what controller %d wrote:\n%s", i+1, c.Wire)
		}
	}
}

// deletions are the deletes that the controllers sent.
func (w *World) deletions() (all []world.Deletion) {
	for _, c := range w.controllers {
		for _, one := range c.Wire.Writes() {
			if one.Verb == "delete" && one.Sent {
				all = append(all, world.Deletion{Kind: one.Kind, Name: one.Name, UID: one.UID})
			}
		}
	}
	return all
}

// Await returns when one condition after the other has held, and fails the test
// with the world as it stands when that takes unreasonably long.
func (w *World) Await(conditions ...world.Condition) {
	w.t.Helper()
	for _, condition := range conditions {
		ctx, cancel := context.WithTimeoutCause(context.Background(), waitTimeout, fmt.Errorf("waited for %s", waitTimeout))
		err := w.Wait(ctx, condition)
		cancel()
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// Pod is a pod as it was last seen.
func (w *World) Pod(name string) (pod *corev1.Pod) {
	w.t.Helper()
	w.Look(func(s *world.Snapshot) { pod = s.Pods[name] })
	return there(w, pod, name)
}

// Sandbox is a sandbox as it was last seen.
func (w *World) Sandbox(name string) (sandbox *agents.Sandbox) {
	w.t.Helper()
	w.Look(func(s *world.Snapshot) { sandbox = s.Sandboxes[name] })
	return there(w, sandbox, name)
}

// Claim is a claim as it was last seen.
func (w *World) Claim(name string) (claim *ext.SandboxClaim) {
	w.t.Helper()
	w.Look(func(s *world.Snapshot) { claim = s.Claims[name] })
	return there(w, claim, name)
}

// Pool is a pool as it was last seen.
func (w *World) Pool(name string) (pool *ext.SandboxWarmPool) {
	w.t.Helper()
	w.Look(func(s *world.Snapshot) { pool = s.Pools[name] })
	return there(w, pool, name)
}

func there[T comparable](w *World, o T, name string) T {
	w.t.Helper()
	var none T
	if o == none {
		w.t.Fatalf("there is no %T %s", o, name)
	}
	return o
}

// A logBuffer keeps what is logged until somebody wants to read it.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logBuffer) logger(controller int) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})).
		With("controller", fmt.Sprint(controller))
}
