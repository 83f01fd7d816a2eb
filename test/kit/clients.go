package kit

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	typednetworking "k8s.io/client-go/kubernetes/typed/networking/v1"

	"github.com/kiln-sandbox/kiln/crds/client"
)

// Context lives as long as the world.
func (w *World) Context() context.Context { return w.ctx }

// Admin is the administrator's client of everything that is not Kiln's.
func (w *World) Admin() kubernetes.Interface { return server.Core }

// Pods is the client of pods.
func (w *World) Pods() typedcore.PodInterface { return server.Core.CoreV1().Pods(w.Namespace) }

// Sandboxes is the client of sandboxes.
func (w *World) Sandboxes() *client.Sandboxes { return server.Kiln.Sandboxes(w.Namespace) }

// Claims is the client of claims.
func (w *World) Claims() *client.Claims { return server.Kiln.Claims(w.Namespace) }

// Pools is the client of pools.
func (w *World) Pools() *client.Pools { return server.Kiln.Pools(w.Namespace) }

// Templates is the client of templates.
func (w *World) Templates() *client.Templates { return server.Kiln.Templates(w.Namespace) }

// Policies is the client of NetworkPolicies.
func (w *World) Policies() typednetworking.NetworkPolicyInterface {
	return server.Core.NetworkingV1().NetworkPolicies(w.Namespace)
}

// Events counts the Events about an object, by its name, whose reason is given.
func (w *World) Events(about, reason string) int {
	w.t.Helper()
	all, err := server.Core.EventsV1().Events(w.Namespace).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, e := range all.Items {
		if e.Regarding.Name == about && e.Reason == reason {
			n++
		}
	}
	return n
}
