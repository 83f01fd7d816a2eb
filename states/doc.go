// Package states is the vocabulary and the judgement of Kiln: five words, two
// charts that say how they may follow each other, the facts a decision is made
// from, the decisions themselves, and the shelf from which claims take warm
// sandboxes.
//
// The package is pure. It knows no Kubernetes type, no clock, no random source,
// no lock and no I/O: time and names come in as values, effects go out as
// values. So the same input always gives the same answer, a table test can hold
// every answer, and the walk (walk_test.go) can drive the real decisions
// through every world a crash, a stale view or a lost response can make.
//
// # Design notes
//
// A chart is data. The looplab/fsm machine, the pictures in states.md, the label
// values of the metrics, the words in the log and the configuration that is
// applied all come from the same table, so a move that is not listed cannot be
// written.
//
// The library is used as a judge and as a draughtsman only. Judge builds a
// fresh machine for each question from the persisted word: SetState followed by
// Event is not atomic on a shared one. It registers no callbacks, because a
// misspelt callback is dropped without a word and an error in one arrives after
// the state has moved. It passes context.Background(), because a cancelled
// context leaves a machine in transition for good. A second edge with the same
// event and source would silently replace the first, so a test forbids it; and
// an edge from a state to itself is an error to the library, so the charts have
// none: staying is Decision.Rests.
package states
