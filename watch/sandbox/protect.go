package sandbox

import (
	"fmt"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// templateOf is the key of the template that a sandbox was made from.
func templateOf(b *agents.Sandbox) view.Key {
	return view.Key{Namespace: b.Namespace, Name: b.Annotations[apply.AnnotationTemplate]}
}

// protect looks whether the pod that a sandbox lacks would have the NetworkPolicy of
// its template, and if not, what a person can do about that.
func (l *Sandboxes) protect(s *Snapshot) {
	b := s.sandbox
	if s.pods.is != states.PodNone || s.Facts.Suspended || s.Facts.Expired || !apply.MadeByKiln(b) {
		return
	}
	key := templateOf(b)
	t, shown := l.Stores.Templates.Get(key)
	problem := ""
	if shown { // of one that is gone nobody looks whether it still holds
		problem = l.Problems.Of(key).Message
	}
	f := states.ProtectionFacts{
		Shown: shown, Managed: shown && apply.ManagesPolicy(t), Promised: b.Annotations[apply.AnnotationPolicy] != "",
		Refused: problem != "",
	}
	if p, ok := l.Stores.Policies.Get(view.PolicyKey(key)); ok {
		f.Policy = view.Policy(p, key, t, nil)
	}
	if l.Deletions.Underway(key) {
		f.Policy = states.PolicyTerminating // the store does not know yet
	}
	s.Facts.Unprotected = f.Unprotected()
	if !shown { // or too new for the watch, which will show it then
		problem = fmt.Sprintf("SandboxTemplate %q is gone, and so is its NetworkPolicy %q, without which no pod is made; create the template again, or delete the sandbox",
			key.Name, apply.PolicyName(key.Name))
	}
	if s.Facts.Unprotected && s.problem.Message == "" && problem != "" {
		s.problem = view.Problem{Reason: states.ReasonPodProblem, Message: problem}
	}
}
