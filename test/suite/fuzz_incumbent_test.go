package suite

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A predecessor is the agent-sandbox controller v1.0 as the API server meets it: what it
// writes, by creates and merge patches of its own managers. It works in a namespace
// while no Kiln does, on its own objects and on those that Kiln has left.
type predecessor struct {
	f *fuzz
	w *kit.World
}

// reigns has the incumbent do a few things of those that its loops would do by now. It
// begins when it has seen what Kiln wrote last.
func (i predecessor) reigns() {
	i.w.CatchUp()
	for range 1 + i.f.rnd.IntN(4) {
		switch i.f.rnd.IntN(6) {
		case 0, 1:
			i.refill(i.f.pool())
		case 2, 3:
			i.serve()
		case 4:
			i.expire()
		default:
			i.rest()
		}
	}
	i.report()
}

// settles has the incumbent leave a world in which it has worked for long: pools with
// members, claims that have theirs, and one whose time is over.
func (i predecessor) settles() {
	i.protect()
	for _, pool := range slices.Sorted(maps.Keys(i.f.sizes)) {
		for range i.f.sizes[pool] {
			i.refill(pool)
		}
	}
	for range 2 + i.f.rnd.IntN(2) {
		i.f.claim()
		i.serve()
		if i.f.rnd.IntN(2) == 0 {
			i.refill(i.f.pool())
		}
	}
	if i.f.rnd.IntN(2) == 0 {
		i.expire()
	}
	i.report()
}

// protect makes the NetworkPolicy of the template, as the incumbent does: the template
// is its owner.
func (i predecessor) protect() {
	t := i.template()
	i.patch(t, "", `{"metadata":{"labels":{%q:%q}}}`, apply.LabelTemplate, apply.Hash(t.Name))
	p := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: apply.PolicyName(t.Name)},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{apply.LabelTemplate: apply.Hash(t.Name)}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Egress: []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{
				{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"}}},
			}}},
		},
	}
	i.own(p, t, ext.KindTemplate, ext.SchemeGroupVersion.Group)
	if _, err := i.w.Policies().Create(i.w.Context(), p, i.creates()); err != nil && !apierrors.IsAlreadyExists(err) {
		i.f.t.Fatal(err)
	}
}

// oldest says whether an object is of the days of v1alpha1.
func (i predecessor) oldest() bool { return i.f.rnd.IntN(3) == 0 }

// refill makes a member of a pool that has room for one.
func (i predecessor) refill(name string) {
	pool := i.w.Pool(name)
	var members int
	i.w.Recorder.Look(func(s *world.Snapshot) { members = len(s.Members(name)) })
	if pool.DeletionTimestamp != nil || members > int(i.f.sizes[name]) { // one more than it should have is the next one's to scale down
		return
	}
	i.f.made++
	t := i.template()
	b := &agents.Sandbox{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d%05d", name, i.f.seed, i.f.made),
			Labels: map[string]string{
				apply.LabelPool: apply.Hash(name), apply.LabelTemplate: apply.Hash(t.Name), apply.LabelLaunch: apply.LaunchWarm,
				apply.LabelBlueprintHash: "0f6a2b9d", apply.LabelPodTemplateHash: "5d3b7c1e", apply.LabelCreatedBy: "controller",
			},
			Annotations: map[string]string{apply.AnnotationTemplate: t.Name},
		},
		Spec: agents.SandboxSpec{PodTemplate: i.podTemplate(t)},
	}
	maps.Copy(b.Spec.PodTemplate.ObjectMeta.Labels, keysOf(b.Labels, apply.LabelPool, apply.LabelBlueprintHash, apply.LabelPodTemplateHash, apply.LabelCreatedBy))
	b.Spec.PodTemplate.ObjectMeta.Annotations = map[string]string{apply.AnnotationSafeToEvict: "true"}
	if i.own(b, pool, ext.KindPool, ext.SchemeGroupVersion.Group) {
		delete(b.Labels, apply.LabelLaunch)
	}
	if i.make(b) {
		i.f.note(nil, "a: the incumbent makes %s", b.Name)
	}
}

