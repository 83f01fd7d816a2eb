// Package bench measures how claims are served, as their users meet it: from just
// before the call that creates a claim until the claim can be used. It can be used when
// it is Ready and names its sandbox, and the pod of that carries the claim's UID and no
// pool's label: routers, Services and network policies find it by these. The time until
// the claim is Ready is told apart. The package knows the public API alone, so it
// measures any controller that serves it. The pool's label alone decides if the
// controller writes no claim's UID on any pod.
//
//	options    what to measure, and whether that makes sense
//	schedule   when claims arrive
//	server     requests, over several connections
//	watch      events: one watch each on all claims and all pods, read line by line
//	ledger     what was seen of every claim; judged by judge, summed up by summary
//	trial      one scenario under way; load is one claim's life in it
//	scenario   the scenarios, in the order in which a round runs them
//	floor      the same objects without a controller; floorburst, those of a burst
//	cpu        what local processes used; requests, what the API server counted
//	report     what is written down; table, page (with plots) and compare show it
//
// # What is measured
//
// The load is open: claims arrive when their time has come, whatever became of those
// before. A claim's latency is taken by one clock, on one machine, and an event's time
// is when its line was read, before it was decoded. Nothing is polled. Who measures
// shares the machine with what is measured where both are local: of an event only the
// fields are decoded that a figure needs, and the load tool's own CPU is told apart.
//
// CPU and requests are those of whole cycles: from before the first claim until the
// last pod is gone and the pool is full again.
//
// # The floor
//
// What a cluster itself costs is measured with the same objects, made, told and deleted
// with the fewest writes that the API allows: one for the claim, one for its status, one
// each for sandbox and pod; the garbage collector does the rest. A controller must not
// answer, and on a cluster in use one will be there. So claims and sandboxes of the
// floor are of kinds of their own: copies of the installed definitions in an API group
// that only this run knows, removed at its end.
//
// A burst has a floor of its own, by which its latencies are divided: as many claims at
// once, and for each two of the three writes that somebody waits for, on sandboxes that are there.
//
// # Writes
//
// This package is a user of the API and no part of the controller, so its writes do not
// go through package apply. It writes only in a namespace that it made itself.
package bench
