package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/world"
)

//go:embed testdata/incumbent.yaml
var incumbent string

// What the agent-sandbox controller leaves, and what Kiln makes of it: a pool p with two free
// members, a claim that was given a third, and one that started cold.
var leftStates = map[string]states.State{
	"p-aaaaa": states.Ready, "p-bbbbb": states.Ready, "p-ccccc": states.Bound, "own": states.Bound,
}

// succession shows that Kiln takes the place of the agent-sandbox controller, and its own again.
func (s *stand) succession(watching context.Context) []proof {
	before := map[string]string{}
	return []proof{
		{"what the agent-sandbox controller v1.0 leaves is there, and its containers run", func(ctx context.Context) error {
			return s.inherit(ctx, watching, before)
		}},
		{"helm installs the chart over it, and takes the ownership of its objects", s.takeOwnership},
		{"what it left is Kiln's: not one process was started anew", func(ctx context.Context) error {
			return s.tenants[inherited].succeeds(ctx, before)
		}},
		{"what the first release has made is served again", func(ctx context.Context) error {
			return s.tenants[claiming].serve(ctx, "again")
		}},
	}
}

// inherit makes what the agent-sandbox controller leaves, and notes which processes run.
func (s *stand) inherit(ctx, watching context.Context, processes map[string]string) error {
	if err := s.create(ctx, home, incumbent); err != nil {
		return err
	}
	if err := s.runs(ctx, 1, func(string) error { return nil }); err != nil {
		return err
	}
	if err := s.admit(ctx, inherited, "baseline"); err != nil {
		return err
	}
	t, err := s.watch(watching, inherited)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(s.root, "test", "suite", "testdata", "takeover", "v1.0.yaml"))
	if err != nil {
		return err
	}
	// Its image is one that can run here.
	text = []byte(strings.ReplaceAll(string(text), "image: image", "image: "+imageOne))
	if err := world.Replay(ctx, s.dynamic, inherited, text, func(o *unstructured.Unstructured) error {
		return t.Wait(ctx, world.Seen(o))
	}); err != nil {
		return err
	}
	for name := range leftStates {
		if err := t.Wait(ctx, running(name)); err != nil {
			return err
		}
		if processes[name], err = t.who(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// running holds when a pod's containers are ready.
func running(pod string) world.Condition {
	return func(now *world.Snapshot) error {
		p := now.Pods[pod]
		if p == nil || len(p.Status.ContainerStatuses) == 0 || !p.Status.ContainerStatuses[0].Ready {
			return fmt.Errorf("pod %s does not run", pod)
		}
		return nil
	}
}

// takeOwnership installs the chart over objects that nobody made with helm.
func (s *stand) takeOwnership(ctx context.Context) error {
	deployments := s.clients.Core.AppsV1().Deployments(home)
	before, err := deployments.Get(ctx, deployment, metav1.GetOptions{})
	if err != nil {
		return err
	}
	// The steps that docs/operations.md has.
	if _, err := s.kubectl(ctx, "-n", home, "scale", "deployment", deployment, "--replicas=0"); err != nil {
		return err
	}
	if err := s.install(ctx, "--take-ownership", "--force-conflicts"); err != nil {
		return err
	}
	if _, err := s.kubectl(ctx, "delete", "clusterrolebinding,clusterrole", deployment+"-extensions", "--ignore-not-found"); err != nil {
		return err
	}
	after, err := deployments.Get(ctx, deployment, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if before.UID != after.UID || after.Annotations["meta.helm.sh/release-name"] != release {
		return fmt.Errorf("the Deployment was %s, and is %s of release %q", before.UID, after.UID, after.Annotations["meta.helm.sh/release-name"])
	}
	return s.runs(ctx, 2, func(string) error { return nil })
}

// succeeds shows that what was left is Kiln's, and serves a claim.
func (t *tenant) succeeds(ctx context.Context, processes map[string]string) error {
	taken := []world.Condition{world.Told("warm", "own")}
	for pod, state := range leftStates {
		taken = append(taken, world.PodHasState(pod, state))
	}
	if err := t.Wait(ctx, world.All(taken...)); err != nil {
		return err
	}
	if err := t.claim(ctx, "new", "p"); err != nil {
		return err
	}
	if err := t.Wait(ctx, world.All(world.Bound("new"), world.Full("p", 2))); err != nil {
		return err
	}
	if given := t.SandboxOf("new"); !slices.Contains([]string{"p-aaaaa", "p-bbbbb"}, given) {
		return fmt.Errorf("the new claim was given %s", given)
	}
	for pod, process := range processes {
		who, err := t.who(ctx, pod)
		if err != nil {
			return err
		}
		if who != process {
			return fmt.Errorf("in pod %s ran %q and runs %q", pod, process, who)
		}
	}
	return nil
}