// serve gives a claim that waits a free member of its pool, or a sandbox of its own.
func (i predecessor) serve() {
	c, _ := pick(i.f, i.f.all(i.w, func(o metav1.Object) bool {
		c, ok := o.(*ext.SandboxClaim)
		return ok && slices.Contains(i.f.claims, c.Name) && c.Status.SandboxStatus.Name == "" && c.Status.State != ext.StateStale && c.DeletionTimestamp == nil
	})).(*ext.SandboxClaim)
	if c == nil {
		return
	}
	var free []string
	i.w.Recorder.Look(func(s *world.Snapshot) {
		for _, name := range s.Members(c.Spec.WarmPoolRef.Name) {
			b, pod := s.Sandboxes[name], s.Pods[name]
			if b.Labels[apply.LabelPool] != "" && b.DeletionTimestamp == nil && b.Spec.OperatingMode != agents.Suspended && mine(pod, b) && world.IsReady(pod) {
				free = append(free, name)
			}
		}
	})
	if len(free) > 0 {
		i.adopt(c, i.w.Sandbox(free[i.f.rnd.IntN(len(free))]))
	} else {
		i.launch(c)
	}
}

// mine reports whether a pod is there, a sandbox's, and stays.
func mine(pod *corev1.Pod, of *agents.Sandbox) bool {
	return pod != nil && metav1.IsControlledBy(pod, of) && pod.DeletionTimestamp == nil
}

// adopt gives a member to a claim: the claim is annotated, and then the sandbox, its pod
// and the claim's status are patched.
func (i predecessor) adopt(c *ext.SandboxClaim, b *agents.Sandbox) {
	i.patch(c, "", `{"metadata":{"annotations":{%q:"2026-11-01T10:00:00.1Z",%q:%q}}}`, apply.AnnotationFirstObserved, apply.AnnotationSandboxName, b.Name)
	owner := *b.DeepCopy()
	i.own(&owner, c, ext.KindClaim, ext.SchemeGroupVersion.Group)
	gone := fmt.Sprintf(`%q:null,%q:null,%q:null`, apply.LabelPool, apply.LabelBlueprintHash, apply.LabelPodTemplateHash)
	i.patch(b, "", `{"metadata":{"labels":{%s,%q:%q,%q:null,%q:"warm"},"annotations":{%q:%q},"ownerReferences":%s},
		"spec":{"podTemplate":{"metadata":{"labels":{%s,%q:%q,%q:null},"annotations":{%q:null}}}}}`,
		gone, apply.LabelClaimUID, c.UID, apply.LabelCreatedBy, apply.LabelLaunch, apply.AnnotationPodName, b.Name, text(i.f, owner.OwnerReferences),
		gone, apply.LabelClaimUID, c.UID, apply.LabelCreatedBy, apply.AnnotationSafeToEvict)
	i.patch(i.w.Pod(b.Name), "", `{"metadata":{"labels":{%q:null,%q:null},"annotations":{%q:null}}}`, apply.LabelPool, apply.LabelCreatedBy, apply.AnnotationSafeToEvict)
	i.tell(c, b.Name)
	i.f.note(nil, "a: the incumbent gives %s to claim %s", b.Name, c.Name)
}

// launch makes a claim a sandbox of its own, unless something has its name.
func (i predecessor) launch(c *ext.SandboxClaim) {
	var taken *agents.Sandbox
	i.w.Recorder.Look(func(s *world.Snapshot) { taken = s.Sandboxes[c.Name] })
	if taken != nil {
		return
	}
	t := i.template()
	b := &agents.Sandbox{
		ObjectMeta: metav1.ObjectMeta{
			Name:        c.Name,
			Labels:      map[string]string{apply.LabelClaimUID: string(c.UID), apply.LabelTemplate: apply.Hash(t.Name), apply.LabelLaunch: apply.LaunchCold},
			Annotations: map[string]string{apply.AnnotationTemplate: t.Name},
		},
		Spec: agents.SandboxSpec{PodTemplate: i.podTemplate(t)},
	}
	b.Spec.PodTemplate.ObjectMeta.Labels[apply.LabelClaimUID] = string(c.UID)
	if i.own(b, c, ext.KindClaim, ext.SchemeGroupVersion.Group) { // in those days the assignment was a label
		delete(b.Labels, apply.LabelLaunch)
		i.patch(c, "", `{"metadata":{"labels":{%q:%q}}}`, apply.AnnotationSandboxName, c.Name)
	}
	if i.make(b) {
		i.tell(c, b.Name)
		i.f.note(nil, "a: the incumbent makes claim %s a sandbox", c.Name)
	}
}

