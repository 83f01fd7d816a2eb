package states

// TemplateFacts are what a template's next step is decided from.
type TemplateFacts struct {
	// Gone: there is no template of this name.
	Gone bool
	// Terminating: the template is being deleted.
	Terminating bool
	// Labelled: it carries the label that its pods are selected by.
	Labelled bool
}

// StepTemplate decides the next step of a template.
func StepTemplate(f TemplateFacts) Decision {
	switch {
	case f.Gone:
		return rest(ReasonGone)
	case f.Terminating:
		return rest(ReasonTerminating)
	case !f.Labelled:
		return act(Label, ReasonUnlabelled)
	}
	return rest(ReasonLabelled)
}
