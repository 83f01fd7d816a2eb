package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/world"
)

//go:embed testdata/pools.yaml
var pools string

//go:embed testdata/notebook.yaml
var notebook string

// claims shows what becomes of claims and sandboxes when nothing goes wrong.
func (s *stand) claims() []proof {
	t := s.tenants[claiming]
	return []proof{
		{"a pool is full of containers that run", t.fill},
		{"a warm claim gets one of them: kubectl exec finds the process of before", t.takeWarm},
		{"kubectl wait says that a claim is Ready, and a Service that selects its pod reaches it", t.reach},
		{"a claim on an empty pool gets a container of its own", t.takeCold},
		{"the NetworkPolicy of a template was there before each of its pods", t.fenced},
		{"another image in the template: the pool has its processes, claims keep theirs", t.rollOut},
		{"a sandbox is suspended and resumed, and what it wrote is on its volume", t.sleep},
		{"a claim whose time is over goes, with its container", t.expire},
	}
}

// fill makes the pools.
func (t *tenant) fill(ctx context.Context) error {
	if err := t.create(ctx, pools); err != nil {
		return err
	}
	return t.Wait(ctx, world.All(world.Full("warm", 2), world.Counted("warm", 2)))
}

func (t *tenant) takeWarm(ctx context.Context) error {
	before := map[string]string{}
	for _, member := range t.Members("warm") {
		who, err := t.who(ctx, member)
		if err != nil {
			return err
		}
		before[member] = who
	}
	if err := t.claim(ctx, "first", "warm"); err != nil {
		return err
	}
	if err := t.Wait(ctx, world.All(world.Bound("first"), world.Launched(apply.LaunchWarm, "first"))); err != nil {
		return err
	}
	pod := t.SandboxOf("first")
	who, err := t.who(ctx, pod)
	if err != nil {
		return err
	}
	if who != before[pod] {
		return fmt.Errorf("in %s runs %q; before the claim there were %v", pod, who, before)
	}
	return t.keep(ctx, "first")
}

