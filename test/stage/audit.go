package stage

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// An Audit is what an API server notes of every request of the controller's.
type Audit struct{ dir string }

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: ["system:serviceaccount:` + Home + `:` + Account + `"]
- level: None
`

// NewAudit makes an audit of a server that is not running yet.
func NewAudit() (*Audit, error) {
	dir, err := os.MkdirTemp("", "kiln-audit-")
	if err != nil {
		return nil, err
	}
	a := &Audit{dir}
	return a, os.WriteFile(a.policy(), []byte(auditPolicy), 0o600)
}

func (a *Audit) policy() string { return filepath.Join(a.dir, "policy.yaml") }
func (a *Audit) log() string    { return filepath.Join(a.dir, "log") }

// Flags are the API server's.
func (a *Audit) Flags() map[string][]string {
	return map[string][]string{"audit-policy-file": {a.policy()}, "audit-log-path": {a.log()}}
}

// Remove removes what was noted.
func (a *Audit) Remove() error { return os.RemoveAll(a.dir) }

// A Request is one kind of request to an object.
type Request struct{ Verb, Group, Resource string }

// String is the request as a rule would name it.
func (r Request) String() string { return strings.TrimSuffix(r.Verb+" "+r.Resource+"."+r.Group, ".") }

// A Noted is a request in the audit log.
type Noted struct {
	Request
	// Forbidden: RBAC did not allow it.
	Forbidden bool
	Code      int
	// Message is what the server said, if it refused it.
	Message string
}

// Requests are the requests to objects that were noted by now. One that is still
// under way, as a watch, is not among them.
func (a *Audit) Requests() (all []Noted, err error) {
	f, err := os.Open(a.log())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return all, nil // the last line may still be half written
		}
		var event struct {
			Verb           string
			ObjectRef      *struct{ APIGroup, Resource, Subresource string }
			ResponseStatus struct {
				Code    int
				Message string
			}
			Annotations map[string]string
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if event.ObjectRef == nil {
			continue
		}
		resource := strings.TrimSuffix(event.ObjectRef.Resource+"/"+event.ObjectRef.Subresource, "/")
		all = append(all, Noted{
			Request:   Request{event.Verb, event.ObjectRef.APIGroup, resource},
			Forbidden: event.Annotations["authorization.k8s.io/decision"] == "forbid",
			Code:      event.ResponseStatus.Code, Message: event.ResponseStatus.Message,
		})
	}
}

// Allowed are the requests that a rule allows.
func Allowed(rule rbacv1.PolicyRule) sets.Set[Request] {
	all := sets.New[Request]()
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all.Insert(Request{verb, group, resource})
			}
		}
	}
	return all
}

// Compare says in which requests the rights of the watched namespaces and what was
// noted differ. An apply that makes an object is noted as a patch and needs the right
// to create as well. A watch that begins with a list is a list and a watch where the
// server cannot stream. No request asks for the finalizers of an owner, admission does.
func (a *Audit) Compare(rights []Right) error {
	noted, err := a.Requests()
	if err != nil {
		return err
	}
	var wrong []string
	used := sets.New[Request]()
	for _, one := range noted {
		if one.Forbidden {
			wrong = append(wrong, "the controller asked for what it may not do: "+one.String())
		}
		used.Insert(one.Request)
		switch {
		case one.Verb == "patch" && one.Code == 201:
			used.Insert(Request{"create", one.Group, one.Resource})
		case one.Verb == "watch":
			used.Insert(Request{"list", one.Group, one.Resource})
		}
	}
	for _, r := range rights {
		if r.Where != Watched {
			continue
		}
		for allowed := range Allowed(r.Rule) {
			if !used.Has(allowed) && !strings.HasSuffix(allowed.Resource, "/finalizers") {
				wrong = append(wrong, "nothing needs the right to "+allowed.String())
			}
		}
	}
	slices.Sort(wrong)
	if wrong = slices.Compact(wrong); len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}
