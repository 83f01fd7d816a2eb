// Package kit is what the tests of the suite are built from: a world each, on a
// real API server, in which controllers are started, killed and lied to.
//
//	func TestMain(m *testing.M) { kit.Main(m) }
//
//	func TestWarm(t *testing.T) {
//		w := kit.New(t)
//		w.Controller(kit.Plain)
//		w.Create(kit.Template("t"), kit.Pool("p", 2), kit.Claim("a", "p"))
//		w.Await(kit.Right("p", 2, "a"))
//	}
//
// # Parts
//
// One API server with its etcd serves a whole test binary; a World is a
// namespace of it, so tests run side by side. There is no controller manager, no
// scheduler and no kubelet. What they would do in a namespace, a Kubelet and a
// Collector do on command: a test holds a pod unready for as long as its
// sentence needs, and no clock is involved.
//
// A Controller is the product itself, in this process. Its Wire sits between it
// and the server: it knows every write by manager, kind and verb, keeps them in
// order, and does to them what a Fault says. Crash cuts the wire at once: a dead
// process writes nothing and hears nothing, though what it has sent may arrive.
//
// A Recorder watches every object of the namespace from before the first and
// keeps every change. Resource versions of one etcd are one order over all
// kinds, so when the test ends the whole history is judged in the order in which
// it became true: whoever holds a sandbox, what a claim was told, every word
// that followed another.
//
// # Waiting
//
// Nothing sleeps. Await returns when the recorder, or a wire, has seen what the
// test wishes for, and fails with the world as it stands when that takes
// unreasonably long.
package kit