// reach asks the pod of a claim through a Service that selects by the claim, as soon as the claim is Ready.
func (t *tenant) reach(ctx context.Context) error {
	const name = "reached"
	claim, err := t.stand.clients.Kiln.Claims(t.namespace).Create(ctx, world.Claim(name, "warm"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	service, err := t.stand.clients.Core.CoreV1().Services(t.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{apply.LabelClaimUID: string(claim.UID)},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err := t.kubectl(ctx, "wait", "--for=condition=Ready", "sandboxclaim/"+name, patience); err != nil {
		return err
	}
	begun := time.Now()
	// It is asked until it answers: kube-proxy writes its rules a while after the labels of a pod have changed.
	var answer string
	if err := t.asks(ctx, net.JoinHostPort(service.Spec.ClusterIP, "80"), func(said string) bool {
		answer = said
		return strings.HasPrefix(said, "version ")
	}); err != nil {
		return err
	}
	t.stand.remark = fmt.Sprintf(" (%d ms)", time.Since(begun).Milliseconds())
	if err := t.Wait(ctx, world.Bound(name)); err != nil {
		return err
	}
	who, err := t.who(ctx, t.SandboxOf(name))
	if err != nil {
		return err
	}
	if who != answer {
		return fmt.Errorf("the Service leads to %q, and the claim has %q", answer, who)
	}
	if err := t.reachable(); err != nil {
		return err
	}
	return t.give(ctx, name)
}

// reachable looks back: when a warm claim became Ready, its pod was marked as the claim's, and was no
// member of the pool any more.
func (t *tenant) reachable() error {
	pods, told := map[string]*corev1.Pod{}, map[types.UID]bool{}
	for _, c := range t.History() {
		switch o := c.Object.(type) {
		case *corev1.Pod:
			pods[o.Name] = o
		case *ext.SandboxClaim:
			if told[o.UID] || !meta.IsStatusConditionTrue(o.Status.Conditions, "Ready") {
				continue
			}
			told[o.UID] = true
			pod := pods[o.Status.SandboxStatus.Name]
			if pod == nil || pod.Labels[apply.LabelClaimUID] != string(o.UID) || pod.Labels[apply.LabelPool] != "" {
				return fmt.Errorf("claim %s was Ready when its pod %q was not marked as its own", o.Name, o.Status.SandboxStatus.Name)
			}
		}
	}
	return nil
}

func (t *tenant) takeCold(ctx context.Context) error {
	if err := t.claim(ctx, "own", "cold"); err != nil {
		return err
	}
	if err := t.Wait(ctx, world.All(world.Bound("own"), world.Launched(apply.LaunchCold, "own"))); err != nil {
		return err
	}
	return t.keep(ctx, "own")
}

// fenced looks back: one order holds for objects of all kinds.
func (t *tenant) fenced(context.Context) error {
	policies, pods := map[string]bool{}, 0
	for _, c := range t.History() {
		switch o := c.Object.(type) {
		case *networkingv1.NetworkPolicy:
			policies[o.Name] = !c.Deleted
		case *corev1.Pod:
			pods++
			if !policies[apply.PolicyName("box")] {
				return fmt.Errorf("when pod %s was there, there were the policies %v", o.Name, policies)
			}
		}
	}
	if pods == 0 {
		return errors.New("no pod was ever seen")
	}
	return nil
}

func (t *tenant) rollOut(ctx context.Context) error {
	if _, err := t.kubectl(ctx, "patch", "sandboxtemplate", "box", "--type=json",
		`--patch=[{"op":"replace","path":"/spec/podTemplate/spec/containers/0/image","value":"`+imageTwo+`"}]`); err != nil {
		return err
	}
	if err := t.Wait(ctx, world.All(world.Full("warm", 2), world.Counted("warm", 2), t.made("warm", imageTwo))); err != nil {
		return err
	}
	if err := t.claim(ctx, "second", "warm"); err != nil {
		return err
	}
	if err := t.Wait(ctx, world.All(world.Bound("second"), world.Launched(apply.LaunchWarm, "second"))); err != nil {
		return err
	}
	for claim, want := range map[string]string{"first": "1", "own": "1", "second": "2"} {
		who, err := t.who(ctx, t.SandboxOf(claim))
		if err != nil {
			return err
		}
		if version(who) != want {
			return fmt.Errorf("claim %s has %q, and should have version %s", claim, who, want)
		}
	}
	return t.keep(ctx, "second")
}

// made holds when every member of a pool is made from an image.
func (t *tenant) made(pool, image string) world.Condition {
	return func(now *world.Snapshot) error {
		for _, m := range now.Members(pool) {
			if p := now.Pods[m]; p == nil || p.Spec.Containers[0].Image != image {
				return fmt.Errorf("member %s is not made from %s", m, image)
			}
		}
		return nil
	}
}

// volume is what a sandbox writes to; there is nobody who makes volumes when they are needed.
const volume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: notebook}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: %s, type: Directory}
`

// sleep suspends a sandbox and resumes it.
func (t *tenant) sleep(ctx context.Context) error {
	if err := t.create(ctx, fmt.Sprintf(volume, t.stand.node.volume())+"---\n"+notebook); err != nil {
		return err
	}
	if err := t.Wait(ctx, world.SandboxSays("notebook", "DependenciesReady", "")); err != nil {
		return err
	}
	const note = "written before the night"
	if _, err := t.exec(ctx, "notebook", "write", "/work/note", note); err != nil {
		return err
	}
	before, err := t.who(ctx, "notebook")
	if err != nil {
		return err
	}
	awake := t.pod("notebook")
	if err := t.mode(ctx, "Suspended"); err != nil {
		return err
	}
	if err := t.Wait(ctx, world.All(world.Deleted(awake), world.SandboxSays("notebook", "SandboxSuspended", ""))); err != nil {
		return err
	}
	storage, err := t.stand.clients.Core.CoreV1().PersistentVolumeClaims(t.namespace).Get(ctx, "work-notebook", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if storage.Status.Phase != corev1.ClaimBound || storage.DeletionTimestamp != nil {
		return fmt.Errorf("while it is suspended, its storage is %+v", storage.Status)
	}
	if err := t.mode(ctx, "Running"); err != nil {
		return err
	}
	if err := t.Wait(ctx, world.SandboxSays("notebook", "DependenciesReady", "")); err != nil {
		return err
	}
	read, err := t.exec(ctx, "notebook", "read", "/work/note")
	if err != nil {
		return err
	}
	after, err := t.who(ctx, "notebook")
	if err != nil {
		return err
	}
	if read != note || after == before {
		return fmt.Errorf("it reads %q, and its process was %q and is %q", read, before, after)
	}
	return nil
}

func (t *tenant) mode(ctx context.Context, mode string) error {
	_, err := t.kubectl(ctx, "patch", "sandbox", "notebook", "--type=merge", `--patch={"spec":{"operatingMode":"`+mode+`"}}`)
	return err
}

// expire gives a claim that is served a time that is over.
func (t *tenant) expire(ctx context.Context) error {
	if err := t.claim(ctx, "brief", "warm"); err != nil {
		return err
	}
	if err := t.Wait(ctx, world.Bound("brief")); err != nil {
		return err
	}
	pod := t.pod(t.SandboxOf("brief"))
	var gone []world.Condition
	t.Look(func(now *world.Snapshot) {
		gone = []world.Condition{world.Deleted(now.Claims["brief"]), world.Deleted(now.Sandboxes[pod.Name]), world.Deleted(pod)}
	})
	if _, err := t.kubectl(ctx, "patch", "sandboxclaim", "brief", "--type=merge",
		`--patch={"spec":{"lifecycle":{"shutdownTime":"2025-01-01T00:00:00Z","shutdownPolicy":"Delete"}}}`); err != nil {
		return err
	}
	if err := t.Wait(ctx, world.All(gone...)); err != nil {
		return err
	}
	running, err := t.stand.node.ctr(ctx, "tasks", "list", "--quiet")
	if err != nil {
		return err
	}
	if id := container(pod); slices.Contains(lines(running), id) {
		return fmt.Errorf("pod %s is gone, and its container %s runs", pod.Name, id)
	}
	return t.Wait(ctx, world.Full("warm", 2))
}
