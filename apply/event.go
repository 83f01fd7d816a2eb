package apply

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// An EventBody is what an Event says about an object.
type EventBody struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason, Action and Message are what the users of the API look for.
	Reason, Action, Message string
}

// Event reports an Event about an object. Events are the one thing Kiln posts
// instead of applying: each is new and none is ever changed.
func (a *Applier) Event(ctx context.Context, about Regarding, body EventBody) error {
	w := write{urgency: urgency{class: classTrail}, manager: states.Manager(a.opts.Component), kind: "event", edge: body.Reason, key: keyOf(about)}
	_, err := send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*eventsv1.Event, error) {
		return c.Core.EventsV1().Events(about.GetNamespace()).Create(ctx, a.event(about, body), metav1.CreateOptions{})
	})
	return err
}

func (a *Applier) event(about Regarding, body EventBody) *eventsv1.Event {
	now, kind := time.Now(), gvkOf(about)
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
		ReportingController: a.reporter(about),
		ReportingInstance:   instance,
		Action:              body.Action,
		Reason:              body.Reason,
		Note:                body.Message,
		Type:                body.Type,
		Regarding: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: about.GetNamespace(),
			Name: about.GetName(), UID: about.GetUID(), ResourceVersion: about.GetResourceVersion(),
		},
	}
}

// claimReporter is who reports Events about claims, as the users of the API know it.
const claimReporter = "sandboxclaim-controller"

func (a *Applier) reporter(about Regarding) string {
	if _, ok := about.(*ext.SandboxClaim); ok {
		return claimReporter
	}
	return a.opts.Component
}
