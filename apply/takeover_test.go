package apply

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

func entry(manager string, op metav1.ManagedFieldsOperationType, sub, version, fields string) metav1.ManagedFieldsEntry {
	e := metav1.ManagedFieldsEntry{Manager: manager, Operation: op, Subresource: sub, APIVersion: version, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{}}
	e.FieldsV1.SetRawBytes([]byte(fields))
	return e
}

const (
	byUpdate = metav1.ManagedFieldsOperationUpdate
	byApply  = metav1.ManagedFieldsOperationApply
)

// left is a pool member as two versions of the agent-sandbox controller left it, with
// a switch that a user turned.
func left() *agents.Sandbox {
	return &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{LabelLaunch: LaunchWarm}, ManagedFields: []metav1.ManagedFieldsEntry{
		entry("agent-sandbox-controller", byUpdate, "", "agents.x-k8s.io/v1alpha1",
			`{"f:metadata":{"f:labels":{".":{},"f:agents.x-k8s.io/warm-pool-sandbox":{}}}}`),
		entry("agent-sandbox-controller", byUpdate, "", "agents.x-k8s.io/v1beta1",
			`{"f:metadata":{"f:annotations":{".":{},"f:example.com/theirs":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"u\"}":{}}},
			  "f:spec":{".":{},"f:operatingMode":{},"f:shutdownPolicy":{},"f:podTemplate":{".":{},"f:spec":{}}}}`),
		entry("agent-sandbox-controller", byUpdate, "status", "agents.x-k8s.io/v1beta1", `{"f:status":{".":{},"f:conditions":{},"f:nodeName":{}}}`),
		entry("kubectl-edit", byUpdate, "", "agents.x-k8s.io/v1beta1", `{"f:spec":{"f:shutdownTime":{}}}`),
	}}}
}

func TestATakeoverGivesEachManagerWhatIsInItsScopeAndLeavesTheRest(t *testing.T) {
	g := NewWithT(t)
	takeover, ok, err := TakeoverOf(left(), false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ok).To(BeTrue())
	g.Expect(takeover.From).To(Equal([]string{"agent-sandbox-controller"}))
	is := map[string]string{}
	for _, e := range takeover.entries {
		is[e.Manager+" "+string(e.Operation)+" "+e.Subresource+" "+e.APIVersion] = string(e.FieldsV1.GetRawBytes())
	}
	g.Expect(is).To(Equal(map[string]string{
		"kubectl-edit Update  agents.x-k8s.io/v1beta1": `{"f:spec":{"f:shutdownTime":{}}}`,
		"agent-sandbox-controller Update  agents.x-k8s.io/v1beta1": `{"f:metadata":{"f:annotations":{"f:example.com/theirs":{}}},` +
			`"f:spec":{"f:operatingMode":{},"f:shutdownPolicy":{}}}`,
		"kiln-owner Apply  agents.x-k8s.io/v1beta1": `{"f:metadata":{"f:labels":{"f:agents.x-k8s.io/warm-pool-sandbox":{}},` +
			`"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}},"f:spec":{"f:podTemplate":{"f:spec":{}}}}`,
		"kiln-status Apply status agents.x-k8s.io/v1beta1": `{"f:status":{"f:conditions":{},"f:nodeName":{}}}`,
	}))
	after := left()
	after.ManagedFields = takeover.entries
	g.Expect(Inherited(after)).To(BeFalse(), "once is enough")
}

