package template

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// noPods ends what is said of a policy that cannot be as it should be.
const noPods = "no pod is made from the template until then"

// problems word what keeps a template's policy from being what it should be, and what
// helps. The pools and the sandboxes of the template say the same.
var problems = map[states.Reason]func(s Snapshot, policy string) string{
	states.ReasonPolicyForeign: func(s Snapshot, policy string) string {
		return fmt.Sprintf("refusing to update NetworkPolicy %q: it was not made for SandboxTemplate %q; delete it or give it another name, "+
			"or set spec.networkPolicyManagement of the template to Unmanaged; %s", policy, s.key.Name, noPods)
	},
	states.ReasonPolicyInvalid: func(s Snapshot, _ string) string {
		return fmt.Sprintf("no NetworkPolicy can be made from SandboxTemplate %q: %s; mend that field; %s", s.key.Name, s.invalid, noPods)
	},
	states.ReasonPolicyRefused: func(s Snapshot, policy string) string {
		return fmt.Sprintf("the API server refuses NetworkPolicy %q: %s; mend spec.networkPolicy of SandboxTemplate %q, or what refuses it; %s",
			policy, apply.Message(s.refusal), s.key.Name, noPods)
	},
}

// problem is what is wrong with a template's policy, if anything is.
func problem(s Snapshot) memory.PolicyProblem {
	why := s.Facts.Problem()
	if why == "" {
		return memory.PolicyProblem{}
	}
	return memory.PolicyProblem{Reason: why, Message: problems[why](s, apply.PolicyName(s.key.Name))}
}

// An occasion is an Event about a template.
type occasion struct {
	kind, reason string
	message      func(Snapshot) string
}

func told(s Snapshot) string { return s.problem.Message }

// occasions are the Events about templates, by the reason of what is said.
var occasions = map[states.Reason]occasion{
	states.ReasonPolicyForeign: {corev1.EventTypeWarning, view.ReasonPolicyRefused, told},
	states.ReasonPolicyInvalid: {corev1.EventTypeWarning, view.ReasonPolicyRefused, told},
	states.ReasonPolicyRefused: {corev1.EventTypeWarning, view.ReasonPolicyRefused, told},
	states.ReasonPolicyUnwanted: {corev1.EventTypeNormal, "NetworkPolicyDeleted", func(s Snapshot) string {
		return fmt.Sprintf("NetworkPolicy %q is deleted: the template is Unmanaged; sandboxes that run are as open as the other policies leave them", s.policy.Name)
	}},
}

// emit reports an Event, if there is one to report.
func (l *Templates) emit(s Snapshot, o occasion) {
	if o.reason != "" && s.template != nil {
		l.Events.Emit(s.template, apply.EventBody{Type: o.kind, Reason: o.reason, Action: "Reconciling", Message: o.message(s)})
	}
}
