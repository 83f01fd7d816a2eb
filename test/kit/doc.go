// Package kit is what the tests of the suite are built from: a world each, on a
// real API server, in which controllers are started, killed and deceived.
//
//	func TestMain(m *testing.M) { kit.Main(m) }
//
//	func TestWarm(t *testing.T) {
//		w := kit.New(t)
//		w.Controller()
//		w.Create(world.Template("t"), world.Pool("p", 2), world.Claim("a", "p"))
//		w.Await(world.Converged("p", 2, "a"))
//	}
//
// # Parts
//
// One API server with its etcd serves a whole test binary; a World is a
// namespace of it, so tests run side by side. There is no controller manager, no
// scheduler and no kubelet. What they would do in a namespace, a Kubelet and a
// Collector do on command: a test holds a pod unready for as long as its
// sentence needs, and no clock is involved. With KILN_SERVER=simulated the server is
// package sim, in this process.
//
// A Controller is the product itself, in this process. Its Wire sits between it
// and the server: it knows every write by manager, kind and verb, keeps them in
// order, and does to them what a Fault says. Crash cuts the wire at once: a dead
// process writes nothing and hears nothing, though what it has sent may arrive.
// Its WatchGates hold back what it would learn of a kind.
//
// What happens in a world is recorded, waited for and judged by package world,
// which knows nothing of tests. This package adds the server, the faults and the
// *testing.T: Await fails the test, and when the test ends the whole history is
// judged.
//
// # Waiting
//
// Nothing sleeps. A test waits for what must come in every legal order of events:
// the recorder has seen whatever the administrator did before the next line is
// reached, and a watch is held back when the controller is at rest, so that no
// answer is on its way that would say too much.
package kit
