// Package apply is the only writer of Kiln. Each of its methods is one request.
// It is built from the decision it stands for and sent under one field manager. It
// is never built from an object that was read and changed.
//
// # Managers and scopes
//
// Every field manager has a scope (scopes.go): the fields it may own on one kind.
// Two managers never own the same field, so a write of the status and a write of
// the metadata never collide. Every apply is forced; that takes a field only from
// a person or a program that wrote into the scope. A test holds every
// configuration that can be built against its scope.
//
// # Charts
//
// A state changes only by a move of its chart in package states. MoveClaim and
// MovePod are given the decision. The chart judges its event, the log line and the
// metric name it, and the log line carries its reason. ReportPool does the same
// with the phase of a rollout.
//
// # Guards
//
// A contended write carries the uid and the resourceVersion it was decided on.
// Whoever comes second gets ErrLost and has changed nothing. The sandbox's
// controller reference is the lock of the whole system: adopt and retire are
// guarded applies on it. The moves of a pod are guarded the same way: with a uid
// alone, a second leader with an old view could write a state that the chart does
// not allow. The one exception is retired, of a pool member. Every state that such
// a pod can be in allows that move, and the scheduler and the kubelet write a pod
// that is starting at the same time.
//
// On a status subresource the server does not check the uid, so the
// resourceVersion is the guard there. A pool's status has none: no claim is decided
// from it, and a person who scales the pool must not collide with it.
//
// The writes of one process to one object take turns (turns.go). Two loops write a
// sandbox, and two a claim, and each names the version that it saw: the second waits for
// the first, and is not sent if its version is old by then. It is told that it lost, as by
// the server. None waits for one that hangs.
//
// A create is an apply with resourceVersion "1". It creates when the name is free
// and conflicts when it is taken. So a retry after a lost response does no harm,
// and the same manager can remove a field later by leaving it out.
//
// # Classes
//
// A write has a class by its urgency (classes.go), most urgent first:
//
//	class  writes                                            why
//	tell   MoveClaim; of what a claim waits for MovePod:     a claim that has begun is finished before the
//	       warmed, and the ReportSandbox that says Ready     next one begins
//	hand   MovePod: handed; AnnotateClaim beside it          the claim is told next
//	take   Adopt, CreateOwn, RefuseSandbox, ReportClaim;     a claim waits for it, or its worker does: that
//	       CreatePod, ReportSandbox and all that a claim's   one never waits behind a less urgent class
//	       sandbox owns
//	warm   CreateMember; MovePod: warmed, cooled, reserved,  the next claims need it
//	       released; SyncPod, CreatePod, ReportSandbox and
//	       what other sandboxes own
//	trail  AnnotateClaim, LabelTemplate, ReportPool, Retire, nobody waits for it
//	       DeleteSandbox, DeleteService, Event;
//	       MovePod: retired
//
// Each class has a connection and a width of its own. A class narrows to its least
// width while a more urgent one has work under way or waiting. It never closes, so
// nothing starves. The widths are small: the server's cores are few, and more
// writes in flight only wait longer. Client-side rate limits are off; the API
// server's own fairness is the limit.
//
// The namespaces share the places of a class: the next is for the one that has the
// fewest writes under way, and a write that takes longer than a second, as behind a
// slow webhook, gives its place to another. When a claim comes to wait for a member of a
// pool, what the member's launch writes is of the class of a claim's own sandbox, and so
// is what waits for its place already (Hurry). A process that stops begins only what
// somebody waits for (Drain), and none begins a request without leave (Permit).
//
// # Spans
//
// A write is a span below that of its context (span.go), by the API of OpenTelemetry. Where
// the context has none, nothing is made.
package apply