func TestThePodOfAPoolMemberHasTwoHeirsAndKeepsItsAuthorsMark(t *testing.T) {
	for _, row := range []struct {
		name   string
		marked bool
		state  string
		pod    string
	}{
		{"the pool marked it", false,
			`{"f:metadata":{"f:annotations":{"f:cluster-autoscaler.kubernetes.io/safe-to-evict":{}},"f:labels":{"f:agents.x-k8s.io/state":{},"f:agents.x-k8s.io/warm-pool-sandbox":{}}}}`,
			`{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:nodeSelector":{}}}`},
		{"the template's author marked it", true,
			`{"f:metadata":{"f:labels":{"f:agents.x-k8s.io/state":{},"f:agents.x-k8s.io/warm-pool-sandbox":{}}}}`,
			`{"f:metadata":{"f:annotations":{"f:cluster-autoscaler.kubernetes.io/safe-to-evict":{}},"f:labels":{"f:app":{}}},"f:spec":{"f:nodeSelector":{}}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "s", Annotations: map[string]string{AnnotationLabels: "app"}, ManagedFields: []metav1.ManagedFieldsEntry{
				entry("sandbox-controller", byUpdate, "", "v1",
					`{"f:metadata":{"f:annotations":{"f:cluster-autoscaler.kubernetes.io/safe-to-evict":{}},"f:labels":{"f:app":{},"f:agents.x-k8s.io/warm-pool-sandbox":{}}},"f:spec":{"f:nodeSelector":{}}}`),
				entry("kiln-state", byApply, "", "v1", `{"f:metadata":{"f:labels":{"f:agents.x-k8s.io/state":{}}}}`),
			}}}
			takeover, ok, err := TakeoverOf(pod, row.marked)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(ok).To(BeTrue())
			g.Expect(takeover.entries).To(ConsistOf(
				HaveField("FieldsV1.Raw", Equal([]byte(row.state))), HaveField("FieldsV1.Raw", Equal([]byte(row.pod)))))
		})
	}
}

// What is nobody's but its owner's stays: what was applied, what a user wrote into a
// Sandbox of his own, and what a hand or another program wrote beside what is Kiln's.
func TestWhatIsNotKilnsIsNotTakenOver(t *testing.T) {
	meta := func(e metav1.ManagedFieldsEntry) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "s", Annotations: map[string]string{AnnotationLabels: "app"}, ManagedFields: []metav1.ManagedFieldsEntry{e}}
	}
	ours := `{"f:metadata":{"f:labels":{"f:agents.x-k8s.io/warm-pool-sandbox":{}},"f:annotations":{"f:agents.x-k8s.io/sandbox-name":{}},"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}},"f:spec":{"f:podTemplate":{}}}`
	for name, o := range map[string]Regarding{
		"nothing":                         &agents.Sandbox{ObjectMeta: meta(entry("kubectl", byUpdate, "", "v1", `{}`))},
		"what Kiln applied":               &agents.Sandbox{ObjectMeta: meta(entry("kiln-owner", byApply, "", "v1", ours))},
		"what somebody applied":           &agents.Sandbox{ObjectMeta: meta(entry("agent-sandbox-controller", byApply, "", "v1", ours))},
		"a Sandbox of a user":             &agents.Sandbox{ObjectMeta: meta(entry("kubectl-create", byUpdate, "", "v1", ours))},
		"a claim":                         &ext.SandboxClaim{ObjectMeta: meta(entry("kubectl-create", byUpdate, "", "v1", `{"f:spec":{"f:warmPoolRef":{"f:name":{}}}}`))},
		"the size of a pool":              &ext.SandboxWarmPool{ObjectMeta: meta(entry("kube-controller-manager", byUpdate, "scale", "v1", `{"f:spec":{"f:replicas":{}}}`))},
		"a template":                      &ext.SandboxTemplate{ObjectMeta: meta(entry("kubectl-create", byUpdate, "", "v1", `{"f:spec":{"f:podTemplate":{}}}`))},
		"what the kubelet says":           &corev1.Pod{ObjectMeta: meta(entry("kubelet", byUpdate, "status", "v1", `{"f:status":{"f:phase":{}}}`))},
		"a label that a hand gives a pod": &corev1.Pod{ObjectMeta: meta(entry("kubectl-label", byUpdate, "", "v1", `{"f:metadata":{"f:labels":{"f:mine":{}}}}`))},
		"storage":                         &corev1.PersistentVolumeClaim{ObjectMeta: meta(entry("agent-sandbox-controller", byUpdate, "", "v1", ours))},
	} {
		g := NewWithT(t)
		g.Expect(Inherited(o)).To(BeFalse(), name)
		_, ok, err := TakeoverOf(o, false)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ok).To(BeFalse(), name)
	}
}

func BenchmarkInherited(b *testing.B) {
	claim := &ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		entry("python-client", byUpdate, "", "extensions.agents.x-k8s.io/v1beta1", `{"f:metadata":{"f:annotations":{".":{},"f:agents.x-k8s.io/client-first-requested-at":{}},`+
			`"f:labels":{".":{},"f:agents.x-k8s.io/created-by":{}}},"f:spec":{".":{},"f:lifecycle":{".":{},"f:shutdownPolicy":{},"f:shutdownTime":{}},"f:warmPoolRef":{".":{},"f:name":{}}}}`),
		entry("kiln-claim", byApply, "status", "extensions.agents.x-k8s.io/v1beta1", `{"f:status":{"f:conditions":{}}}`),
	}}}
	for name, o := range map[string]metav1.Object{"claim": claim, "member of the incumbent": left()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Inherited(o)
			}
		})
	}
}

func TestAStatusThatSaysLessHasToBeTakenOver(t *testing.T) {
	full := agents.SandboxStatus{NodeName: "n", PodIPs: []string{"a", "b"}, Conditions: []metav1.Condition{{Type: "Ready"}, {Type: "Finished"}}}
	for name, row := range map[string]struct {
		want  agents.SandboxStatus
		drops bool
	}{
		"the same":           {full, false},
		"another value":      {agents.SandboxStatus{NodeName: "m", PodIPs: []string{"c"}, Conditions: full.Conditions}, false},
		"more":               {agents.SandboxStatus{NodeName: "m", Service: "s", PodIPs: full.PodIPs, Conditions: full.Conditions}, false},
		"no node":            {agents.SandboxStatus{PodIPs: full.PodIPs, Conditions: full.Conditions}, true},
		"no addresses":       {agents.SandboxStatus{NodeName: "n", Conditions: full.Conditions}, true},
		"a condition missed": {agents.SandboxStatus{NodeName: "n", PodIPs: full.PodIPs, Conditions: full.Conditions[:1]}, true},
	} {
		NewWithT(t).Expect(drops(full, row.want)).To(Equal(row.drops), name)
	}
}

