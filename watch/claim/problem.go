package claim

import (
	"errors"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// problem is what is wrong with what a claim asks for: before it has a sandbox all
// that would keep it from getting the right one, and afterwards what its pod cannot
// be given any more.
func (l *Claims) problem(s Snapshot) view.Problem {
	more := s.claim.Spec.AdditionalPodMetadata
	switch {
	case s.failure.Reason != "":
		return s.failure
	case s.sandbox != nil:
		_, err := apply.ClaimMetadataOf(s.claimed(), l.labelDomains())
		return refusalIn(err)
	case s.template == nil:
		return refusalIn(apply.CheckPodMetadata(more, agents.PodMetadata{}, l.labelDomains()))
	}
	if p := refusalIn(apply.CheckPodMetadata(more, s.template.Spec.PodTemplate.ObjectMeta, l.labelDomains())); p.Reason != "" {
		return p
	}
	if !s.Facts.NeedsOwn {
		return view.Problem{}
	}
	_, err := l.blueprint(s)
	return refusalIn(err)
}

// refusalIn is the problem that a refusal tells of, if an error is one.
func refusalIn(err error) view.Problem {
	var r *apply.Refusal
	if errors.As(err, &r) {
		return view.Problem{Reason: r.Reason, Message: r.Message}
	}
	if err != nil {
		return view.Problem{Reason: states.ReasonTemplateInvalid, Message: err.Error()}
	}
	return view.Problem{}
}
