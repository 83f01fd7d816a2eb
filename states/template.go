package states

// A PolicyView is what is known of the NetworkPolicy that has the name of a
// template's.
type PolicyView uint8

// The views of a policy.
const (
	// PolicyNone: there is none.
	PolicyNone PolicyView = iota
	// PolicyCurrent: it is ours, and as its template wants it. Of a template that is
	// gone nobody knows what it wanted.
	PolicyCurrent
	// PolicyDrifted: it is ours, and something about it is not as wanted.
	PolicyDrifted
	// PolicyEarlier: it is ours, and was written for an earlier template of the name.
	// Whoever saw that one gone, and nothing made from it, may be deleting it. That fails
	// once it is written for this one.
	PolicyEarlier
	// PolicyTerminating: it is being deleted, and its name is not free yet.
	PolicyTerminating
	// PolicyForeign: it is somebody else's.
	PolicyForeign
)

// ours reports whether a policy stands that we have made.
func (v PolicyView) ours() bool { return v == PolicyEarlier || v.protects() }

// protects reports whether a pod may start under it.
func (v PolicyView) protects() bool { return v == PolicyCurrent || v == PolicyDrifted }

// TemplateFacts are what a template's next step is decided from.
type TemplateFacts struct {
	// Gone: there is no template of this name.
	Gone bool
	// Terminating: the template is being deleted. Until it is gone sandboxes are made
	// from it, and its policy is kept.
	Terminating bool
	// Labelled: it carries the label that its pods are selected by.
	Labelled bool
	// Managed: it shall have a NetworkPolicy. Invalid: none can be made from its rules.
	Managed, Invalid bool
	// Policy is what is known of that policy.
	Policy PolicyView
	// Used: there are sandboxes made from it, or pods of such.
	Used bool
	// Refused: the API server refused the policy in this step. Synced: it was brought
	// in line in this step; what comes of that, an event will show.
	Refused, Synced bool
	// Told: those who wait for the policy, and those who use the template, know what
	// keeps it from being made, or that nothing does.
	Told bool
}

// Problem is what keeps a template's policy from being what it should be; empty if
// nothing does.
func (f TemplateFacts) Problem() Reason {
	switch {
	case f.Gone || !f.Managed:
		return ""
	case f.Invalid:
		return ReasonPolicyInvalid
	case f.Policy == PolicyForeign:
		return ReasonPolicyForeign
	case f.Refused:
		return ReasonPolicyRefused
	}
	return ""
}

// StepTemplate decides the next step of a template. Its policy comes first: pods wait
// for it.
func StepTemplate(f TemplateFacts) Decision {
	problem := f.Problem()
	switch {
	case f.Gone && f.Policy.ours():
		return f.leave()
	case f.Gone:
		return rest(ReasonGone)
	case !f.Managed && f.Policy.ours():
		return part(Delete, PartPolicy, ReasonPolicyUnwanted)
	case f.Managed && problem == "" && f.Policy == PolicyNone:
		return part(Create, PartPolicy, ReasonPolicyMissing)
	case f.Managed && problem == "" && (f.Policy == PolicyDrifted || f.Policy == PolicyEarlier) && !f.Synced:
		return part(Sync, PartPolicy, ReasonPolicyDrifted)
	case !f.Told && problem == "":
		return act(Report, ReasonPolicyCurrent)
	case !f.Told:
		return act(Report, problem)
	case !f.Labelled && !f.Terminating:
		return act(Label, ReasonUnlabelled)
	case problem == ReasonPolicyRefused:
		return act(Retry, problem)
	case problem != "":
		return rest(problem)
	case f.Terminating:
		return rest(ReasonTerminating)
	}
	return rest(ReasonLabelled)
}

// leave keeps the policy of a template that is gone as long as a pod may need it.
func (f TemplateFacts) leave() Decision {
	if f.Used {
		return rest(ReasonPolicyUsed)
	}
	return part(Delete, PartPolicy, ReasonPolicyUnused)
}

// ProtectionFacts are what is known of the network of a pod that is to be made.
type ProtectionFacts struct {
	// Shown: its template is known. Managed: that template shall have a policy.
	Shown, Managed bool
	// Promised: the sandbox was made when its template should have one.
	Promised bool
	// Refused: that policy cannot be what it should be.
	Refused bool
	// Policy is what is known of it.
	Policy PolicyView
}

// Unprotected reports whether a pod would run without the policy of its template. A
// template that is gone keeps its promise.
func (f ProtectionFacts) Unprotected() bool {
	if f.Shown && !f.Managed || !f.Shown && !f.Promised {
		return false
	}
	return f.Refused || !f.Policy.protects()
}
