package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/world"
)

// The release and what it runs.
const (
	release    = "kiln"
	deployment = "kiln"
	patience   = "--timeout=3m" // of helm
)

// What an upgrade changes: a flag, and how long helm test waits for an answer.
const (
	flagValue = "controller.claimMaxWait=7s"
	flag      = "--claim-max-wait=7s"
	testValue = "test.timeoutSeconds=5"
)

// release runs helm, and returns when what it has changed is ready.
func (s *stand) release(ctx context.Context, verb string, args ...string) error {
	_, err := s.tool(ctx, s.helm, "", append([]string{verb, release}, append(args, "-n", home, "--wait", patience)...)...)
	return err
}

// install installs the chart as it is in the repository.
func (s *stand) install(ctx context.Context, args ...string) error {
	return s.release(ctx, "install", append([]string{"helm/kiln"}, args...)...)
}

// test has helm test ask the release for an answer, by the name of its Service.
func (s *stand) test(ctx context.Context) error {
	said, err := s.tool(ctx, s.helm, "", "test", release, "-n", home, "--logs", patience)
	if err == nil && !strings.Contains(said, ":8080/metrics answers") {
		err = fmt.Errorf("helm test says\n%s", said)
	}
	return err
}

// testsAbsence shows that helm test tells a release that works from one of which nothing runs.
func (s *stand) testsAbsence(ctx context.Context) error {
	if err := s.scale(ctx, 0); err != nil {
		return err
	}
	if err := s.answers(ctx, false); err != nil {
		return err
	}
	switch err := s.test(ctx); {
	case err == nil:
		return errors.New("helm test passes while nothing runs")
	case !strings.Contains(err.Error(), "connection refused"):
		return fmt.Errorf("helm test fails for another reason: %w", err)
	}
	if err := s.scale(ctx, 2); err != nil {
		return err
	}
	if err := s.answers(ctx, true); err != nil {
		return err
	}
	return s.test(ctx)
}

// answers returns when pods are connected to the release by its Service, or are refused. kube-proxy writes its rules
// a while after the endpoints have changed, and tells nobody when. Until then connections go to pods that are gone,
// and get no answer at all.
func (s *stand) answers(ctx context.Context, yes bool) error {
	service, err := s.clients.Core.CoreV1().Services(home).Get(ctx, deployment, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return s.tenants[claiming].asks(ctx, net.JoinHostPort(service.Spec.ClusterIP, "8080"), func(said string) bool { return (said != "refused") == yes })
}

// scale gives the Deployment a number of pods, and returns when it has just them.
func (s *stand) scale(ctx context.Context, replicas int) error {
	if _, err := s.kubectl(ctx, "-n", home, "scale", "deployment", deployment, fmt.Sprintf("--replicas=%d", replicas)); err != nil {
		return err
	}
	if replicas > 0 {
		return s.runs(ctx, replicas, func(string) error { return nil })
	}
	_, err := s.kubectl(ctx, "-n", home, "wait", "pod", "-l", "app="+deployment, "--for=delete", patience)
	return err
}

// installation shows that the chart needs no values, and no more rights than the strictest
// profile leaves it.
func (s *stand) installation(watching context.Context) []proof {
	return []proof{
		{"helm installs the chart where Pod Security \"restricted\" is enforced", func(ctx context.Context) error {
			if err := s.admit(ctx, home, "restricted"); err != nil {
				return err
			}
			if err := s.install(ctx); err != nil {
				return err
			}
			return s.runs(ctx, 2, func(string) error { return nil })
		}},
		{"helm test asks it by the name of its Service, and is answered", s.test},
		{"the namespace of the sandboxes enforces it, too", func(ctx context.Context) error {
			if err := s.admit(ctx, claiming, "restricted"); err != nil {
				return err
			}
			_, err := s.watch(watching, claiming)
			return err
		}},
	}
}

// runs checks that the release has a number of pods, all ready, with the arguments that it
// should have.
func (s *stand) runs(ctx context.Context, replicas int, judge func(args string) error) error {
	if _, err := s.kubectl(ctx, "-n", home, "rollout", "status", "deployment/"+deployment, patience); err != nil {
		return err
	}
	// A replica may be not ready for a moment.
	var args []string
	err := s.cluster.Await(ctx, appsv1.SchemeGroupVersion.WithResource("deployments"), home, deployment, cluster.Condition{
		What: fmt.Sprintf("one with %d pods that are ready", replicas),
		Met: func(o *unstructured.Unstructured) bool {
			var d appsv1.Deployment
			if o == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d) != nil {
				return false
			}
			args = d.Spec.Template.Spec.Containers[0].Args
			return int(d.Status.ReadyReplicas) == replicas && int(d.Status.UpdatedReplicas) == replicas && int(d.Status.Replicas) == replicas
		},
	})
	if err != nil {
		return err
	}
	return judge(strings.Join(args, " "))
}