func TestTheStateOfAClaimThatCarriesNoneIsWhatWasDoneToIt(t *testing.T) {
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "DependenciesReady"}
	starting := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "DependenciesNotReady"}
	expired := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "ClaimExpired"}
	first := map[string]string{AnnotationFirstReady: "unknown"}
	for _, row := range []struct {
		name        string
		state       ext.State
		sandbox     ext.SandboxStatus
		ready       metav1.Condition
		annotations map[string]string
		want        states.State
	}{
		{"a new one", "", ext.SandboxStatus{}, metav1.Condition{}, nil, states.Binding},
		{"one that was told of a Ready sandbox", "", ext.SandboxStatus{Name: "s"}, ready, nil, states.Bound},
		{"one whose sandbox was Ready once", "", ext.SandboxStatus{Name: "s"}, starting, first, states.Bound},
		{"one whose own sandbox starts", "", ext.SandboxStatus{Name: "s"}, starting, nil, states.Binding},
		{"one that expired, which its own step says", "", ext.SandboxStatus{}, expired, first, states.Binding},
		{"one whose state a hand took away", "", ext.SandboxStatus{Name: "s", UID: "u"}, ready, nil, states.Binding},
		{"one that carries a state", ext.StateWarming, ext.SandboxStatus{Name: "s"}, ready, first, states.Warming},
	} {
		c := &ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Annotations: row.annotations}}
		c.Status = ext.SandboxClaimStatus{State: row.state, SandboxStatus: row.sandbox, Conditions: []metav1.Condition{row.ready}}
		NewWithT(t).Expect(ClaimState(c)).To(Equal(row.want), row.name)
	}
}

func TestAMemberWithoutARevisionIsComparedByWhatItSays(t *testing.T) {
	g := NewWithT(t)
	template := &ext.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	template.Spec.PodTemplate.Spec.Raw = []byte(`{"containers":[{"name":"main","image":"image","resources":{"limits":{"cpu":"1"}}}]}`)
	template.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{"app": "a"}
	b, err := BlueprintOf(template)
	g.Expect(err).NotTo(HaveOccurred())
	const secured = `"automountServiceAccountToken":false,"dnsPolicy":"None","dnsConfig":{"nameservers":["8.8.8.8","1.1.1.1"]}`
	plain, byMetadata := &ext.SandboxWarmPool{}, &ext.SandboxWarmPool{}
	byMetadata.Annotations = map[string]string{AnnotationRollOnMetadata: "true"}
	for i, row := range []struct {
		name, template, spec, app string
		pool                      *ext.SandboxWarmPool
		want                      bool
	}{
		{"the same by other bytes", "t", `{` + secured + `,"containers":[{"name":"main","image":"image","resources":{"limits":{"cpu":"1000m"}},"ports":null}]}`, "a", plain, true},
		{"another image", "t", `{` + secured + `,"containers":[{"name":"main","image":"other","resources":{"limits":{"cpu":"1"}}}]}`, "a", plain, false},
		{"another template", "u", string(b.podTemplate.Spec.Raw), "a", plain, false},
		{"other labels, where they do not count", "t", string(b.podTemplate.Spec.Raw), "b", plain, true},
		{"other labels, where they count", "t", string(b.podTemplate.Spec.Raw), "b", byMetadata, false},
		{"the same labels, where they count", "t", string(b.podTemplate.Spec.Raw), "a", byMetadata, true},
		{"nothing that can be read", "t", `no`, "a", plain, false},
	} {
		s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: int64(i), Annotations: map[string]string{AnnotationTemplate: row.template}}}
		s.Spec.PodTemplate.Spec.Raw = []byte(row.spec)
		s.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{"app": row.app, LabelPool: "x"}
		s.Spec.PodTemplate.ObjectMeta.Annotations = map[string]string{AnnotationSafeToEvict: "true"}
		g.Expect(b.Matches(s, row.pool)).To(Equal(row.want), row.name)
	}
	g.Expect(Blueprint{}.Matches(&agents.Sandbox{}, plain)).To(BeFalse(), "nothing is made from no template")
}

func TestASandboxWithoutALaunchTypeIsKnownByItsOwner(t *testing.T) {
	for want, owner := range map[string]*metav1.OwnerReference{
		"":         nil,
		LaunchWarm: {APIVersion: "extensions.agents.x-k8s.io/v1alpha1", Kind: "SandboxWarmPool", Name: "s"},
		LaunchCold: {APIVersion: "extensions.agents.x-k8s.io/v1alpha1", Kind: "SandboxClaim", Name: "s"},
	} {
		s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
		if owner != nil {
			controller := true
			owner.Controller = &controller
			s.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		NewWithT(t).Expect(LaunchOf(s)).To(Equal(want))
		NewWithT(t).Expect(MadeByKiln(s)).To(Equal(want != ""))
		if want == LaunchCold {
			s.Name = "pool-abcde"
			NewWithT(t).Expect(LaunchOf(s)).To(Equal(LaunchWarm), "a claim's sandbox of another name came from a pool")
		}
	}
}
