package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/crds/client"
	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/world"
)

const (
	namespace = metav1.NamespaceDefault
	pool      = "python" // of examples/quickstart.yaml
)

// A story is the demo in progress.
type story struct {
	*world.Recorder
	cluster *cluster.Cluster
	clients *client.Clients
	root    string
	metrics string
	bound   int // claims bound so far
	perWarm float64
}

// newStory starts Kiln, and the watches before anything is there to see.
func newStory(ctx context.Context, c *cluster.Cluster) (*story, error) {
	s := &story{Recorder: world.NewRecorder(), cluster: c}
	var err error
	if s.root, err = cluster.Root(); err != nil {
		return nil, err
	}
	if s.metrics, err = startKiln(ctx, c, s.root); err != nil {
		return nil, err
	}
	h, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return nil, err
	}
	if s.clients, err = client.New(c.Config, h); err != nil {
		return nil, err
	}
	core, err := kubernetes.NewForConfigAndClient(c.Config, h)
	if err != nil {
		return nil, err
	}
	_, err = s.Watch(ctx, world.Clients{Core: core, Kiln: s.clients}, namespace)
	return s, err
}

// waitTimeout bounds every wait of the story.
const waitTimeout = time.Minute

// await returns when all conditions hold at once, or says in the end what is
// missing and how things stand.
func (s *story) await(ctx context.Context, conditions ...world.Condition) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTimeout, fmt.Errorf("after %s", waitTimeout))
	defer cancel()
	return s.Wait(ctx, world.All(conditions...))
}

// tell plays the chapters in order and returns the last line.
func (s *story) tell(ctx context.Context) (string, error) {
	for _, chapter := range []func(context.Context) error{s.fill, s.claim, s.release, s.coldStart, s.verdict} {
		if err := chapter(ctx); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("demo: %d/4 claims bound, 0 conflicts, %.3g writes per claim", s.bound, s.perWarm), nil
}

// verdict looks at the whole run once more.
func (s *story) verdict(ctx context.Context) error {
	if err := s.legal(); err != nil {
		return err
	}
	all, err := s.counted(ctx)
	if err != nil {
		return err
	}
	conflicts, missing := all.Sum(world.Result("lost")), all.Sum(world.Result("gone"))
	fmt.Printf("\nIn the whole run: %d writes, %d conflicts, %d not found.\n", all.Sum(everything), conflicts, missing)
	if conflicts+missing > 0 {
		return fmt.Errorf("%d conflicts and %d not found, where both must be 0", conflicts, missing)
	}
	return nil
}

// create makes a claim and returns when that began.
func (s *story) create(ctx context.Context, name, from string) (time.Time, error) {
	begun := time.Now()
	_, err := s.clients.Claims(namespace).Create(ctx, &extensions.SandboxClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       extensions.SandboxClaimSpec{WarmPoolRef: extensions.WarmPoolRef{Name: from}},
	}, metav1.CreateOptions{})
	return begun, err
}

// kubectl shows a command and runs it, as a reader would type it.
func (s *story) kubectl(ctx context.Context, args ...string) error {
	fmt.Printf("\n$ kubectl %s\n", strings.Join(args, " "))
	command := exec.CommandContext(ctx, s.cluster.Kubectl, args...)
	command.Dir = s.root
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	// The home directory is not the user's: kubectl keeps settings and a cache there.
	command.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.KubeconfigPath, "HOME="+filepath.Join(s.cluster.Dir, "home"))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to handle
	if err := command.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}