// tell has a claim's status say that it has a sandbox, which is Ready.
func (i predecessor) tell(c *ext.SandboxClaim, name string) {
	i.patch(c, "status", `{"status":{"conditions":[%s],"sandbox":{"name":%q,"podIPs":%s}}}`,
		i.says(c, "Ready", "True", "DependenciesReady", "Pod is Ready"), name, text(i.f, ipsOf(i.w.Pod(name))))
	if i.f.rnd.IntN(4) > 0 { // or it is stopped before
		i.patch(c, "", `{"metadata":{"annotations":{%q:"2026-11-01T10:00:00.2Z"}}}`, apply.AnnotationFirstReady)
	}
	i.f.told[c.UID] = name
}

// expire ends a claim that is retained, with its sandbox.
func (i predecessor) expire() {
	c, _ := pick(i.f, i.f.all(i.w, func(o metav1.Object) bool {
		return world.KindOf(o) == "claim" && slices.Contains(i.f.claims, o.GetName())
	})).(*ext.SandboxClaim)
	if c == nil || c.DeletionTimestamp != nil {
		return
	}
	i.f.claims = slices.DeleteFunc(i.f.claims, func(name string) bool { return name == c.Name })
	i.f.ended = append(i.f.ended, c.Name)
	i.w.PatchClaim(c.Name, `{"lifecycle":{"shutdownTime":"2026-11-01T12:00:00Z","shutdownPolicy":"Retain"}}`)
	c = i.w.Claim(c.Name)
	i.patch(c, "status", `{"status":{"conditions":[%s]}}`, i.says(c, "Ready", "False", "ClaimExpired", "Claim expired. Sandbox cleanup initiated."))
	if i.f.rnd.IntN(3) > 0 { // or it is stopped before
		if name := c.Status.SandboxStatus.Name; name != "" {
			i.w.Delete(i.w.Sandboxes(), name)
		}
		i.patch(c, "status", `{"status":{"sandbox":null}}`)
	}
	i.f.note(nil, "a: the incumbent ends claim %s", c.Name)
}

// rest takes the pod of a sandbox that is suspended.
func (i predecessor) rest() {
	b, _ := pick(i.f, i.f.all(i.w, func(o metav1.Object) bool {
		b, ok := o.(*agents.Sandbox)
		return ok && b.Spec.OperatingMode == agents.Suspended && b.DeletionTimestamp == nil && !strings.HasPrefix(b.Name, stranged)
	})).(*agents.Sandbox)
	if b == nil {
		return
	}
	var pod *corev1.Pod
	i.w.Recorder.Look(func(s *world.Snapshot) { pod = s.Pods[b.Name] })
	if !mine(pod, b) {
		return
	}
	i.w.Delete(i.w.Pods(), pod.Name)
	i.w.Await(world.Deleted(pod))
	i.patch(b, "", `{"metadata":{"annotations":{%q:null}}}`, apply.AnnotationPodName)
	i.patch(b, "status", `{"status":{"conditions":[%s,%s],"podIPs":null,"nodeName":null}}`,
		i.says(b, "Suspended", "True", "PodTerminated", "Pod has been terminated. Sandbox is suspended"),
		i.says(b, "Ready", "False", "SandboxSuspended", "Sandbox is suspended"))
	i.f.note(nil, "a: the incumbent suspends %s", b.Name)
}

