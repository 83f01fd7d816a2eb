package kit

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	// does: create, cold, adopt, refuse, retire, delete, record, report, label, event.
	Verb string
	Name string
	// UID is the object it is guarded for, Version the state of it.
	UID     types.UID
	Version string
	// Owner is the controller reference that it writes.
	Owner *metav1.OwnerReference

	resource string // in the plural, as in its URL

	// Begun and Ended are on the logical clock: the write was asked for, and it was
	// answered.
	Begun, Ended int64
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
}

// read takes a request apart; it leaves the body readable.
func read(r *http.Request) (Write, error) {
	w := Write{Manager: r.URL.Query().Get("fieldManager")}
	parts := strings.Split(r.URL.Path, "/")
	at := slices.Index(parts, "namespaces") + 2
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
		if w.Kind != "event" { // an Event is no JSON, and nothing of it matters here
			if err := json.Unmarshal(raw, &b); err != nil {
				return w, err
			}
		}
	}
	w.UID, w.Version, w.Owner = b.Metadata.UID, b.Metadata.ResourceVersion, metav1.GetControllerOf(&b.Metadata)
	if b.Preconditions != nil && b.Preconditions.UID != nil {
		w.UID = *b.Preconditions.UID
	}
	w.Verb = b.verb(r.Method, w)
	return w, nil
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
