package suite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// What a Sandbox says, compared as a whole with what its users know.

// sandbox is a sandbox named s, as changed by with.
func sandbox(with ...func(*agents.Sandbox)) *agents.Sandbox {
	b := world.Sandbox("s")
	for _, change := range with {
		change(b)
	}
	return b
}

func withService(b *agents.Sandbox) { yes := true; b.Spec.Service = &yes }

func withPorts(b *agents.Sandbox) {
	b.Spec.PodTemplate.Spec = raw(`{"containers":[{"name":"main","image":"image","ports":[{"containerPort":80,"name":"http"},{"containerPort":53,"protocol":"UDP"}]}]}`)
}

func withVolume(b *agents.Sandbox) {
	b.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{
		ObjectMeta: agents.VolumeMetadata{Name: "data", Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "kept"}},
		Spec:       raw(`{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`),
	}}
}

func suspended(b *agents.Sandbox) { b.Spec.OperatingMode = agents.Suspended }

func until(end time.Time, policy agents.ShutdownPolicy) func(*agents.Sandbox) {
	return func(b *agents.Sandbox) { b.Spec.ShutdownTime, b.Spec.ShutdownPolicy = &metav1.Time{Time: end}, policy }
}

func raw(json string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(json)} }

// patch changes the spec of the sandbox s by a merge patch.
func patch(t *testing.T, w *kit.World, spec string) {
	t.Helper()
	w.PatchSandbox("s", spec)
}

// status is all that a sandbox says, a line for each condition in their order, but
// for times.
func status(b *agents.Sandbox) string {
	var text strings.Builder
	for _, c := range b.Status.Conditions {
		seen := ""
		if c.ObservedGeneration != b.Generation || c.LastTransitionTime.IsZero() {
			seen = " OLD"
		}
		fmt.Fprintf(&text, "%s %s %s: %s%s\n", c.Type, c.Status, c.Reason, c.Message, seen)
	}
	s := b.Status
	fmt.Fprintf(&text, "selector=%s service=%s fqdn=%s ips=%d node=%s", s.Selector, s.Service,
		strings.ReplaceAll(s.ServiceFQDN, b.Namespace, "NS"), len(s.PodIPs), s.NodeName)
	return text.String()
}

// says holds when all that the sandbox s says is this.
func says(want ...string) world.Condition {
	text := strings.Join(want, "\n")
	return func(s *world.Snapshot) error {
		b, ok := s.Sandboxes["s"]
		if !ok || status(b) != text {
			return fmt.Errorf("sandbox s says\n%s\nand should say\n%s", status(b), text)
		}
		return nil
	}
}

// What is said again and again.
const (
	notSuspended = "Suspended False NotSuspended: Sandbox is not suspended"
	scheduled    = "PodScheduled True PodScheduled: "
	isReady      = "Ready True DependenciesReady: Pod is Ready"
	selector     = "selector=agents.x-k8s.io/sandbox-name-hash=f60c4582"
	running      = selector + " service= fqdn= ips=1 node=node"
	noPod        = selector + " service= fqdn= ips=0 node="
	nothing      = "selector= service= fqdn= ips=0 node="
)

var plain = says(notSuspended, scheduled, isReady, running)

