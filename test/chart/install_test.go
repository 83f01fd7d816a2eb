package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kiln-sandbox/kiln/crds"
	"github.com/kiln-sandbox/kiln/test/stage"
)

// A runtime runs what a simulated node does not: the one container of each pod of a hook,
// as the process that its image holds, with the token of the pod's account.
type runtime struct {
	mu sync.Mutex
	// elsewhere stands for the address of the Service, which only DNS knows.
	elsewhere string
	said      map[string]string // by the name of the pod's owner, or of the pod
}

func (r *runtime) redirect(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.elsewhere = to
}

// arguments are those of a pod's container.
func (r *runtime) arguments(pod *corev1.Pod) (args []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range pod.Spec.Containers[0].Args {
		if strings.HasPrefix(one, "http://") {
			one = r.elsewhere
		}
		args = append(args, one)
	}
	return args
}

// serve runs pods until ctx ends.
func (r *runtime) serve(ctx context.Context) error {
	pods := setup.core.CoreV1().Pods(stage.Home)
	events, err := pods.Watch(ctx, metav1.ListOptions{LabelSelector: "app!=" + stage.Account})
	if err != nil {
		return err
	}
	defer events.Stop()
	ran := map[types.UID]bool{}
	for e := range events.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok || pod.Status.Phase != corev1.PodRunning || ran[pod.UID] {
			continue
		}
		ran[pod.UID] = true
		if err := r.run(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

func (r *runtime) run(ctx context.Context, pod *corev1.Pod) error {
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default" // which admission would say, and it is off here
	}
	_, kubeconfig, err := setup.cluster.ServiceAccountConfig(ctx, pod.Namespace, account)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, setup.kiln, r.arguments(pod)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	said, err := command.CombinedOutput()
	phase, code := corev1.PodSucceeded, int32(0)
	if err != nil {
		phase, code = corev1.PodFailed, int32(command.ProcessState.ExitCode())
	}
	name := pod.Name
	if owner := metav1.GetControllerOf(pod); owner != nil {
		name = owner.Name
	}
	r.mu.Lock()
	r.said[name] += string(said)
	r.mu.Unlock()
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Completed"},
	}}}
	pod.ResourceVersion = ""
	_, err = setup.core.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

func (r *runtime) output(of string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said[of]
}

