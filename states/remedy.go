package states

// A Remedy is what ends the reason for which a claim is not Ready.
type Remedy uint8

// The remedies. A reason has one of them, and with RemedyRetry alone the claim is
// tried again without anything having happened.
const (
	// RemedyEvent: what it waits for comes about, and that wakes it.
	RemedyEvent Remedy = iota
	// RemedySpec: the spec of the claim, of its pool or of its template is changed,
	// and that wakes it.
	RemedySpec
	// RemedyRetry: nobody tells when it may go better, so it is tried again, ever more
	// rarely.
	RemedyRetry
	// RemedyNewClaim: nothing helps this claim any more.
	RemedyNewClaim
)

// Remedies are the remedies of all reasons for which a claim has no sandbox, or not
// as it asked for it.
var Remedies = map[Reason]Remedy{
	ReasonInLine:          RemedyEvent,
	ReasonPoolMissing:     RemedyEvent,
	ReasonTemplateMissing: RemedyEvent,
	ReasonNameTaken:       RemedyEvent,

	ReasonInvalidMetadata: RemedySpec,
	ReasonEnvRejected:     RemedySpec,
	ReasonEnvInvalid:      RemedySpec,
	ReasonVolumesRejected: RemedySpec,
	ReasonTemplateInvalid: RemedySpec,

	ReasonCreateRefused:   RemedyRetry,
	ReasonHandoverRefused: RemedyRetry,

	ReasonSandboxLost:    RemedyNewClaim,
	ReasonExpired:        RemedyNewClaim,
	ReasonExpiredForeign: RemedyNewClaim,
	ReasonEnded:          RemedyNewClaim,
}

// RemedyOf is what ends a reason for which a claim is not Ready.
func RemedyOf(why Reason) Remedy { return Remedies[why] }