// report has the pools say what they have.
func (i predecessor) report() {
	for _, name := range slices.Sorted(maps.Keys(i.f.sizes)) {
		var n int
		i.w.Recorder.Look(func(s *world.Snapshot) { n = len(s.Members(name)) })
		p := i.w.Pool(name)
		i.patch(p, "status", `{"status":{"replicas":%d,"readyReplicas":%d,"selector":"%s=%s","observedGeneration":%d}}`,
			n, n, apply.LabelPool, apply.Hash(name), p.Generation)
	}
}

// make makes a sandbox and its pod, and has the sandbox say that it is Ready. It reports
// false if Kiln was first, by a write that was under way when it stopped.
func (i predecessor) make(b *agents.Sandbox) bool {
	made, err := i.w.Sandboxes().Create(i.w.Context(), b, i.creates())
	if apierrors.IsAlreadyExists(err) {
		return false
	}
	if err != nil {
		i.f.t.Fatal(err)
	}
	i.w.Await(world.Seen(made))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name:        b.Name,
		Labels:      keysOf(b.Labels, apply.LabelPool, apply.LabelTemplate, apply.LabelCreatedBy),
		Annotations: keysOf(b.Spec.PodTemplate.ObjectMeta.Annotations, apply.AnnotationSafeToEvict),
	}}
	pod.Labels[apply.LabelNameHash] = apply.Hash(b.Name)
	if len(pod.Annotations) > 0 {
		pod.Annotations[apply.AnnotationAnnotations] = apply.AnnotationSafeToEvict
	}
	i.own(pod, made, agents.KindSandbox, agents.SchemeGroupVersion.Group)
	if err := json.Unmarshal(b.Spec.PodTemplate.Spec.Raw, &pod.Spec); err != nil {
		i.f.t.Fatal(err)
	}
	up, err := i.w.Pods().Create(i.w.Context(), pod, metav1.CreateOptions{FieldManager: "sandbox-controller"})
	if err != nil {
		i.f.t.Fatal(err)
	}
	i.w.Await(world.Seen(up), isUp(pod.Name))
	i.patch(made, "", `{"metadata":{"annotations":{%q:%q}}}`, apply.AnnotationPodName, b.Name)
	i.patch(made, "status", `{"status":{"conditions":[%s,%s,%s],"selector":"%s=%s","podIPs":%s,"nodeName":"node"}}`,
		i.says(made, "Suspended", "False", "NotSuspended", "Sandbox is not suspended"),
		i.says(made, "PodScheduled", "True", "PodScheduled", ""),
		i.says(made, "Ready", "True", "DependenciesReady", "Pod is Ready"),
		apply.LabelNameHash, apply.Hash(b.Name), text(i.f, ipsOf(i.w.Pod(b.Name))))
	return true
}

// podTemplate is what the template says, with what the incumbent adds.
func (i predecessor) podTemplate(t *ext.SandboxTemplate) agents.PodTemplate {
	var spec corev1.PodSpec
	if err := json.Unmarshal(t.Spec.PodTemplate.Spec.Raw, &spec); err != nil {
		i.f.t.Fatal(err)
	}
	spec.AutomountServiceAccountToken = new(bool)
	spec.DNSPolicy, spec.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"8.8.8.8", "1.1.1.1"}}
	return agents.PodTemplate{
		ObjectMeta: agents.PodMetadata{Labels: map[string]string{apply.LabelTemplate: apply.Hash(t.Name)}},
		Spec:       runtime.RawExtension{Raw: []byte(text(i.f, spec))},
	}
}

// own makes something the controller of an object. Of the oldest objects the reference
// says v1alpha1.
func (i predecessor) own(o, owner metav1.Object, kind, group string) (oldest bool) {
	yes, oldest, version := true, i.oldest(), "v1beta1"
	if oldest {
		version = "v1alpha1"
	}
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: group + "/" + version, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes,
	}})
	return oldest
}

func (i predecessor) template() (t *ext.SandboxTemplate) {
	i.w.Recorder.Look(func(s *world.Snapshot) { t = s.Templates["t"] })
	return t
}

// says is a condition.
func (i predecessor) says(of metav1.Object, kind, status, reason, message string) string {
	return text(i.f, metav1.Condition{
		Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message,
		ObservedGeneration: of.GetGeneration(), LastTransitionTime: metav1.Now(),
	})
}