func TestWhatASandboxSays(t *testing.T) {
	for _, row := range []struct {
		name    string
		sandbox *agents.Sandbox
		before  func(*testing.T, *kit.World)
		after   func(*testing.T, *kit.World)
		want    []string
	}{
		{name: "when its pod is Ready", sandbox: sandbox(), want: []string{notSuspended, scheduled, isReady, running}},
		{name: "when its pod is Ready and it has a Service", sandbox: sandbox(withService), want: []string{
			notSuspended, scheduled, "Ready True DependenciesReady: Pod is Ready; Service Exists",
			selector + " service=s fqdn=s.NS.svc.cluster.local ips=1 node=node",
		}},
		{name: "when its pod is not Ready any more", sandbox: sandbox(), after: func(t *testing.T, w *kit.World) {
			w.Await(plain)
			w.Kubelet.SetReady("s", false)
		}, want: []string{notSuspended, scheduled, "Ready False DependenciesNotReady: Pod is Running but not Ready", running}},
		{name: "when its pod has succeeded", sandbox: sandbox(), after: func(t *testing.T, w *kit.World) {
			w.Await(plain)
			w.Kubelet.Succeed("s")
		}, want: []string{
			notSuspended, "Finished True PodSucceeded: Pod completed successfully", scheduled, "Ready False PodSucceeded: Pod completed successfully", running,
		}},
		{name: "when its pod has failed", sandbox: sandbox(), after: func(t *testing.T, w *kit.World) {
			w.Await(plain)
			w.Kubelet.Fail("s")
		}, want: []string{
			notSuspended, "Finished True PodFailed: Pod failed", scheduled, "Ready False PodFailed: Pod failed", running,
		}},
		{name: "when its pod terminates", sandbox: sandbox(), after: func(t *testing.T, w *kit.World) {
			w.Await(plain)
			w.Kubelet.Linger()
			w.Delete(w.Pods(), "s")
		}, want: []string{notSuspended, scheduled, "Ready False DependenciesNotReady: Pod is terminating", running}},
		{name: "when a pod of its name is somebody else's", sandbox: sandbox(), before: func(t *testing.T, w *kit.World) {
			ownPod(t, w, func(p *corev1.Pod) { p.OwnerReferences = by("other") })
		}, want: []string{
			notSuspended, "PodScheduled Unknown PodSchedulingUnknown: Pod state is unknown. Pod scheduling cannot be determined",
			`Ready False ReconcilerError: Error seen: pod "s" is owned by Sandbox other; delete it, or give the sandbox another name`, nothing,
		}},
		{name: "when several pods are its own", sandbox: sandbox(), after: func(t *testing.T, w *kit.World) {
			w.Await(plain)
			second(t, w)
		}, want: []string{
			notSuspended, "PodScheduled Unknown PodSchedulingUnknown: Pod state is unknown. Pod scheduling cannot be determined",
			"Ready False MultiplePods: multiple Pods (2) are controlled by this Sandbox; refusing to choose or create a Pod", noPod,
		}},
		{name: "when its pod will never be accepted", sandbox: sandbox(func(b *agents.Sandbox) {
			b.Spec.PodTemplate.Spec = raw(`{"containers":[{"name":"main","image":"image"}],"activeDeadlineSeconds":0}`)
		}), want: []string{
			notSuspended, "PodScheduled Unknown PodSchedulingUnknown: Pod state is unknown. Pod scheduling cannot be determined",
			`Ready False InvalidConfiguration: Error seen: Pod "s" is invalid: spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive`, nothing,
		}},
		{name: "when it is suspended", sandbox: sandbox(suspended), want: []string{
			"Suspended True PodTerminated: Pod has been terminated. Sandbox is suspended", "Ready False SandboxSuspended: Sandbox is suspended", nothing,
		}},
		{name: "when its pod lacks an address", sandbox: sandbox(), before: func(_ *testing.T, w *kit.World) { w.Kubelet.Withhold() }, after: func(t *testing.T, w *kit.World) {
			w.Await(kubeletSays("s", true))
			patch(t, w, `{"podTemplate":{"metadata":{"labels":{"told":"sooner"}}}}`)
		}, want: []string{notSuspended, scheduled, "Ready False DependenciesNotReady: Pod is Ready but has no podIPs yet", selector + " service= fqdn= ips=0 node=node"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			if row.before != nil {
				row.before(t, w)
			}
			w.Controller()
			w.Create(row.sandbox)
			if row.after != nil {
				row.after(t, w)
			}
			w.Await(says(row.want...))
		})
	}
}

// by is a controller that nobody has.
func by(name string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: agents.SchemeGroupVersion.String(), Kind: "Sandbox", Name: name, UID: "of-" + types.UID(name), Controller: &yes}}
}

