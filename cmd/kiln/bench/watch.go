package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// The types of events. A listing comes first, and again when the server has forgotten
// where a watch was: what is not named between its two ends is gone.
const (
	listing  = "LISTING"
	listed   = "LISTED"
	added    = "ADDED"
	deleted  = "DELETED"
	bookmark = "BOOKMARK"
	failed   = "ERROR"
)

// An event is a change that a watch tells of.
type event struct {
	Type   string `json:"type"`
	Object object `json:"object"`
}

// An object is all that the benchmark reads of any kind: decoding less is what keeps a
// shared watch cheap.
type object struct {
	Metadata struct {
		Name            string `json:"name"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
		Generation      int64  `json:"generation"`
		Labels          labels `json:"labels"`
	} `json:"metadata"`
	Status status `json:"status"`
}

// labels are those of a pod that say whose it is: the claim's UID, and the pool's label,
// which is there if the key is.
type labels struct {
	ClaimUID string  `json:"agents.x-k8s.io/claim-uid"`
	Pool     *string `json:"agents.x-k8s.io/warm-pool-sandbox"`
}

// A status is what claims, pools and definitions say of themselves.
type status struct {
	Conditions []condition `json:"conditions"`
	Sandbox    struct {
		Name string `json:"name"`
		UID  string `json:"uid"`
	} `json:"sandbox"`
	ReadyReplicas      int   `json:"readyReplicas"`
	ObservedGeneration int64 `json:"observedGeneration"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (s status) is(kind string) bool {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c.Status == "True"
		}
	}
	return false
}

func (s status) ready() bool { return s.is("Ready") }

// metadataOnly asks for objects without spec and status.
const metadataOnly = "application/json;as=PartialObjectMetadata%s;g=meta.k8s.io;v=v1"

// A source is what a watch looks at.
type source struct {
	path string
	// field and label select objects, if they are not empty.
	field, label string
	// metadata leaves out spec and status.
	metadata bool
}

// pause is how long to wait before a broken watch is begun again.
const pause = 200 * time.Millisecond

// follow lists a source and then tells of every change, until ctx ends or see returns
// false. Events have the time at which they were read. A watch that ends goes on where
// it was.
func (s *server) follow(ctx context.Context, of source, see func(at time.Time, e event) bool) error {
	version, err := s.list(ctx, of, see)
	for err == nil {
		err = s.watch(ctx, of, &version, see)
		switch {
		case err == nil:
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			version, err = s.list(ctx, of, see)
		case errors.Is(err, errEnough), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsNotFound(err):
		default:
			err = wait(ctx, pause)
		}
	}
	switch {
	case errors.Is(err, errEnough):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("watch %s: %w", of.path, err)
}

// names follows the names of what is under a path. It asks done at every event, and
// returns when that agrees and all names are known.
func (s *server) names(ctx context.Context, path string, done func(there map[string]bool) bool) error {
	known, there := false, map[string]bool{}
	return s.follow(ctx, source{path: path, metadata: true}, func(_ time.Time, e event) bool {
		switch e.Type {
		case listing:
			clear(there)
		case listed:
			known = true
		case deleted:
			delete(there, e.Object.Metadata.Name)
		default:
			there[e.Object.Metadata.Name] = true
		}
		agreed := done(there)
		return !known || !agreed
	})
}

// attend follows a source beside what its caller does, and returns when the source has
// been listed. The context that it returns ends when the watch fails; stop ends both.
func (s *server) attend(ctx context.Context, of source, see func(at time.Time, e event)) (_ context.Context, stop func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	began, ended := make(chan error, 1), make(chan struct{}) // what comes first decides how it began
	begin := func(err error) {
		select {
		case began <- err:
		default:
		}
	}
	go func() {
		defer close(ended)
		cancel(s.follow(ctx, of, func(at time.Time, e event) bool {
			see(at, e)
			if e.Type == listed {
				begin(nil)
			}
			return true
		}))
		begin(context.Cause(ctx))
	}()
	stop = func() { cancel(nil); <-ended }
	if err = <-began; err != nil {
		stop()
	}
	return ctx, stop, err
}

// errEnough ends a watch whose reader has seen what it looked for.
var errEnough = errors.New("seen enough")

// request begins a request for a source.
func (s *server) request(of source, kind string) *rest.Request {
	r := s.watches.Get().AbsPath(of.path)
	if of.field != "" {
		r.Param("fieldSelector", of.field)
	}
	if of.label != "" {
		r.Param("labelSelector", of.label)
	}
	if of.metadata {
		r.SetHeader("Accept", fmt.Sprintf(metadataOnly, kind))
	}
	return r
}

// list tells of everything that is there, and returns from where to watch.
func (s *server) list(ctx context.Context, of source, see func(time.Time, event) bool) (version string, err error) {
	raw, err := s.request(of, "List").Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []object `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", fmt.Errorf("decode: %w", err)
	}
	now := time.Now()
	events := []event{{Type: listing}}
	for _, o := range list.Items {
		events = append(events, event{Type: added, Object: o})
	}
	for _, e := range append(events, event{Type: listed}) {
		if !see(now, e) {
			return "", errEnough
		}
	}
	return list.Metadata.ResourceVersion, nil
}

// watch reads one watch to its end, and keeps in version how far it came.
func (s *server) watch(ctx context.Context, of source, version *string, see func(time.Time, event) bool) error {
	stream, err := s.request(of, "").Param("watch", "true").Param("allowWatchBookmarks", "true").
		Param("resourceVersion", *version).Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // the watch is over
	lines := bufio.NewReaderSize(stream, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		at := time.Now()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		e, err := parseEvent(line)
		if err != nil {
			return err
		}
		*version = e.Object.Metadata.ResourceVersion
		if e.Type != bookmark && !see(at, e) {
			return errEnough
		}
	}
}

// parseEvent decodes a line of a watch. What the server says went wrong is an error.
func parseEvent(line []byte) (event, error) {
	var e event
	err := json.Unmarshal(line, &e)
	if e.Type == failed || bytes.HasPrefix(line, []byte(`{"type":"ERROR"`)) {
		var said struct {
			Object metav1.Status `json:"object"`
		}
		if err := json.Unmarshal(line, &said); err != nil {
			return event{}, fmt.Errorf("decode: %w", err)
		}
		return event{}, &apierrors.StatusError{ErrStatus: said.Object}
	}
	if err != nil {
		return event{}, fmt.Errorf("decode: %w", err)
	}
	return e, nil
}

// wait waits, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