func (i predecessor) creates() metav1.CreateOptions {
	return metav1.CreateOptions{FieldManager: incumbentName}
}

const incumbentName = "agent-sandbox-controller"

// patch is a merge patch without a lock, as the incumbent's are. What is gone by then
// was deleted by a user.
func (i predecessor) patch(o metav1.Object, subresource, format string, args ...any) {
	body, by := fmt.Appendf(nil, format, args...), metav1.PatchOptions{FieldManager: incumbentName}
	var path []string
	if subresource != "" {
		path = []string{subresource}
	}
	var patched metav1.Object
	var err error
	switch name := o.GetName(); world.KindOf(o) {
	case "claim":
		patched, err = i.w.Claims().Patch(i.w.Context(), name, types.MergePatchType, body, by, path...)
	case "pool":
		patched, err = i.w.Pools().Patch(i.w.Context(), name, types.MergePatchType, body, by, path...)
	case "template":
		patched, err = i.w.Templates().Patch(i.w.Context(), name, types.MergePatchType, body, by, path...)
	case "sandbox":
		patched, err = i.w.Sandboxes().Patch(i.w.Context(), name, types.MergePatchType, body, by, path...)
	case "pod":
		patched, err = i.w.Pods().Patch(i.w.Context(), name, types.MergePatchType, body, by, path...)
	}
	switch {
	case err == nil:
		i.w.Await(world.Seen(patched))
	case !apierrors.IsNotFound(err):
		i.f.t.Fatalf("%s: %v", body, err)
	}
}

// text is JSON.
func text(f *fuzz, o any) string {
	raw, err := json.Marshal(o)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(raw)
}

// keysOf are the entries of a map that have these keys.
func keysOf(all map[string]string, keys ...string) map[string]string {
	kept := map[string]string{}
	for _, k := range keys {
		if v, has := all[k]; has {
			kept[k] = v
		}
	}
	return kept
}

// inherits checks what the incumbent had told claims: each has the sandbox that it was
// told of, or none any more.
func (f *fuzz) inherits(history []world.Change) {
	for _, c := range history {
		claim, ok := c.Object.(*ext.SandboxClaim)
		if !ok {
			continue
		}
		name, told := claim.Status.SandboxStatus.Name, f.told[claim.UID]
		if told != "" && name != "" && name != told {
			f.wrong("%s, and the incumbent had told it of %s", c, told)
		}
	}
}

// renews holds when every member of a pool is of a revision, as far as it says of which it
// is, and the pool says so of all: the incumbent's say nothing, and the pool compares.
func renews(pool, revision string) world.Condition {
	return func(s *world.Snapshot) error {
		for _, name := range s.Members(pool) {
			if is := s.Sandboxes[name].Labels[apply.LabelRevision]; is != revision && is != "" {
				return fmt.Errorf("member %s is of revision %s, not %s", name, is, revision)
			}
		}
		if p, ok := s.Pools[pool]; !ok || p.Status.CurrentRevision != revision || p.Status.UpdatedReplicas != p.Status.Replicas {
			return fmt.Errorf("pool %s does not say that all its members are of revision %s", pool, revision)
		}
		return nil
	}
}

// freed checks that what claims hold has nothing of a pool any more, whoever put it there.
func freed(claims []string, s *world.Snapshot) error {
	for _, claim := range claims {
		name := s.SandboxOf(claim)
		b, pod := s.Sandboxes[name], s.Pods[name]
		if b == nil || pod == nil {
			return fmt.Errorf("claim %s has no sandbox with a pod", claim)
		}
		for _, o := range []metav1.Object{b, pod} {
			if _, pooled := o.GetLabels()[apply.LabelPool]; pooled {
				return fmt.Errorf("%s %s is claim %s's, and carries the label of a pool", world.KindOf(o), name, claim)
			}
		}
		if _, evicted := pod.Annotations[apply.AnnotationSafeToEvict]; evicted {
			return fmt.Errorf("pod %s is claim %s's, and still safe to evict", name, claim)
		}
	}
	return nil
}
