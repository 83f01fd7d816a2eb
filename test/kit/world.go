package kit

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
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
	mu          sync.Mutex
	controllers []*Controller
	guests      []*Controller // of other worlds, and not restricted to those
	excuse      func(violation string) bool
	forgot      int64 // when, on the logical clock
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
		defer running.Wait()
		defer cancel()
		w.end()
	})
	return w
}

// end stops what runs, catches up with the server, and judges the history.
func (w *World) end() {
	own, _ := w.own()
	for _, c := range own {
		c.Stop()
		for _, leak := range c.Watches.leaks() {
			w.t.Error(leak)
		}
	}
	if !w.t.Failed() {
		w.CatchUp()
	}
	for _, violation := range w.Violations() {
		w.t.Error(violation)
	}
	if w.t.Failed() {
		w.t.Logf("the log of the controllers:\n%s", w.log)
		w.t.Logf("what happened:\n%s", world.Text(w.Recorder.History()))
		for i, c := range own {
			w.t.Logf("what controller %d wrote:\n%s", i+1, c.Wire)
		}
	}
}

// CatchUp returns when the world has seen all that the server has when it is called.
func (w *World) CatchUp() {
	w.t.Helper()
	all, err := w.CaughtUp(w.ctx, server.Clients, w.Namespace)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Await(all)
}

// Forget judges what has happened by now, and drops it: a long test keeps no history.
// Nothing is there and nothing under way when it is called.
func (w *World) Forget() {
	w.t.Helper()
	for _, violation := range w.Violations() {
		w.t.Error(violation)
	}
	w.Recorder.Forget()
	w.forgot = logicalClock.Load()
	own, _ := w.own()
	for _, c := range own {
		c.Wire.forget()
	}
	w.log.forget()
}

// Host has what a controller of another world does here judged here. It is one that
// works in all namespaces.
func (w *World) Host(c *Controller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.guests = append(w.guests, c)
}

// own are the controllers of this world, and all those that work here as well.
func (w *World) own() (own, all []*Controller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.controllers), slices.Concat(w.controllers, w.guests)
}

// Excuse names the violations that are the work of hands: nobody is to blame for
// them here.
func (w *World) Excuse(excuse func(violation string) bool) { w.excuse = excuse }

// Violations are the promises broken here so far.
func (w *World) Violations() []string {
	all := world.Violations(w.Recorder.History(), w.deletions())
	if w.excuse != nil {
		all = slices.DeleteFunc(all, w.excuse)
	}
	return all
}

// deletions are the deletes that the controllers sent.
func (w *World) deletions() (all []world.Deletion) {
	_, working := w.own()
	for _, c := range working {
		for _, one := range c.Wire.Writes() {
			if one.Verb == "delete" && one.Sent && one.Namespace == w.Namespace && one.Begun > w.forgot && one.Kind != "policy" { // a policy comes and goes with its template
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

// Each kind has a watch of its own, and one may be slower than another: a test that has
// awaited something of one kind catches up before it reads another.

// History is what has happened by now.
func (w *World) History() []world.Change {
	w.t.Helper()
	w.CatchUp()
	return w.Recorder.History()
}

// Look shows the world as it is now.
func (w *World) Look(look func(*world.Snapshot)) {
	w.t.Helper()
	w.CatchUp()
	w.Recorder.Look(look)
}

// Members are the names of a pool's members now.
func (w *World) Members(pool string) []string {
	w.t.Helper()
	w.CatchUp()
	return w.Recorder.Members(pool)
}

// SandboxOf is the sandbox that a claim has now, or nothing.
func (w *World) SandboxOf(claim string) string {
	w.t.Helper()
	w.CatchUp()
	return w.Recorder.SandboxOf(claim)
}

// Pod is a pod as it is now; each of these waits for one that is not there yet.
func (w *World) Pod(name string) *corev1.Pod {
	w.t.Helper()
	return shown(w, name, func(s *world.Snapshot) *corev1.Pod { return s.Pods[name] })
}

// Sandbox is a sandbox as it is now.
func (w *World) Sandbox(name string) *agents.Sandbox {
	w.t.Helper()
	return shown(w, name, func(s *world.Snapshot) *agents.Sandbox { return s.Sandboxes[name] })
}

// Claim is a claim as it is now.
func (w *World) Claim(name string) *ext.SandboxClaim {
	w.t.Helper()
	return shown(w, name, func(s *world.Snapshot) *ext.SandboxClaim { return s.Claims[name] })
}

// Pool is a pool as it is now.
func (w *World) Pool(name string) *ext.SandboxWarmPool {
	w.t.Helper()
	return shown(w, name, func(s *world.Snapshot) *ext.SandboxWarmPool { return s.Pools[name] })
}

func shown[T any](w *World, name string, look func(*world.Snapshot) *T) (o *T) {
	w.t.Helper()
	w.CatchUp()
	w.Await(func(s *world.Snapshot) error {
		if o = look(s); o == nil {
			return fmt.Errorf("there is no %T %s", o, name)
		}
		return nil
	})
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

func (l *logBuffer) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
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
