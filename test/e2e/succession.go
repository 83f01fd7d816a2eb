package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/crds"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/world"
)

// incumbent is the release of the agent-sandbox controller, and the Deployment in it.
const (
	incumbent           = "agent-sandbox"
	incumbentDeployment = "agent-sandbox-controller"
)

// What the agent-sandbox controller leaves, and what Kiln makes of it: a pool p with two free
// members, a claim that was given a third, and one that started cold.
var leftStates = map[string]states.State{
	"p-aaaaa": states.Ready, "p-bbbbb": states.Ready, "p-ccccc": states.Bound, "own": states.Bound,
}

// succession shows that Kiln takes the place of the agent-sandbox controller and gives it back, as
// docs/operations.md has the steps. The two are releases of helm, and are never installed one over
// the other.
func (s *stand) succession(watching context.Context) []proof {
	before, t := map[string]string{}, s.tenants[claiming]
	return []proof{
		{"what the agent-sandbox controller v1.0 leaves is there, and its containers run", func(ctx context.Context) error {
			return s.inherit(ctx, watching, before)
		}},
		{"helm installs that controller, and it serves a claim", func(ctx context.Context) error {
			return errors.Join(s.installIncumbent(ctx), t.served(ctx, "theirs"))
		}},
		{"helm installs Kiln beside it; Kiln stands by", func(ctx context.Context) error {
			return s.beside(ctx, incumbentDeployment, func() error { return s.install(ctx) })
		}},
		{"that release is uninstalled, Kiln leads, and claim after claim is served meanwhile", func(ctx context.Context) error {
			return s.switches(ctx, "switch", incumbent, deployment)
		}},
		{"what it left is Kiln's: not one process was started anew", func(ctx context.Context) error {
			return s.tenants[inherited].succeeds(ctx, before)
		}},
		{"what the first release has made is served again", func(ctx context.Context) error {
			return errors.Join(t.serve(ctx, "again"), s.intact(ctx))
		}},
		{"helm installs that controller beside Kiln; it stands by", func(ctx context.Context) error {
			return s.beside(ctx, deployment, func() error { return s.installIncumbent(ctx, "controller.extraArgs={--release=false}") })
		}},
		{"Kiln is uninstalled, it leads, and claim after claim is served meanwhile", func(ctx context.Context) error {
			return s.switches(ctx, "back", release, incumbentDeployment)
		}},
		{"and back once more, although it does not release the lease", func(ctx context.Context) error {
			if err := s.beside(ctx, incumbentDeployment, func() error { return s.install(ctx) }); err != nil {
				return err
			}
			return s.switches(ctx, "once-more", incumbent, deployment)
		}},
		{"beside one without leader election Kiln does not work, and works when that one is gone", s.yields},
	}
}

// helmed runs helm for a release of the agent-sandbox controller.
func (s *stand) helmed(ctx context.Context, verb string, args ...string) error {
	_, err := s.tool(ctx, s.helm, "", append([]string{verb, incumbent}, append(args, "-n", home, "--wait", patience)...)...)
	return err
}

// installIncumbent installs the agent-sandbox controller with its chart. The namespace is there
// already, and is none of the release's.
func (s *stand) installIncumbent(ctx context.Context, values ...string) error {
	chart := filepath.Join(s.cluster.Dir, "incumbent")
	if err := os.CopyFS(chart, os.DirFS(filepath.Join(s.root, "test", "e2e", "testdata", "incumbent"))); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	// That chart has the definitions in the directory whose contents helm makes once, and never deletes.
	definitions := slices.Concat(crds.Manifests()...)
	if err := errors.Join(os.MkdirAll(filepath.Join(chart, "crds"), 0o755), os.WriteFile(filepath.Join(chart, "crds", "all.yaml"), definitions, 0o644)); err != nil {
		return err
	}
	args := []string{chart, "--set", "namespace.create=false"}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return s.helmed(ctx, "install", args...)
}

// beside does something while a controller leads, and shows that the controller leads on.
func (s *stand) beside(ctx context.Context, leads string, do func() error) error {
	before, err := s.holder(ctx, func(holder string) bool { return strings.HasPrefix(holder, leads+"-") })
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	after, err := s.holder(ctx, func(string) bool { return true })
	if err == nil && after != before {
		err = fmt.Errorf("the lease was held by %s and is held by %s", before, after)
	}
	return err
}

