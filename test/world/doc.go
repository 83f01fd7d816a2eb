// Package world is what every test of Kiln is judged by, and what the demo
// shows: one recorder of what happened, and one reading of it. It knows nothing
// of the testing package, so a program uses it as a suite does.
//
//	r := world.NewRecorder()
//	stop, err := r.Watch(ctx, clients, "default")
//	err = r.Wait(ctx, world.Full("p", 2), world.Bound("a"))
//
// A Recorder watches every object of a namespace, or of all, from before the
// first of them. A plain watch shows every change; an informer may leave out what
// happened between two lists. Resource versions of one etcd are one order over
// all kinds, so History is the order in which things became true, however the
// watches raced each other.
//
// A Snapshot is how things stand; a Condition is what somebody waits for, as a
// function of a Snapshot. Violations judges a history by the promises: one claim
// for a sandbox and one sandbox for a claim (P1), nobody's sandbox taken away
// (P3), no state but by an edge of its chart, written by the edge's manager (P4).
// Counts are the controller's own counts of its writes.
//
// A recorder that endures goes on when the server was away: it lists anew, and what it
// then sees comes with a gap, in which an object may have taken several edges. It keeps
// no history, so that it can watch for hours; a Judge takes changes one by one.
//
// The packages beside it stand on this one: kit adds a server, controllers,
// faults and a *testing.T; demo adds words, and
// soak an hour of faults.
package world
