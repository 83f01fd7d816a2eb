package apply

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kiln-sandbox/kiln/states"
)

// A Note is what an Event says about an object.
type Note struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason, Action and Text are what the users of the API look for.
	Reason, Action, Text string
}

// Regarding is an object an Event can be about.
type Regarding interface {
	metav1.Object
	runtime.Object
}

// Event reports a note about an object. Events are the one thing Kiln posts
// instead of applying: each is new and none is ever changed.
func (a *Applier) Event(ctx context.Context, about Regarding, kind schema.GroupVersionKind, n Note) error {
	w := Write{Lane: BackgroundLane, Manager: states.Manager(a.opts.Component), Kind: "event", Edge: n.Reason, Key: keyOf(about)}
	_, err := send(ctx, a, w, func(ctx context.Context, c clients) (*eventsv1.Event, error) {
		return c.core.EventsV1().Events(about.GetNamespace()).Create(ctx, a.event(about, kind, n), metav1.CreateOptions{})
	})
	return err
}

func (a *Applier) event(about Regarding, kind schema.GroupVersionKind, n Note) *eventsv1.Event {
	now := time.Now()
	instance, err := os.Hostname()
	if err != nil {
		instance = a.opts.Component
	}
	name := about.GetName()
	if len(name) > 230 { // the time must fit behind it
		name = name[:230]
	}
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", name, now.UnixNano()), Namespace: about.GetNamespace()},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: a.opts.Component,
		ReportingInstance:   instance,
		Action:              n.Action,
		Reason:              n.Reason,
		Note:                n.Text,
		Type:                n.Type,
		Regarding: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: about.GetNamespace(),
			Name: about.GetName(), UID: about.GetUID(), ResourceVersion: about.GetResourceVersion(),
		},
	}
}
