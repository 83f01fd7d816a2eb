// Package cluster starts a real control plane for tests and for the demo: etcd
// and kube-apiserver always; kube-controller-manager, kube-scheduler and kwok's
// simulated nodes when asked for. Everything listens on free loopback ports and
// lives in one temporary directory with its own kubeconfig. The user's own
// kubeconfig is neither read nor written, and clusters do not see each other.
//
//	c, err := cluster.Start(ctx, cluster.Options{CRDs: true})
//	...
//	defer c.Stop()
//
// # Design notes
//
// Nothing may be left behind, however this program ends. Stop takes the
// components down in order. Should the program die without calling it, the
// keeper does: a shell that waits on a pipe whose other end only this program
// holds, and that kills what is still noted as running and removes the
// directory once that end is closed. PR_SET_PDEATHSIG was not chosen: it is
// bound to the thread that started a process, exists on Linux only, cannot be
// set on the processes that envtest starts, and leaves the directory.
//
// To be noted, each component is started through a shim, a two-line script that
// writes down its own process id and then becomes the component. Each leads its
// own process group, so Ctrl-C in a terminal reaches our program alone.
//
// ResourceQuota admission is on, as it is by default; a quota counts once its
// status is filled, which the controller manager does. ServiceAccount admission
// is off (pods need no token), and so is TaintNodesByCondition, because nobody
// runs the controller that takes its taints away. Options.Admission has both, for pods
// that really run. RBAC decides who may do what.
//
// Crash and Revive kill etcd and kube-apiserver and start them again. envtest knows
// nothing of that: a shim notes the arguments, too, and what was revived is a program of
// ours, stopped where envtest's own would have been.
//
// CRDs go in before the controller manager starts: its garbage collector looks
// for new kinds every 30 seconds only.
package cluster
