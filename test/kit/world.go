package kit

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kiln-sandbox/kiln/crds/client"
)

// A World is one namespace, with everyone who lives in it.
type World struct {
	*Recorder
	Kubelet   *Kubelet
	Collector *Collector
	// Namespace is its name.
	Namespace string

	t           *testing.T
	ctx         context.Context
	log         *lines
	controllers []*Controller
}

// New makes a world for a test. When the test ends, the controllers that still
// run are stopped and everything that ever happened is judged.
func New(t *testing.T) *World {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ns, err := server.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &World{Namespace: ns.Name, t: t, ctx: ctx, log: &lines{}}
	w.Recorder = newRecorder(t)
	w.Kubelet = newKubelet(w)
	w.Collector = newCollector(w)
	var running sync.WaitGroup
	w.watch(ctx, &running)
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
	}
	if !w.t.Failed() {
		w.Await(w.caughtUp())
	}
	for _, wrong := range w.Wrongs(w.told()) {
		w.t.Error(wrong)
	}
	if w.t.Failed() {
		w.t.Logf("the log of the controllers:\n%s", w.log)
		w.t.Logf("what happened:\n%s", changes(w.History()))
		for i, c := range w.controllers {
			w.t.Logf("what controller %d wrote:\n%s", i+1, c.Wire)
		}
	}
}

// told lists what was deleted by whom: every delete that a controller sent.
func (w *World) told() []Write {
	var all []Write
	for _, c := range w.controllers {
		for _, one := range c.Wire.Writes() {
			if one.Verb == "delete" && one.Sent {
				all = append(all, one)
			}
		}
	}
	return all
}

// The administrator's clients in the world's namespace.

// Pods is the client of pods.
func (w *World) Pods() typedcore.PodInterface { return server.core.CoreV1().Pods(w.Namespace) }

// Sandboxes is the client of sandboxes.
func (w *World) Sandboxes() *client.Sandboxes { return server.kiln.Sandboxes(w.Namespace) }

// Claims is the client of claims.
func (w *World) Claims() *client.Claims { return server.kiln.Claims(w.Namespace) }

// Pools is the client of pools.
func (w *World) Pools() *client.Pools { return server.kiln.Pools(w.Namespace) }

// Templates is the client of templates.
func (w *World) Templates() *client.Templates { return server.kiln.Templates(w.Namespace) }

// Events lists the Events about an object, by its name, whose reason is given.
func (w *World) Events(about, reason string) int {
	w.t.Helper()
	all, err := server.core.EventsV1().Events(w.Namespace).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, e := range all.Items {
		if e.Regarding.Name == about && e.Reason == reason {
			n++
		}
	}
	return n
}

// lines keep what is logged until somebody wants to read it.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) logger(controller int) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})).
		With("controller", fmt.Sprint(controller))
}
