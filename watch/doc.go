// Package watch turns events into steps: an event names a key, a key is seen as
// facts, facts give a decision, a decision is one write.
//
// There are four loops, and a step of each is the same few lines: see, decide,
// act, and again until the decision rests. After a write of its own a loop goes
// on with the object the server returned (stores.go); the watch is the
// fallback, not the clock. No step starts before every informer has synced.
//
//	claim     facts -> take from the shelf, prove, refuse, cold start, tell, lose
//	sandbox   the pod, its word, the status: one key for both
//	pool      replenish, scale, roll, count
//	template  its label; wakes its pools
//
// # Who wakes whom
//
// A pod wakes its sandbox, and one that outlives it the pool whose member it was.
// A sandbox wakes its owner: the pool that counts it or the claim that holds it.
// A claim wakes the sandbox it was told of, so that the pod's word follows. A
// pool wakes the claims that wait for it, a template its pools and their waiting
// claims. A member that becomes ready wakes exactly one claim, the first in line.
// Nothing is polled, and no retry has a flat delay.
//
// # When the watch does not show something
//
// An object that is missing from a store may be gone, or too new for it. The
// store's own resource version tells when it is past the object that names the
// missing one. Where it is not, the API server is asked (read.go) before anyone
// is told that something does not exist.
package watch