// ownPod makes a pod named s that no controller of Kiln made.
func ownPod(t *testing.T, w *kit.World, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := world.Pod("s")
	pod.Labels = map[string]string{apply.LabelNameHash: apply.Hash("s")}
	change(pod)
	w.Collector.Pause()
	made, err := w.Pods().Create(w.Context(), pod, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return made
}

// second gives the sandbox s a second pod.
func second(t *testing.T, w *kit.World) *corev1.Pod {
	t.Helper()
	pod := world.Pod("s-2")
	pod.Labels = map[string]string{apply.LabelNameHash: apply.Hash("s")}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.Sandbox("s"), agents.SchemeGroupVersion.WithKind("Sandbox"))}
	made, err := w.Pods().Create(w.Context(), pod, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return made
}

func TestALaunchIsToldInOneStatusAndNothingIsWrittenToTheUsersSandbox(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(sandbox(withService, withVolume))
	w.Await(world.PodHasState("s", "bound"), world.SandboxSays("s", "DependenciesReady", "Pod is Ready; Service Exists"), c.Settled())
	var wrote []string
	for _, one := range c.Wire.Writes() {
		if one.Kind != "event" {
			wrote = append(wrote, one.Kind+" "+one.Verb)
		}
	}
	g := NewWithT(t)
	g.Expect(wrote).To(Equal([]string{
		"persistentvolumeclaim create", "pod create", "service create", "sandboxstatus report", "pod bound",
	}))
	b := w.Sandbox("s")
	g.Expect(b.Annotations).To(BeEmpty())
	g.Expect(b.Labels).To(BeEmpty())
}

func TestWhatIsInvalidIsNotTriedAgainUntilTheSandboxChanges(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(sandbox(func(b *agents.Sandbox) {
		b.Spec.PodTemplate.Spec = raw(`{"containers":[{"name":"main","image":"image"}],"activeDeadlineSeconds":0}`)
	}))
	w.Await(world.SandboxSays("s", "InvalidConfiguration", "activeDeadlineSeconds"))
	_, err := w.Sandboxes().Patch(w.Context(), "s", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	c.Stop()
	again := w.Controller() // nor does the next leader try
	w.Create(world.Template("t"))
	w.Await(again.Wrote("template", "label", 1), c.Settled())
	g.Expect(c.Wire.Count("pod", "create") + again.Wire.Count("pod", "create")).To(Equal(1))
	patch(t, w, `{"podTemplate":{"spec":{"activeDeadlineSeconds":null}}}`)
	w.Await(plain)
	g.Expect(again.Wire.Count("pod", "create")).To(Equal(1))
}

func TestAPodThatEndedIsLeftAloneAndOneThatVanishedComesBack(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(sandbox())
	w.Await(plain)
	first := w.Pod("s")
	w.Delete(w.Pods(), "s")
	w.Await(world.Deleted(first), plain, world.PodHasState("s", "bound"))
	w.Kubelet.Fail("s")
	w.Await(world.SandboxSays("s", "PodFailed", ""))
	failed := w.Pod("s")
	patch(t, w, `{"podTemplate":{"metadata":{"labels":{"a":"b"}}}}`)
	w.Await(func(s *world.Snapshot) error {
		if s.Pods["s"].Labels["a"] != "b" {
			return errWaits
		}
		return nil
	})
	NewWithT(t).Expect(w.Pod("s").UID).To(Equal(failed.UID))
	NewWithT(t).Expect(c.Wire.Count("pod", "create")).To(Equal(2))
}

func TestASandboxWithAServiceHasAShortName(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	g := NewWithT(t)
	for _, row := range []struct {
		length int
		with   func(*agents.Sandbox)
		ok     bool
	}{{63, withService, true}, {64, withService, false}, {64, func(*agents.Sandbox) {}, true}} {
		b := sandbox(row.with)
		b.Name = strings.Repeat("n", row.length)
		_, err := w.Sandboxes().Create(w.Context(), b, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if row.ok {
			g.Expect(err).NotTo(HaveOccurred())
		} else {
			g.Expect(err).To(MatchError(ContainSubstring("metadata.name must be at most 63 characters when spec.service is true")))
		}
	}
}