// start has the runtime serve until the test ends.
func start(t *testing.T) *runtime {
	t.Helper()
	r := &runtime{said: map[string]string{}}
	ctx, cancel := context.WithCancel(setup.ctx)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := r.serve(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("the runtime: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	return r
}

// tool runs helm or kubectl as the administrator, and returns what it said.
func tool(path string, args ...string) (string, error) {
	command := exec.CommandContext(setup.ctx, path, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+setup.cluster.KubeconfigPath, "HOME="+filepath.Join(setup.cluster.Dir, "home"))
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	err := command.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(append([]string{filepath.Base(path)}, args...), " "), err)
	}
	return said.String(), err
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// One release from its installation to its end, by the real helm.
func TestTheStoryOfARelease(t *testing.T) {
	g := NewWithT(t)
	definitions := dynamic.NewForConfigOrDie(setup.cluster.Config).Resource(crdResource)
	hooks := start(t)
	said, err := tool(setup.helm, "install", "kiln", at("helm", "kiln"), "-n", stage.Home, "--create-namespace")
	g.Expect(err).NotTo(HaveOccurred(), said+hooks.output("kiln-crds"))
	t.Run("the definitions are there, applied by the hook with no more than its rights", func(t *testing.T) {
		g := NewWithT(t)
		for _, name := range crds.Names() {
			_, err := definitions.Get(setup.ctx, name, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		_, err := setup.core.CoreV1().ServiceAccounts(stage.Home).Get(setup.ctx, "kiln-crds", metav1.GetOptions{})
		g.Expect(err).To(HaveOccurred(), "the hook leaves nothing behind that may change definitions")
	})
	t.Run("its pods are there", func(t *testing.T) {
		said, err := tool(setup.cluster.Kubectl, "-n", stage.Home, "rollout", "status", "deployment/kiln", "--timeout=60s")
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), said)
	})

	_, kubeconfig, err := setup.cluster.ServiceAccountConfig(setup.ctx, stage.Home, stage.Account)
	g.Expect(err).NotTo(HaveOccurred())
	kiln, err := stage.Kiln{Name: "installed", Binary: setup.kiln, Kubeconfig: kubeconfig}.Run(setup.ctx, setup.cluster)
	g.Expect(err).NotTo(HaveOccurred())
	defer kiln.Stop()
	t.Run("three commands are told, and they work with the controller that it runs", func(t *testing.T) { threeCommands(t, said) })
	t.Run("the claim that they make is served", func(t *testing.T) {
		NewWithT(t).Eventually(func() (string, error) {
			return tool(setup.cluster.Kubectl, "get", "sandboxclaim", "mine", "-o", "jsonpath={.status.state}")
		}, time.Minute, 50*time.Millisecond).Should(Equal("bound"))
	})
	hooks.redirect(kiln.Metrics)
	t.Run("helm test asks the controller", func(t *testing.T) {
		said, err := tool(setup.helm, "test", "kiln", "-n", stage.Home, "--timeout=60s")
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), said)
		NewWithT(t).Expect(hooks.output("kiln-answers")).To(ContainSubstring("answers"))
		hooks.redirect("nowhere") // which is no URL, so it ends at once
		said, err = tool(setup.helm, "test", "kiln", "-n", stage.Home, "--timeout=60s")
		NewWithT(t).Expect(err).To(HaveOccurred(), said)
	})
	t.Run("an upgrade mends the definitions", func(t *testing.T) {
		g := NewWithT(t)
		_, err := definitions.Patch(setup.ctx, crds.SandboxWarmPools, types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/spec/names/shortNames","value":["older"]}]`), metav1.PatchOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		said, err := tool(setup.helm, "upgrade", "kiln", at("helm", "kiln"), "-n", stage.Home, "--timeout=60s", "--set", "controller.zapLogLevel=debug")
		g.Expect(err).NotTo(HaveOccurred(), said)
		is, err := definitions.Get(setup.ctx, crds.SandboxWarmPools, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(fmt.Sprint(is.Object["spec"])).To(ContainSubstring("shortNames:[swp]"))
	})
	t.Run("a rollback leaves the definitions as they are", func(t *testing.T) {
		g := NewWithT(t)
		before, err := definitions.Get(setup.ctx, crds.SandboxWarmPools, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		said, err := tool(setup.helm, "rollback", "kiln", "-n", stage.Home, "--timeout=60s")
		g.Expect(err).NotTo(HaveOccurred(), said)
		after, err := definitions.Get(setup.ctx, crds.SandboxWarmPools, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(after.GetResourceVersion()).To(Equal(before.GetResourceVersion()))
		args, err := tool(setup.cluster.Kubectl, "-n", stage.Home, "get", "deployment", "kiln", "-o", "jsonpath={.spec.template.spec.containers[0].args}")
		g.Expect(err).NotTo(HaveOccurred(), args)
		g.Expect(args).NotTo(ContainSubstring("debug"), "the flags are those of the release before")
	})
	t.Run("definitions that keep v1alpha1 are refused, with the reason and what helps", func(t *testing.T) {
		refusesOlder(t, definitions, hooks)
	})
	t.Run("the release goes, and what users have stays", func(t *testing.T) {
		g := NewWithT(t)
		said, err := tool(setup.helm, "uninstall", "kiln", "-n", stage.Home)
		g.Expect(err).NotTo(HaveOccurred(), said)
		said, err = tool(setup.cluster.Kubectl, "get", "sandboxclaim,pod", "-o", "name")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(said).To(And(ContainSubstring("sandboxclaim.extensions.agents.x-k8s.io/mine"), ContainSubstring("pod/python-")))
		said, err = tool(setup.cluster.Kubectl, "get", "clusterrole,clusterrolebinding", "-o", "name")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(said).NotTo(ContainSubstring("/kiln"))
		said, err = tool(setup.cluster.Kubectl, "-n", stage.Home, "delete", "pod", "kiln-answers") // of the test that failed
		g.Expect(err).NotTo(HaveOccurred(), said)
	})
}

// threeCommands runs what NOTES.txt tells, all but the last command: nothing runs in these pods.
func threeCommands(t *testing.T, notes string) {
	g := NewWithT(t)
	commands := strings.Split(notes, "\nkubectl ")[1:]
	g.Expect(commands).To(HaveLen(4), notes)
	for _, c := range commands[:3] {
		said, err := tool("sh", "-c", setup.cluster.Kubectl+" "+c)
		g.Expect(err).NotTo(HaveOccurred(), said)
	}
	g.Expect(commands[3]).To(HavePrefix("-n default exec -it "))
	_, claim, _ := strings.Cut(commands[3], "$(kubectl ")
	claim, _, _ = strings.Cut(claim, ")")
	g.Eventually(func() (string, error) { return tool("sh", "-c", setup.cluster.Kubectl+" "+claim) }).Should(HavePrefix("python-"), "it is warm")
}

// refusesOlder upgrades over definitions under which v1alpha1 may be stored.
func refusesOlder(t *testing.T, definitions dynamic.ResourceInterface, hooks *runtime) {
	g := NewWithT(t)
	older := func(versions string) error {
		_, err := definitions.Patch(setup.ctx, crds.SandboxClaims, types.MergePatchType,
			[]byte(`{"status":{"storedVersions":`+versions+`}}`), metav1.PatchOptions{}, "status")
		return err
	}
	g.Expect(older(`["v1alpha1","v1beta1"]`)).To(Succeed())
	said, err := tool(setup.helm, "upgrade", "kiln", at("helm", "kiln"), "-n", stage.Home, "--timeout=60s")
	g.Expect(errors.Join(err, older(`["v1beta1"]`))).To(HaveOccurred(), said)
	g.Expect(said).To(ContainSubstring("pre-upgrade hooks failed"))
	g.Expect(hooks.output("kiln-crds")).To(And(
		ContainSubstring("sandboxclaims.extensions.agents.x-k8s.io: objects are stored as v1alpha1 and v1beta1"),
		ContainSubstring("kiln migrate --prune-stored-versions"), ContainSubstring("kubectl patch crd")))
	said, err = tool(setup.helm, "upgrade", "kiln", at("helm", "kiln"), "-n", stage.Home, "--timeout=60s")
	g.Expect(err).NotTo(HaveOccurred(), said)
}