// switches uninstalls the release of the controller that leads while claims come, and shows that
// another one leads then.
func (s *stand) switches(ctx context.Context, name, uninstalled, leads string) error {
	t := s.tenants[claiming]
	before, err := s.holder(ctx, func(holder string) bool { return holder != "" })
	if err != nil {
		return err
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := make(chan time.Time, 1)
	go func() {
		host, _, _ := strings.Cut(before, "_")
		if s.cluster.Await(watching, corev1.SchemeGroupVersion.WithResource("pods"), home, host, cluster.Gone) == nil {
			gone <- time.Now()
		}
	}()
	var led time.Time
	next := make(chan error, 1)
	go func() {
		_, err := s.holder(watching, func(holder string) bool { return strings.HasPrefix(holder, leads+"-") })
		led = time.Now()
		next <- err
	}()
	err = t.meanwhile(ctx, name, t.served, func() error {
		if _, err := s.tool(ctx, s.helm, "", "uninstall", uninstalled, "-n", home, "--wait", patience); err != nil {
			return err
		}
		return <-next
	})
	if err != nil {
		return err
	}
	if err := t.served(ctx, name+"-after"); err != nil {
		return err
	}
	select {
	case at := <-gone:
		s.remark += fmt.Sprintf(", %.1fs after the end of its pod", max(0, led.Sub(at).Seconds()))
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the pod of %s is still there: %w", before, context.Cause(ctx))
	}
}

// intact shows that what the agent-sandbox controller's release has left when it was uninstalled is all
// that Kiln needs: its own objects, and the definitions.
func (s *stand) intact(ctx context.Context) error {
	if _, err := s.kubectl(ctx, "-n", home, "get", "deployment/"+deployment, "service/"+deployment, "serviceaccount/"+deployment, "poddisruptionbudget/"+deployment); err != nil {
		return err
	}
	_, err := s.kubectl(ctx, append([]string{"get", "crd"}, crds.Names()...)...)
	return errors.Join(err, s.test(ctx))
}

// yields shows that Kiln does not write beside a controller that holds no lease.
func (s *stand) yields(ctx context.Context) error {
	t := s.tenants[claiming]
	before, err := s.holder(ctx, func(holder string) bool { return strings.HasPrefix(holder, deployment+"-") })
	if err != nil {
		return err
	}
	if err := s.installIncumbent(ctx, "controller.leaderElect=false"); err != nil {
		return err
	}
	if err := t.served(ctx, "unelected"); err != nil {
		return err
	}
	if err := s.helmed(ctx, "uninstall"); err != nil {
		return err
	}
	// Whoever led has ended, and the next one is another process.
	if _, err := s.holder(ctx, func(holder string) bool { return holder != before && strings.HasPrefix(holder, deployment+"-") }); err != nil {
		return err
	}
	return t.serve(ctx, "elected")
}

// served is serve for claims that any controller may have served.
func (t *tenant) served(ctx context.Context, claim string) error {
	if err := t.claim(ctx, claim, "warm"); err != nil {
		return err
	}
	if err := t.Wait(ctx, usable(claim)); err != nil {
		return err
	}
	return t.give(ctx, claim)
}

// usable holds when a claim is Ready and the pod that it was told of is its own.
func usable(claim string) world.Condition {
	return func(now *world.Snapshot) error {
		c, pod := now.Claims[claim], now.Pods[now.SandboxOf(claim)]
		if c == nil || !meta.IsStatusConditionTrue(c.Status.Conditions, "Ready") {
			return fmt.Errorf("claim %s is not Ready", claim)
		}
		if pod == nil || pod.Labels[apply.LabelClaimUID] != string(c.UID) || !world.IsReady(pod) {
			return fmt.Errorf("the pod %q of claim %s does not name it, or is not Ready", now.SandboxOf(claim), claim)
		}
		return nil
	}
}

// inherit makes what the agent-sandbox controller leaves, and notes which processes run.
func (s *stand) inherit(ctx, watching context.Context, processes map[string]string) error {
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
