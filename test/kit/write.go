package kit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kiln-sandbox/kiln/apply"
)

// A Write is one request that changes something, as the wire sees it. It is read
// from what is sent and not from what the product says about itself.
type Write struct {
	// Manager is the field manager, if the request has one.
	Manager string
	// Kind is the lower-case kind, with status behind it for that subresource.
	Kind string
	// Verb is the state that the write gives a pod or a claim, or what else it
	// does: create, cold, adopt, sync, refuse, retire, delete, record, report, label, takeover, event.
	Verb            string
	Namespace, Name string
	// UID is the object it is guarded for, Version the state of it.
	UID     types.UID
	Version string
	// Owner is the controller reference that it writes.
	Owner *metav1.OwnerReference

	resource string // in the plural, as in its URL

	// Begun and Ended are on the logical clock: the write was asked for, and it was
	// answered.
	Begun, Ended int64
	// At is when it was asked for.
	At time.Time
	// Sent: the server got it. Code is what it answered, or 0 when the answer was
	// lost.
	Sent bool
	Code int
}

// Is reports whether a write is one of this kind and verb.
func (w Write) Is(kind, verb string) bool { return w.Kind == kind && w.Verb == verb }

// body is what a write says, as far as it tells one write from another.
type body struct {
	Metadata struct {
		metav1.ObjectMeta
	} `json:"metadata"`
	Spec   json.RawMessage `json:"spec"`
	Status struct {
		State            string
		RefusedSandboxes []types.UID
	} `json:"status"`
	Preconditions *metav1.Preconditions `json:"preconditions"`
}

// kinds are the kinds by their resources.
var kinds = map[string]string{
	"pods": "pod", "sandboxes": "sandbox", "sandboxclaims": "claim",
	"sandboxwarmpools": "pool", "sandboxtemplates": "template", "events": "event",
	"services": "service", "persistentvolumeclaims": "persistentvolumeclaim", "networkpolicies": "policy",
}

// read takes a request apart; it leaves the body readable.
func read(r *http.Request) (Write, error) {
	w := Write{Manager: r.URL.Query().Get("fieldManager")}
	parts := strings.Split(r.URL.Path, "/")
	at := slices.Index(parts, "namespaces") + 2
	w.Namespace = parts[at-1]
	for i, p := range parts[at:] {
		switch i {
		case 0:
			w.Kind, w.resource = kinds[p], p
		case 1:
			w.Name = p
		case 2:
			w.Kind += p
		}
	}
	var b body
	if r.Body != nil {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return w, err
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		if bytes.HasPrefix(raw, []byte("[")) { // a JSON patch: of who owns what, and nothing else
			w.Verb = "takeover"
			var patch []struct {
				Path  string
				Value json.RawMessage
			}
			err := json.Unmarshal(raw, &patch)
			for _, op := range patch {
				if op.Path == "/metadata/resourceVersion" {
					err = errors.Join(err, json.Unmarshal(op.Value, &w.Version))
				}
			}
			return w, err
		}
		if err := b.decode(r, w.Kind, raw); err != nil {
			return w, err
		}
	}
	w.UID, w.Version, w.Owner = b.Metadata.UID, b.Metadata.ResourceVersion, metav1.GetControllerOf(&b.Metadata)
	if b.Preconditions != nil && b.Preconditions.UID != nil {
		w.UID = *b.Preconditions.UID
	}
	w.Verb = b.verb(r.Method, w)
	return w, nil
}

// decode reads what is sent. A delete of a core kind is no JSON; nor is an Event,
// and nothing of that matters here.
func (b *body) decode(r *http.Request, kind string, raw []byte) error {
	switch {
	case kind == "event":
		return nil
	case r.Method == http.MethodDelete && !json.Valid(raw):
		options := &metav1.DeleteOptions{}
		_, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, options)
		b.Preconditions = options.Preconditions
		return err
	}
	return json.Unmarshal(raw, b)
}

// verb says what a write does.
func (b body) verb(method string, w Write) string {
	born := w.Version == "1" // no object has it: the write creates
	byClaim := w.Owner != nil && w.Owner.Kind == "SandboxClaim"
	switch {
	case method == http.MethodDelete:
		return "delete"
	case w.Kind == "event":
		return "event"
	case w.Kind == "template":
		return "label"
	case w.Kind == "policy" && !born:
		return "sync"
	case w.Kind == "claim":
		return "annotate"
	case w.Kind == "claimstatus" && len(b.Status.RefusedSandboxes) > 0:
		return "refuse"
	case w.Kind == "claimstatus":
		return b.Status.State
	case strings.HasSuffix(w.Kind, "status"):
		return "report"
	case w.Kind == "sandbox" && born && byClaim:
		return "cold"
	case born:
		return "create"
	case w.Kind == "service":
		return "sync"
	case w.Owner != nil && w.Owner.Kind == "Sandbox":
		return "adopt"
	case w.Kind == "pod":
		return b.Metadata.Labels[apply.LabelState]
	case b.Metadata.Annotations[apply.AnnotationRetired] != "":
		return "retire"
	case byClaim:
		return "adopt"
	}
	return "annotate"
}

// Claim is the UID of the claim that a write makes the owner, if it does.
func (w Write) Claim() string {
	if w.Owner == nil || w.Owner.Kind != "SandboxClaim" {
		return ""
	}
	return string(w.Owner.UID)
}
