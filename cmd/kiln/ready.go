package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/crds/client"
)

// A readiness is what /readyz says: this process knows the whole state of what it
// watches, and the API server takes its writes.
type readiness struct {
	synced func() bool
	writes *writes
	log    *slog.Logger

	mu sync.Mutex
	// said is what was wrong when it was last logged; nobody knew yet at first.
	said string
}

func newReadiness(synced func() bool, w *writes, log *slog.Logger) *readiness {
	return &readiness{synced: synced, writes: w, log: log, said: "?"}
}

// check returns all that is wrong. The kubelet shows nobody the answer to its probe, so
// what changes is logged.
func (r *readiness) check() error {
	var unsynced error
	if !r.synced() {
		unsynced = errors.New("the informers have not synced yet")
	}
	err := errors.Join(unsynced, r.writes.possible())
	said := ""
	if err != nil {
		said = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case said == r.said:
	case err != nil:
		r.log.Warn("not ready", "err", err)
	default:
		r.log.Info("ready")
	}
	r.said = said
	return err
}

// The API server is asked no more often than every writesEvery, however many ask this
// process, and has writesLimit for its answer: less than the kubelet waits.
const (
	writesEvery = 3 * time.Second
	writesLimit = time.Second
)

// A writes knows whether the API server takes what this process writes.
type writes struct {
	// tenure is the lease; nil without leader election. A leader renews it all the time,
	// so it need not ask.
	tenure *tenure
	// try asks for a write that is not carried out.
	try func(context.Context) error
	now func() time.Time

	mu    sync.Mutex
	until time.Time // the last answer holds
	last  error
}

// possible returns why nothing can be written, if so.
func (w *writes) possible() error {
	if w.tenure != nil && w.tenure.leads() {
		if w.tenure.Holds() != nil {
			return errors.New("the lease could not be renewed in time, and this replica writes nothing until it is")
		}
		return nil
	}
	w.mu.Lock() // whoever comes meanwhile waits for the same answer
	defer w.mu.Unlock()
	if w.now().Before(w.until) {
		return w.last
	}
	// Who asks may be gone before the answer comes, and others wait for it, too.
	ctx, cancel := context.WithTimeoutCause(context.Background(), writesLimit, fmt.Errorf("no answer within %v", writesLimit))
	defer cancel()
	w.last = w.try(ctx)
	if w.last != nil {
		w.last = fmt.Errorf("the API server takes no write: %w", cmp.Or(context.Cause(ctx), w.last))
	}
	w.until = w.now().Add(writesEvery)
	return w.last
}

// newWrites returns what asks the API server on a connection of its own. Nothing is
// asked yet.
func newWrites(s *settings, cfg *rest.Config, t *tenure) (*writes, error) {
	c, err := client.Connect(cfg, nil)
	if err != nil {
		return nil, err
	}
	in := s.namespaces
	if len(in) == 0 {
		in = namespaces{metav1.NamespaceDefault} // the one that nobody can delete
	}
	return &writes{tenure: t, now: time.Now, try: func(ctx context.Context) error { return tryEvent(ctx, c.Core, in) }}, nil
}

// tryEvent makes an Event that is not kept, in the first namespace where it may. Every
// controller may report Events, whatever it serves, and no webhook of a user's is about
// them. The server authorizes and admits it and asks its storage whether the name is
// free; it does all but keep it. That one namespace is on its way out is no reason to
// take the controller from the others.
func tryEvent(ctx context.Context, core kubernetes.Interface, in namespaces) error {
	host, err := os.Hostname()
	if err != nil {
		host = component
	}
	var all []error
	for _, ns := range in {
		_, err := core.EventsV1().Events(ns).Create(ctx, &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "kiln-ready-", Namespace: ns},
			EventTime:  metav1.NowMicro(), ReportingController: component, ReportingInstance: host,
			Type: corev1.EventTypeNormal, Reason: "Ready", Action: "Probing",
			Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: ns, Name: host},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return nil
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}
