package states

import "time"

// A Presence is what is known of an object another one names.
type Presence uint8

// The presences.
const (
	// Unseen: the watch has not shown it and nobody has asked the API server.
	Unseen Presence = iota
	// Present: it exists and the watch has it.
	Present
	// Hidden: the API server has it, the watch does not yet; an event will tell.
	Hidden
	// Missing: the API server itself says that there is none.
	Missing
)

// Presences lists every presence.
var Presences = []Presence{Unseen, Present, Hidden, Missing}

// A Holding is what a claim holds: the sandbox whose controller reference names
// the claim's UID.
type Holding uint8

// The holdings.
const (
	// HoldsNone: no sandbox names it.
	HoldsNone Holding = iota
	// HoldsWarm: one from a pool, complete when it was taken.
	HoldsWarm
	// HoldsStarting: its own, not Ready yet.
	HoldsStarting
	// HoldsReady: its own, and Ready.
	HoldsReady
)

// Holdings lists every holding.
var Holdings = []Holding{HoldsNone, HoldsWarm, HoldsStarting, HoldsReady}

// A View is how new what the watches show of a claim's pool and template is.
type View uint8

// The views.
const (
	// Unproven: it may be older than the claim.
	Unproven View = iota
	// Proven: it is at least as new as the claim.
	Proven
	// Behind: the API server has something newer; an event will bring it.
	Behind
)

// Views lists every view.
var Views = []View{Unproven, Proven, Behind}

// ClaimFacts are what a claim's next step is decided from.
type ClaimFacts struct {
	// State is the word the claim carries.
	State State
	// Deleting: the claim is being deleted.
	Deleting bool
	// Invalid: its spec can not be served as it stands; only an edit helps.
	Invalid bool
	// Told: its status names a sandbox.
	Told bool
	// Holds is what it holds. When it was told, only the sandbox of that name
	// counts; one that it has refused never does.
	Holds Holding
	// Sandbox is what is known of the sandbox it was told of, when it holds none.
	Sandbox Presence
	// Pool and Template are what is known of the two it is served from.
	Pool, Template Presence
	// Strict: it must not get a sandbox of an older template than there was when
	// it was made.
	Strict bool
	// View is how new what is known of the pool and the template is.
	View View
	// Outdated: what it holds and was not told of is not of the template as it is
	// known. It may have been when it was taken.
	Outdated bool
	// Own: it must have a sandbox of its own (its spec changes the blueprint).
	Own bool
	// Offer is the shelf's answer, if Asks said to ask.
	Offer Offer
	// Due: the status it should have differs from the one it has.
	Due bool
	// Misnoted: what is noted on it, for others to read, is not the sandbox it
	// holds: another leader's adoption won, or a crash came before the note.
	Misnoted bool
	// Waited is how long it has been waiting in the shelf's line.
	Waited time.Duration
	// Patience is the longest it may wait there before its own sandbox is made.
	Patience time.Duration
}

// Quiet is how long a waiting claim stays silent before its status says what it
// waits for. Most waits are over sooner, and a write would only delay them.
const Quiet = time.Second

// Asks reports whether the claim needs an answer of the shelf to go on.
func (f ClaimFacts) Asks() bool {
	return !f.Deleting && !f.Invalid && !f.Told && !f.Own &&
		f.State == Binding && f.Holds == HoldsNone && f.Pool == Present
}

// StepClaim decides the next step of a claim.
func StepClaim(f ClaimFacts) Decision {
	switch {
	case f.Deleting:
		return rest("being deleted: the garbage collector does the rest")
	case f.State == Stale:
		return rest("it holds nothing any more")
	case f.Holds != HoldsNone:
		return hold(f)
	case f.Told, f.State == Warming, f.State == Bound:
		return miss(f)
	case f.Invalid:
		return f.say("its spec can not be served")
	}
	return serve(f)
}

// hold tells a claim about the sandbox it has.
func hold(f ClaimFacts) Decision {
	switch {
	case f.State == Binding && f.Holds == HoldsStarting:
		return move(ClaimCold, "its own sandbox is starting")
	case f.State == Binding && f.Holds == HoldsWarm && !f.Told:
		return confirm(f)
	case f.State == Binding:
		return move(ClaimBound, "it has its sandbox")
	case f.State == Warming && f.Holds != HoldsStarting:
		return move(ClaimBound, "its sandbox became Ready")
	}
	if d := f.say("its sandbox changed"); !d.Rests() || !f.Misnoted {
		return d
	}
	return act(Note, "what is noted on it is not what it holds")
}

// prove lets a strict claim go on only with a template that is not older than the
// claim. What it does then is what it was kept from.
func prove(f ClaimFacts, then Decision) Decision {
	switch {
	case !f.Strict || f.View == Proven:
		return then
	case f.View == Behind:
		return lags
	}
	return act(Check, "the watches may be behind the claim")
}

// confirm tells a claim of the warm sandbox it has taken. For a strict claim that
// needs the proof, which was asked for beside the adoption. A sandbox that turns
// out to be outdated is refused on the claim first, and only then retired: the
// claim's status is what two leaders, or one and a lost answer, can not both
// write, so the claim is told of it or has refused it and never both.
func confirm(f ClaimFacts) Decision {
	if f.Strict && f.Outdated {
		return prove(f, act(Refuse, "its sandbox is of an older template"))
	}
	return prove(f, move(ClaimBound, "it has its sandbox"))
}

// lags is what a claim does while the API server has something that the watch does
// not show yet.
var lags = rest("the watch is behind; an event will tell")

// miss looks for a sandbox that a claim was told of and that the watch does not
// show. Only the API server's own word makes it lost: the claim never silently
// gets another one.
func miss(f ClaimFacts) Decision {
	switch f.Sandbox {
	case Unseen:
		return act(Check, "the watch does not show its sandbox")
	case Missing:
		return move(ClaimLost, "its sandbox is gone")
	case Present, Hidden:
	}
	return lags
}

// serve finds a claim its sandbox.
func serve(f ClaimFacts) Decision {
	switch f.Pool {
	case Unseen:
		return act(Check, "the watch does not show its pool")
	case Missing:
		return f.say("its pool does not exist")
	case Hidden:
		return lags
	case Present:
	}
	switch {
	case f.Offer == Taken && !f.Own && f.Strict && f.View == Behind:
		return lags
	case f.Offer == Taken && !f.Own:
		return act(Adopt, "a warm sandbox is free")
	case f.Offer == InLine && !f.Own && f.Waited < f.Patience:
		return wait(f)
	}
	switch f.Template {
	case Unseen:
		return act(Check, "the watch does not show its template")
	case Missing:
		return f.say("its template does not exist")
	case Hidden:
		return lags
	case Present:
	}
	return prove(f, act(Create, "there is no warm sandbox to wait for"))
}

// wait keeps a claim in line. A pod that becomes ready wakes it; the clock only
// ends the silence and, at last, the patience.
func wait(f ClaimFacts) Decision {
	left := f.Patience - f.Waited
	if f.Waited < Quiet {
		return rest("a warm sandbox is starting").in(min(Quiet-f.Waited, left))
	}
	d := f.say("a warm sandbox is starting")
	return d.in(left)
}

// say writes the status if it differs, and rests otherwise.
func (f ClaimFacts) say(reason string) Decision {
	if f.Due {
		return act(Report, reason)
	}
	return rest(reason)
}
