package states

import "time"

// A PoolCount is what a pool's status counts.
type PoolCount struct {
	// Replicas are the members that are not terminating, Ready those of them that
	// are free to take, Warming those that are starting.
	Replicas, Ready, Warming int
	// Terminating are those on their way out, whether they are members still or
	// only their pods are left.
	Terminating int
	// Updated and UpdatedReady are those of the current revision.
	Updated, UpdatedReady int
	// Refused are those whose pod the API server does not accept.
	Refused int
}

// CountPool counts a pool's members.
func CountPool(f PoolFacts) PoolCount {
	c := f.census()
	return PoolCount{
		Replicas: c.stay(), Ready: c.FreshReady + c.OldReady, Warming: c.Warming, Terminating: c.Terminating + f.Former,
		Updated: c.fresh(), UpdatedReady: c.FreshReady, Refused: c.Refused,
	}
}

// PoolStatusFacts are what a pool's status is decided from.
type PoolStatusFacts struct {
	PoolFacts
	// Superseded: something is still under way that was decided on an older spec or
	// template. A status that says that the newer one was observed waits for it: what
	// comes after such a status was decided on what it says.
	Superseded bool
	// AdoptionRefused: the API server refuses that some member is handed out.
	AdoptionRefused bool
	// Unschedulable: no node has room for some members.
	Unschedulable bool
	// Revision is the one that the template has now, and Deadline how long a rollout
	// may go without progress.
	Revision string
	Deadline time.Duration
	// Progress is how far the rollout had come at the last look.
	Progress Progress
	// Now is the time of this look.
	Now time.Time
	// Reported: this step has written the status, or found it as it should be.
	Reported bool
}

// A PoolReport is what a pool's status says: the counts, the phase of its rollout,
// and a reason for each condition.
type PoolReport struct {
	Count    PoolCount
	Progress Progress
	// Degraded is what keeps the pool from being what it should be, or
	// ReasonAsPlanned.
	Degraded Reason
	// Ready is ReasonMembersReady, or what keeps members from being ready.
	Ready Reason
}

// why is the reason of a report: what is in the pool's way, if anything is, and
// otherwise how ready it is.
func (r PoolReport) why() Reason {
	if r.Degraded != ReasonAsPlanned {
		return r.Degraded
	}
	return r.Ready
}

// StepPoolStatus decides what a pool's status says, and when to look at it again
// although nothing happens.
func StepPoolStatus(f PoolStatusFacts) Decision {
	switch {
	case f.Gone:
		return rest(ReasonGone)
	case f.Template == PresenceUnseen && !f.TemplateUnreadable:
		return act(ReadTemplate, ReasonTemplateUnseen)
	}
	if f.Superseded {
		return act(Wait, ReasonSuperseded)
	}
	r := PoolReport{Count: CountPool(f.PoolFacts), Degraded: f.degraded()}
	var after time.Duration
	r.Progress, after = f.advance(r.Count)
	r.Ready = ReasonMembersReady
	if r.Count.Ready < f.Replicas {
		r.Ready = ReasonMembersMissing
		if r.Degraded != ReasonAsPlanned {
			r.Ready = r.Degraded
		}
	}
	switch {
	case !f.Reported:
		return Decision{Act: Report, About: About{Report: &r}, Reason: r.why()}
	case f.Hold > 0 && (after <= 0 || f.Hold < after):
		after = f.Hold // then creations need not wait any more
	}
	if f.TemplateUnreadable {
		return act(Retry, r.why()).in(after)
	}
	return rest(r.why()).in(after)
}

// degraded says what keeps a pool from being what it should be. What a person can
// mend comes first.
func (f PoolStatusFacts) degraded() Reason {
	switch {
	case f.TemplateInvalid:
		return ReasonTemplateInvalid
	case f.Template == PresenceMissing:
		return ReasonTemplateMissing
	case f.TemplateUnreadable:
		return ReasonTemplateUnreadable
	case f.PolicyRefused:
		return ReasonPolicyRefused
	case f.CreationsRefused:
		return ReasonMembersRefused
	case CountPool(f.PoolFacts).Refused > 0:
		return ReasonPodsRefused
	case f.AdoptionRefused:
		return ReasonAdoptionRefused
	case f.Hold > 0:
		return ReasonMembersEnd
	case f.Unschedulable:
		return ReasonUnschedulable
	}
	return ReasonAsPlanned
}
