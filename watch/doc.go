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
//	measure   what a scrape tells of stores and shelves
//	loop      queues, the one step, Events
//	claim     claims: shelf, adoption, freshness, cold start, status; annotations
//	sandbox   sandboxes with their pods, Services and storage
//	pool      members: replenish, scale, roll; status
//	template  NetworkPolicies; labels
//
// A step costs what changed, not what exists. The roster of package pool follows what
// the stores learn and counts members one by one; nearly all that a pool decides is
// decided from its counts. It looks at all members once when what is current changes,
// and once for a plan that has too many of them; a rolling update looks at those alone
// that it may give up now.
//
// Imports run downwards in the list above, and no kind imports another: controller.go
// gives each the functions that wake the others.
//
// # The writes of a warm claim
//
//	   what                            class  by            in the step of
//	1  Sandbox: the claim owns it      take   kiln-owner    the claim
//	2  Pod: bound, the claim's labels  hand   kiln-state    the claim
//	3  Claim status: bound, Ready      tell   kiln-claim    the claim
//	4  Claim: annotations              trail  kiln-claim    the claim's annotations
//	5  Event SandboxAdopted            trail                the emitter
//	6  the refill: Sandbox, Pod, Sandbox status, Pod ready, class warm, in the steps
//	   of the pool and of the new sandbox
//
// Somebody waits for 1, 2 and 3, and for nothing else. When 3 is answered the claim is
// Ready, and its pod is reachable as the claim's. So 3 goes before the next claim's 2,
// and 2 before the next claim's 1. Everything else begins when 3 is answered: beside
// them it would only make them slower. The one exception is 4: if no other claim is
// being served, it is written beside 2, and clients find the annotations when the claim
// is Ready. Until 3 the shelf holds the claim's loan open, the sandbox's step leaves
// the pod's state alone, and the pool counts the sandbox as if it still were a member.
// A step that ends without 2 closes the loan all the same, and the pod becomes
// binding. A claim of a strict pool whose view may be too old reads pool and template
// from the quorum beside 1; 2 waits for that proof.
//
// The pod of a sandbox that was made for one claim is handed over by the sandbox's step
// when it is Ready, before the sandbox's status says so: the claim becomes Ready by
// that status.
//
// # Who wakes whom
//
// A pod, a Service and a claim for storage wake the sandbox that they belong to, or
// that they are in the way of; one that lacks the label by which informers know what
// is ours is followed by a watch of its own while it is in the way. A pod that
// outlives its sandbox wakes the pool whose member it was.
// A sandbox wakes its owner: the pool that counts it or the claim that holds it.
// A claim wakes the sandboxes that it owns, whose status follows, and the
// pool when it was told of its sandbox, or when its step ended without that. A pool
// wakes the claims that wait for it, a template its pools. A NetworkPolicy wakes the
// template that has its name, and the sandboxes that have no pod for want of it, and
// such a sandbox its template; the last sandbox or pod of a template that is gone wakes
// that, so that the policy goes too. A member that becomes ready wakes exactly one
// claim, the first in line. A claim stays in line for as long as that moves: a sandbox of its
// own would be ready later than the member that is starting. Nothing is polled, and no
// retry has a flat delay. A loop that has not started drops what wakes it: a standby
// remembers no keys.
//
// # Who goes first
//
// The namespaces take turns in every queue, and share the places of every class of
// writes, and so do the pools of each. What waits for a slow server holds up its own
// pool: a step, or a write, that takes longer than a second gives its worker, or its
// place, to others. A namespace in which very much waits like that narrows to one step
// and one write for each pool, and never closes. What a claim waits for, its own sandbox or
// the next member of its pool, does not stand behind the other steps of that pool, of
// which there are as many as members when a pool was emptied: it is a flow of its own, and a
// key or a write that waits there when a claim comes to wait for it is taken out. Of the
// steps that wait for others of their pool, those of sandboxes that have a pod go before
// those of sandboxes that are to get one: what has begun is finished first. Keys that
// nobody waits for, as a claim that was told of its sandbox, are stepped behind those
// that somebody does; so a new leader begins with the claims that wait, in the order
// in which they were made. Before its first step it reads all pools and templates
// from the quorum: what its predecessor knew of them it knows, too.
//
// # When the watch does not show something
//
// An object that is missing from a store may be gone, or too new for it. The store's
// own resource version tells when it is past the object that names the missing one.
// Where it is not, the API server is asked before anybody is told that something does
// not exist.
//
// # Traces
//
// A loop makes a span of each step, below what the object's client says in its
// annotation, and apply one of each write, below the span that it finds in its context.
// Both know the API of OpenTelemetry and no more of it: what keeps spans and sends them
// is wired in cmd. Nil for a tracer is off, and costs no allocation.
package watch