// changes shows what becomes of sandboxes when the release changes, and goes.
func (s *stand) changes() []proof {
	t := s.tenants[claiming]
	return []proof{
		{"an upgrade changes a flag, and claim after claim is served meanwhile", func(ctx context.Context) error {
			err := t.serveWhile(ctx, "upgrade", func() error { return s.release(ctx, "upgrade", "helm/kiln", "--set", flagValue, "--set", testValue) })
			return errors.Join(err, s.runs(ctx, 2, func(args string) error {
				if !strings.Contains(args, flag) {
					return fmt.Errorf("it runs with %s", args)
				}
				return nil
			}))
		}},
		{"helm test fails while nothing of the release runs, and passes when it does", s.testsAbsence},
		{"a rollback takes it back, and claim after claim is served meanwhile", func(ctx context.Context) error {
			err := t.serveWhile(ctx, "rollback", func() error { return s.release(ctx, "rollback", "1") })
			return errors.Join(err, s.runs(ctx, 2, func(args string) error {
				if strings.Contains(args, flag) {
					return fmt.Errorf("it runs with %s", args)
				}
				return nil
			}))
		}},
		{"the release is uninstalled, and every sandbox runs on", func(ctx context.Context) error {
			if err := s.release(ctx, "uninstall"); err != nil {
				return err
			}
			_, err := s.kubectl(ctx, "-n", home, "wait", "pod", "-l", "app="+deployment, "--for=delete", patience)
			return err
		}},
	}
}

// serveWhile has one claim after the other served until something has been done, and at least
// one.
func (t *tenant) serveWhile(ctx context.Context, name string, do func() error) error {
	return t.meanwhile(ctx, name, t.serve, do)
}

// meanwhile is serveWhile for another way to be served.
func (t *tenant) meanwhile(ctx context.Context, name string, serve func(context.Context, string) error, do func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do() }()
	for i := 1; ; i++ {
		if err := serve(ctx, fmt.Sprintf("%s-%d", name, i)); err != nil {
			return err
		}
		select {
		case err := <-done:
			if err == nil {
				t.stand.remark = fmt.Sprintf(" (%d)", i)
			}
			return err
		default:
		}
	}
}

// serve makes a claim, and deletes it when it was served.
func (t *tenant) serve(ctx context.Context, claim string) error {
	if err := t.claim(ctx, claim, "warm"); err != nil {
		return err
	}
	if err := t.Wait(ctx, world.Bound(claim)); err != nil {
		return err
	}
	return t.give(ctx, claim)
}

// give deletes claims, and returns when they and all they had are gone.
func (t *tenant) give(ctx context.Context, claims ...string) error {
	var gone []world.Condition
	t.Look(func(now *world.Snapshot) {
		for _, claim := range claims {
			name := now.SandboxOf(claim)
			gone = append(gone, world.Deleted(now.Claims[claim]), world.Deleted(now.Sandboxes[name]), world.Deleted(now.Pods[name]))
		}
	})
	if _, err := t.kubectl(ctx, append([]string{"delete", "sandboxclaims", "--wait=false"}, claims...)...); err != nil {
		return err
	}
	return t.Wait(ctx, world.All(gone...))
}
