// Package states is the vocabulary and the judgement of Kiln: five states and the
// charts of how they may follow each other, the facts that decisions are made from,
// the decisions, and the shelf from which claims take warm sandboxes.
//
// The package is pure. It knows no Kubernetes type, no clock, no random source,
// no lock and no I/O: time and names come in as values, effects go out as
// values. So the same input always gives the same answer, a table test can hold
// every answer, and the walk (walk_test.go) can drive the real decisions
// through every world that a crash, a stale view or a lost response can make.
//
// # Observe, decide, do
//
// A step of any kind goes round in one way: facts are gathered, StepClaim,
// StepSandbox, StepPool, StepPoolStatus, StepTemplate or StepAnnotations decides,
// one effect is carried out, and what was learned from it is a fact of the next
// round. A Decision is complete. It names what to write, what to ask the API server
// or the shelf, or what to wait for; nothing is left for the one who carries it out
// to find out. What is not known is a value too (unseen, unknown, not asked), and
// only from that a decision asks, so that no step can go round for ever.
//
// Every decision has a Reason, and doing nothing has one as well. The log line,
// the condition and the Event are worded from that code; nobody derives the reason a
// second time. A status is reported before the step ends, and for the same reason.
//
// # Who is who
//
// Which sandbox a claim holds (Held), whose a sandbox is (HolderOf), where it belongs
// (PlaceOf), what a claim has lost (Loses), which pools are strict and what a rollout
// may do at once (UpdatePolicy) are decisions on plain values as well. The walk calls
// these very functions, and finds a wrong world when one of them lacks a guard.
//
// # Charts
//
// A chart is data. The looplab/fsm machine, the pictures in states.md, the label
// values of the metrics, the words in the log and the configuration that is
// applied all come from the same table, so a move that is not listed cannot be
// written. Pod and Claim are the charts of what objects carry. Rollout is that of a
// pool on its way to its spec: the phase is decided from the counts and from what
// was remembered, never read out of conditions, and what a status keeps of it is
// enough to go on after a restart.
//
// The library is used as a judge and as a draughtsman only. Judge builds a
// fresh machine for each question from the persisted state: SetState followed by
// Event is not atomic on a shared one. It registers no callbacks, because a
// misspelt callback is dropped without a word and an error in one arrives after
// the state has moved. It passes context.Background(), because a cancelled
// context leaves a machine in transition for good. A second edge with the same
// event and source would silently replace the first, so a test forbids it; and
// an edge from a state to itself is an error to the library, so the charts have
// none: staying is a decision that ends a step.
package states
