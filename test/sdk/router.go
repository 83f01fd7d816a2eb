package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kiln-sandbox/kiln/apply"
)

// A router stands for the sandbox router and the runtime in the pod behind it. It
// finds a pod as the router does, by the sandbox's name alone, and answers the few
// commands that the session gives.
type router struct {
	pods typed.PodsGetter
	url  string
	http *httptest.Server
}

// serve starts a router on loopback.
func serve(pods typed.PodsGetter) *router {
	r := &router{pods: pods}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /execute", r.execute)
	r.http = httptest.NewServer(mux)
	r.url = r.http.URL
	return r
}

func (r *router) close() { r.http.Close() }

// execute runs a command in the pod of a sandbox: hostname or printenv.
func (r *router) execute(w http.ResponseWriter, q *http.Request) {
	pod, err := r.route(q.Context(), q.Header.Get("X-Sandbox-Namespace"), q.Header.Get("X-Sandbox-ID"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	var asked struct{ Command string }
	if err := json.NewDecoder(q.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, code := answer(pod, asked.Command)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"stdout": out, "stderr": "", "exit_code": code})
}

// route finds the pod of a sandbox, as the router's index by name does: a pod that
// still is in a pool, or that no Sandbox controls, is not in it.
func (r *router) route(ctx context.Context, namespace, sandbox string) (*corev1.Pod, error) {
	all, err := r.pods.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: apply.LabelNameHash + "=" + apply.Hash(sandbox)})
	if err != nil {
		return nil, err
	}
	for i := range all.Items {
		pod := &all.Items[i]
		owner := metav1.GetControllerOf(pod)
		_, inPool := pod.Labels["agents.x-k8s.io/warm-pool-sandbox"]
		if !inPool && owner != nil && owner.Kind == "Sandbox" && owner.Name == sandbox && pod.Status.PodIP != "" && pod.DeletionTimestamp == nil {
			return pod, nil
		}
	}
	return nil, fmt.Errorf("no pod of sandbox %s/%s can be routed to", namespace, sandbox)
}

// answer is what a command prints in a pod, and its exit code.
func answer(pod *corev1.Pod, command string) (out string, code int) {
	words := strings.Fields(command)
	switch {
	case len(words) == 1 && words[0] == "hostname":
		return pod.Name + "\n", 0
	case len(words) == 2 && words[0] == "printenv":
		for _, e := range pod.Spec.Containers[0].Env {
			if e.Name == words[1] {
				return e.Value + "\n", 0
			}
		}
		return "", 1
	}
	return "", 127
}
