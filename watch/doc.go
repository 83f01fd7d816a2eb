// Package watch is the controller: it turns events into steps.
//
// An event names a key. A step of a key is the same three functions for every kind
// (package loop): observe reads the stores and what the step has learned into a
// snapshot, decide asks package states what to do and why, do carries out that one
// effect, a write or a question, and what comes of it is fed back as a fact. The
// step goes on until the decision ends it. observe asks nobody and changes nothing,
// decide is pure, and only do reaches the API server or the shelf. After a write of
// its own a step goes on with the object that the server returned; the watch is the
// fallback, not the clock. No step starts before every informer has synced.
//
//	view      API objects as the plain values of package states
//	store     informers, and ahead of them what our own writes and reads returned
//	memory    what the process remembers and no object says
//	shelf     the members that claims may take, and the claims that wait
//	loop      queues, the one step, Events
//	claim     claims: shelf, adoption, freshness, cold start, status; annotations
//	sandbox   sandboxes with their pods
//	pool      members: replenish, scale, roll; status
//	template  labels
//
// Imports run downwards in this list, and no kind imports another: controller.go
// gives each the functions that wake the others.
//
// # The writes of a warm claim
//
//	   what                            class  by            in the step of
//	1  Sandbox: the claim owns it      take   kiln-owner    the claim
//	2  Claim status: bound, Ready      tell   kiln-claim    the claim
//	3  Pod: bound, the claim's labels  hand   kiln-state    the sandbox
//	4  Claim: annotations              trail  kiln-claim    the claim's annotations
//	5  Event SandboxAdopted            trail                the emitter
//	6  the refill: Sandbox, Pod, Sandbox status, Pod ready, class warm, in the steps
//	   of the pool and of the new sandbox
//
// Somebody waits for 1 and 2, and for nothing else. So 2 goes before the next claim's
// 1, and everything else begins when 2 is answered: beside 1 and 2 it would only make
// them slower. Until then the shelf holds the claim's loan open, the pod's state
// rests, and the pool counts the sandbox as if it still were a member. A step that
// ends without 2 closes the loan all the same, and the pod becomes binding.
// A claim of a strict pool whose view may be too old reads pool and template from
// the quorum beside 1.
//
// # Who wakes whom
//
// A pod wakes its sandbox, and one that outlives it the pool whose member it was.
// A sandbox wakes its owner: the pool that counts it or the claim that holds it.
// A claim wakes the sandboxes that it owns, so that the pods' states follow, and the
// pool when it was told of its sandbox. A pool wakes the claims that wait for it, a
// template its pools. A member that becomes ready wakes exactly one claim, the first
// in line. Nothing is polled, and no retry has a flat delay. A loop that has not
// started drops what wakes it: a standby remembers no keys.
//
// # When the watch does not show something
//
// An object that is missing from a store may be gone, or too new for it. The store's
// own resource version tells when it is past the object that names the missing one.
// Where it is not, the API server is asked before anybody is told that something does
// not exist.
package watch
