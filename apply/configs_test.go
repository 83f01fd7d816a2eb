package apply

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func aTemplate(changes ...func(*ext.SandboxTemplate)) *ext.SandboxTemplate {
	t := &ext.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Name: "python", Namespace: "ns", UID: "template-uid"}}
	t.Spec.PodTemplate.ObjectMeta = agents.PodMetadata{
		Labels:      map[string]string{"team": "a", LabelClaimUID: "forged"},
		Annotations: map[string]string{"note": "kept", AnnotationTrace: "forged"},
	}
	t.Spec.PodTemplate.Spec = runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"main","image":"python:3"}]}`)}
	for _, change := range changes {
		change(t)
	}
	return t
}

func aPool() *ext.SandboxWarmPool {
	return &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Name: "warm", Namespace: "ns", UID: "pool-uid", Generation: 2}}
}

func aClaim() *ext.SandboxClaim {
	c := &ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "a", Namespace: "ns", UID: "claim-uid", ResourceVersion: "41",
		Labels: map[string]string{LabelCreatedBy: "go-client"},
	}}
	c.Spec.WarmPoolRef.Name = "warm"
	c.Spec.AdditionalPodMetadata = agents.PodMetadata{
		Labels:      map[string]string{"sandbox.users.io/who": "me"},
		Annotations: map[string]string{"example.com/why": "because"},
	}
	c.Status.Conditions = []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "DependenciesReady", Message: "Pod is Ready",
		LastTransitionTime: metav1.NewTime(noon),
	}}
	seconds := int32(60)
	c.Status.Lifecycle = &ext.Lifecycle{TTLSecondsAfterFinished: &seconds, ShutdownPolicy: ext.ShutdownDelete}
	c.Status.Startup.ControllerObservedTime = &metav1.MicroTime{Time: noon}
	c.Status.SandboxStatus = ext.SandboxStatus{Name: "warm-x", UID: "sandbox-uid", PodIPs: []string{"10.0.0.1"}}
	c.Status.State = ext.StateBound
	return c
}

func aBlueprint(t testing.TB) Blueprint {
	t.Helper()
	b, err := BlueprintOf(aTemplate())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return b
}

// made is the object the server would keep of a configuration.
func made[T any](t testing.TB, config any, uid string) *T {
	t.Helper()
	g := NewWithT(t)
	raw, err := json.Marshal(config)
	g.Expect(err).NotTo(HaveOccurred())
	o := new(T)
	g.Expect(json.Unmarshal(raw, o)).To(Succeed())
	m := any(o).(metav1.Object)
	m.SetUID("uid-of-" + m.GetUID())
	if uid != "" {
		m.SetUID("sandbox-uid")
	}
	m.SetResourceVersion("17")
	return o
}

func aMember(t testing.TB) *agents.Sandbox {
	return made[agents.Sandbox](t, memberConfig(aPool(), "warm-x", aBlueprint(t)), "sandbox")
}

func aUsersSandbox() *agents.Sandbox {
	s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: "ns", UID: "mine-uid", ResourceVersion: "3"}}
	s.Spec.PodTemplate.Spec = runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"main","image":"python:3"}]}`)}
	return s
}

// aCompleteSandbox is one that a user made, with everything a sandbox can have.
func aCompleteSandbox() *agents.Sandbox {
	s := aUsersSandbox()
	yes := true
	s.Spec.Service = &yes
	s.Spec.PodTemplate.Spec.Raw = []byte(`{"containers":[{"name":"main","image":"python:3","ports":[{"containerPort":80,"name":"http"}]}],
		"volumes":[{"name":"data","emptyDir":{}},{"name":"tmp","emptyDir":{}}]}`)
	s.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{
		ObjectMeta: agents.VolumeMetadata{Name: "data", Labels: map[string]string{"team": "a", LabelNameHash: "forged"}, Annotations: map[string]string{"note": "kept"}},
		Spec:       runtime.RawExtension{Raw: []byte(`{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`)},
	}}
	return s
}

// adopting is a sandbox, and a claim with what it adds to the pod.
func adopting(t testing.TB, s *agents.Sandbox, claim *ext.SandboxClaim) Claimed {
	t.Helper()
	of := Claimed{Sandbox: s, Claim: claim}
	var err error
	of.Added, err = ClaimMetadataOf(of, domains)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return of
}

type configuration struct {
	name    string
	manager states.Manager
	kind    string
	config  any
}

// everyConfiguration builds one of each configuration that Kiln can send.
func everyConfiguration(t *testing.T) []configuration {
	t.Helper()
	g := NewWithT(t)
	member, claim, mine := aMember(t), aClaim(), aUsersSandbox()
	created, err := podConfig(member)
	g.Expect(err).NotTo(HaveOccurred())
	users, err := podConfig(mine)
	g.Expect(err).NotTo(HaveOccurred())
	adopted := made[agents.Sandbox](t, adoptConfig(adopting(t, member, claim)), "sandbox")
	forClaim, err := aBlueprint(t).For(claim, domains)
	g.Expect(err).NotTo(HaveOccurred())
	all := []configuration{
		{"template-label", states.TemplateManager, "template", templateConfig(aTemplate())},
		{"policy-default", states.TemplateManager, "policy", aPolicy(t, aTemplate()).createConfig()},
		{"policy-closed", states.TemplateManager, "policy", aPolicy(t, aTemplate(closed)).syncConfig(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{UID: "p"}})},
		{"policy-taken-over", states.TemplateManager, "policy", aPolicy(t, aTemplate(closed)).syncConfig(theirPolicy())},
		{"sandbox-member", states.OwnerManager, "sandbox", memberConfig(aPool(), "warm-x", aBlueprint(t))},
		{"sandbox-own", states.OwnerManager, "sandbox", ownConfig(claim, forClaim)},
		{"sandbox-adopt", states.OwnerManager, "sandbox", adoptConfig(adopting(t, member, claim))},
		{"sandbox-sync", states.OwnerManager, "sandbox", claimedConfig(Claimed{Sandbox: adopted, Claim: claim})},
		{"sandbox-remake", states.OwnerManager, "sandbox", remadeConfig(Claimed{Sandbox: adopted, Claim: claim}, aBlueprint(t))},
		{"sandbox-retire", states.OwnerManager, "sandbox", retireConfig(member, retiredFor[states.ReasonSurplus])},
		{"sandbox-retire-claims", states.OwnerManager, "sandbox", retireConfig(adopted, retiredFor[states.ReasonSurplus])},
		{"sandbox-status", states.StatusManager, "sandboxstatus", sandboxStatusConfig(member, agents.SandboxStatus{
			Conditions: claim.Status.Conditions, PodIPs: []string{"10.0.0.1"}, NodeName: "n", Selector: "a=b",
		})},
		{"pod-member", states.PodManager, "pod", created},
		{"pod-users", states.PodManager, "pod", users},
		{"claim-annotations", states.ClaimManager, "claim", claimAnnotationsConfig(claim, "warm-x", seenAt(noon))},
		{"claim-status-refused", states.ClaimManager, "claimstatus", claimStatusConfig(claim, refusal(&ext.SandboxClaim{}, member))},
		{"claim-status", states.ClaimManager, "claimstatus", claimStatusConfig(claim, claim.Status)},
		{"pool-status", states.PoolManager, "poolstatus", poolStatusConfig(aPool(), ext.SandboxWarmPoolStatus{
			Replicas: 2, Selector: "a=b", CurrentRevision: "r", ObservedTemplateGeneration: 3, Conditions: claim.Status.Conditions,
			Rollout: ext.RolloutStatus{Phase: string(states.PhaseRollingOut), CompletedRevision: "q", LastProgressTime: &metav1.Time{Time: noon}},
		})},
	}
	a := &Applier{opts: Options{SafeToEvict: true}}
	pod := made[corev1.Pod](t, created, "pod")
	for _, to := range states.Pod.States() {
		whose, by := member, (*ext.SandboxClaim)(nil)
		if to == states.Binding || to == states.Bound {
			whose, by = adopted, claim
		}
		all = append(all, configuration{"pod-to-" + string(to), states.StateManager, "pod", a.stateConfig(PodMove{Pod: pod, Sandbox: whose, Claim: by}, to)})
	}
	own := made[agents.Sandbox](t, ownConfig(claim, forClaim), "sandbox")
	ownPod, err := podConfig(own)
	g.Expect(err).NotTo(HaveOccurred())
	complete := aCompleteSandbox()
	service, err := serviceConfig(complete)
	g.Expect(err).NotTo(HaveOccurred())
	volume, err := volumeConfig(complete, complete.Spec.VolumeClaimTemplates[0])
	g.Expect(err).NotTo(HaveOccurred())
	mounted, err := podConfig(complete)
	g.Expect(err).NotTo(HaveOccurred())
	theirs := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-mine", Namespace: "ns", UID: "theirs", ResourceVersion: "8"}}
	taken, err := adoptedVolumeConfig(complete, complete.Spec.VolumeClaimTemplates[0], theirs)
	g.Expect(err).NotTo(HaveOccurred())
	stray := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: "ns", UID: "stray", ResourceVersion: "8"}}
	found, err := adoptedPodConfig(complete, stray)
	g.Expect(err).NotTo(HaveOccurred())
	return append(all,
		configuration{"service", states.PodManager, "service", service},
		configuration{"volume", states.PodManager, "persistentvolumeclaim", volume},
		configuration{"volume-adopted", states.PodManager, "persistentvolumeclaim", taken},
		configuration{"pod-mounted", states.PodManager, "pod", mounted},
		configuration{"pod-adopted", states.PodManager, "pod", found},
		configuration{"pod-to-bound-own", states.StateManager, "pod", a.stateConfig(PodMove{Pod: made[corev1.Pod](t, ownPod, "pod"), Sandbox: own, Claim: claim}, states.Bound)},
		configuration{"pod-to-stale-claims", states.StateManager, "pod", a.stateConfig(PodMove{Pod: pod, Sandbox: adopted}, states.Stale)},
		configuration{"pod-to-bound-users", states.StateManager, "pod", a.stateConfig(PodMove{Pod: made[corev1.Pod](t, users, "pod"), Sandbox: mine}, states.Bound)})
}

func TestConfigurationsAreAsTheyWereReviewed(t *testing.T) {
	for _, c := range everyConfiguration(t) {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			raw, err := yaml.Marshal(c.config)
			g.Expect(err).NotTo(HaveOccurred())
			golden := filepath.Join("testdata", c.name+".yaml")
			if *update {
				g.Expect(os.MkdirAll("testdata", 0o755)).To(Succeed())
				g.Expect(os.WriteFile(golden, raw, 0o644)).To(Succeed())
			}
			want, err := os.ReadFile(golden)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(raw)).To(Equal(string(want)), "run go test ./apply -update and review the change")
		})
	}
}

func TestAPodIsBoundAlikeWhateverStateItComesFrom(t *testing.T) {
	g := NewWithT(t)
	claim := aClaim()
	adopted := made[agents.Sandbox](t, adoptConfig(adopting(t, aMember(t), claim)), "sandbox")
	a := &Applier{opts: Options{SafeToEvict: true}}
	from := []states.State{}
	for _, edge := range states.Pod.Edges {
		if edge.To != states.Bound {
			continue
		}
		from = append(from, edge.From)
		born, err := podConfig(aMember(t))
		g.Expect(err).NotTo(HaveOccurred())
		pod := made[corev1.Pod](t, born, "pod")
		pod.Labels[LabelState], pod.Labels[LabelPool] = string(edge.From), Hash("warm")
		pod.Annotations[AnnotationSafeToEvict] = "true"
		config := a.moveConfig(PodMove{Pod: pod, Sandbox: adopted, Claim: claim}, edge)
		g.Expect(config.Labels).To(Equal(map[string]string{
			LabelState: "bound", LabelClaimUID: "claim-uid", LabelCreatedBy: "go-client", "sandbox.users.io/who": "me",
		}), string(edge.From))
		g.Expect(config.Annotations).To(Equal(map[string]string{
			"example.com/why": "because", AnnotationLabels: "sandbox.users.io/who,team", AnnotationAnnotations: "example.com/why,note",
			annotationRestated: "annotation:agents.x-k8s.io/propagated-annotations,annotation:agents.x-k8s.io/propagated-labels," +
				"annotation:example.com/why,label:sandbox.users.io/who",
		}), string(edge.From))
	}
	g.Expect(from).To(ConsistOf(states.Warming, states.Ready, states.Binding))
}

func TestEveryMoveOfAPodIsGuardedButRetiringAPoolMember(t *testing.T) {
	member := aMember(t)
	adopted := made[agents.Sandbox](t, adoptConfig(adopting(t, member, aClaim())), "sandbox")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "warm-x", Namespace: "ns", UID: "pod-uid", ResourceVersion: "5"}}
	for _, edge := range states.Pod.Edges {
		for owner, s := range map[string]*agents.Sandbox{"pool": member, "claim": adopted, "nobody": aUsersSandbox()} {
			g := NewWithT(t)
			config := (&Applier{}).moveConfig(PodMove{Pod: pod, Sandbox: s}, edge)
			g.Expect(*config.UID).To(Equal(pod.UID))
			if edge.Event == states.EventRetired && owner == "pool" {
				g.Expect(config.ResourceVersion).To(BeNil(), "%s of %s", edge.Event, owner)
				continue
			}
			g.Expect(config.ResourceVersion).To(HaveValue(Equal("5")), "%s of %s", edge.Event, owner)
		}
	}
}

func TestAPoolsStatusWithoutARolloutSaysNothingOfOne(t *testing.T) {
	config := poolStatusConfig(aPool(), ext.SandboxWarmPoolStatus{})
	NewWithT(t).Expect(config.Status.Rollout).To(BeNil())
}

func TestContendedWritesCarryTheirGuard(t *testing.T) {
	g := NewWithT(t)
	guard := func(config any) (uid, version string) {
		raw, err := json.Marshal(config)
		g.Expect(err).NotTo(HaveOccurred())
		var o metav1.PartialObjectMetadata
		g.Expect(json.Unmarshal(raw, &o)).To(Succeed())
		return string(o.UID), o.ResourceVersion
	}
	member, claim := aMember(t), aClaim()
	for name, config := range map[string]any{
		"adopt": adoptConfig(adopting(t, member, claim)), "retire": retireConfig(member, retiredFor[states.ReasonSurplus]),
		"sandbox status": sandboxStatusConfig(member, member.Status),
	} {
		uid, version := guard(config)
		g.Expect(uid).To(Equal("sandbox-uid"), name)
		g.Expect(version).To(Equal("17"), name)
	}
	_, version := guard(claimStatusConfig(claim, claim.Status))
	g.Expect(version).To(Equal("41"), "claim status")
	_, version = guard(memberConfig(aPool(), "warm-x", aBlueprint(t)))
	g.Expect(version).To(Equal(mustNotExist), "create")
}

func TestABlueprintDoesNotDependOnTheOrderOfKeys(t *testing.T) {
	g := NewWithT(t)
	a, b := aTemplate(), aTemplate()
	b.Spec.PodTemplate.Spec.Raw = []byte(`{"containers":[{"image":"python:3","name":"main"}]}`)
	one, err := BlueprintOf(a)
	g.Expect(err).NotTo(HaveOccurred())
	two, err := BlueprintOf(b)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(one.Revision).To(Equal(two.Revision))
}

func TestARevisionChangesWithWhatRunsAndWithNothingElse(t *testing.T) {
	base := aBlueprint(t).Revision
	yes := true
	for _, row := range []struct {
		name    string
		change  func(*ext.SandboxTemplate)
		changes bool
	}{
		{"another image", func(t *ext.SandboxTemplate) {
			t.Spec.PodTemplate.Spec.Raw = []byte(`{"containers":[{"name":"main","image":"python:4"}]}`)
		}, true},
		{"a service", func(t *ext.SandboxTemplate) { t.Spec.Service = &yes }, true},
		{"storage", func(t *ext.SandboxTemplate) {
			t.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{Spec: runtime.RawExtension{Raw: []byte(`{}`)}}}
		}, true},
		{"a label of the pod", func(t *ext.SandboxTemplate) { t.Spec.PodTemplate.ObjectMeta.Labels["team"] = "b" }, false},
		{"rules of its own, so that its pods may use the cluster's DNS", closed, false},
		{"no policy", unmanaged, false},
		{"a token", func(t *ext.SandboxTemplate) {
			t.Spec.PodTemplate.Spec.Raw = []byte(`{"containers":[{"name":"main","image":"python:3"}],"automountServiceAccountToken":true}`)
		}, true},
		{"no token, in words", func(t *ext.SandboxTemplate) {
			t.Spec.PodTemplate.Spec.Raw = []byte(`{"containers":[{"name":"main","image":"python:3"}],"automountServiceAccountToken":false}`)
		}, false},
		{"DNS of its own", func(t *ext.SandboxTemplate) {
			t.Spec.PodTemplate.Spec.Raw = []byte(`{"containers":[{"name":"main","image":"python:3"}],"dnsPolicy":"Default"}`)
		}, true},
		{"a label of the template", func(t *ext.SandboxTemplate) { t.Labels = map[string]string{"a": "b"} }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			template := aTemplate()
			row.change(template)
			b, err := BlueprintOf(template)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(b.Revision != base).To(Equal(row.changes))
			g.Expect(len(b.Revision)).To(BeNumerically("<=", 63), "it has to fit a label")
		})
	}
}

func TestAPoolMayAskThatItsPodsLabelsCountToo(t *testing.T) {
	g := NewWithT(t)
	template, pool := aTemplate(), aPool()
	was, err := BlueprintOf(template)
	g.Expect(err).NotTo(HaveOccurred())
	template.Spec.PodTemplate.ObjectMeta.Labels["team"] = "b"
	is, err := BlueprintOf(template)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(is.RevisionFor(pool)).To(Equal(was.RevisionFor(pool)))
	pool.Annotations = map[string]string{AnnotationRollOnMetadata: "true"}
	g.Expect(is.RevisionFor(pool)).NotTo(Equal(was.RevisionFor(pool)))
	g.Expect(memberConfig(pool, "x", is).Labels).To(HaveKeyWithValue(LabelRevision, is.RevisionFor(pool)))
}

func TestATemplateThatIsNoPodSpecIsNamedWithItsField(t *testing.T) {
	template := aTemplate()
	template.Spec.PodTemplate.Spec.Raw = []byte(`[]`)
	_, err := BlueprintOf(template)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("spec.podTemplate.spec")))
}

func TestAPodSpecWithAnUnknownOrDoubledFieldIsRefusedByName(t *testing.T) {
	for raw, say := range map[string]string{
		`{"containers":[{"name":"main","imagee":"x"}]}`:  `unknown field "containers[0].imagee"`,
		`{"containers":[],"nodeName":"a","nodeName":""}`: `duplicate field "nodeName"`,
		`{"containers":7}`: "containers",
	} {
		s := aUsersSandbox()
		s.Spec.PodTemplate.Spec.Raw = []byte(raw)
		_, err := PodSpec(s)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(say)))
	}
}

func TestReservedKeysOfATemplateNeverReachAPod(t *testing.T) {
	g := NewWithT(t)
	pod, err := podConfig(aMember(t))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pod.Labels).NotTo(HaveKey(LabelClaimUID))
	g.Expect(pod.Labels).To(HaveKeyWithValue("team", "a"))
	g.Expect(pod.Annotations).To(Equal(map[string]string{
		"note": "kept", AnnotationPoolUID: "pool-uid", AnnotationLabels: "team", AnnotationAnnotations: "note",
	}))
}

func TestTheHashIsTheOneOthersCompute(t *testing.T) {
	// FNV-1a, 32 bits, of the empty string and of "a": the published values.
	NewWithT(t).Expect([]string{Hash(""), Hash("a")}).To(Equal([]string{"811c9dc5", "e40c292c"}))
}

func TestAnEventsNameFitsHoweverLongTheObjectsIs(t *testing.T) {
	claim := aClaim()
	claim.Name = strings.Repeat("n", 253)
	e := (&Applier{opts: Options{Component: "kiln"}}).event(claim, EventBody{Type: corev1.EventTypeNormal})
	NewWithT(t).Expect(len(e.Name)).To(BeNumerically("<=", 253))
}

// seenAt is a startup whose controller first saw its claim at a time.
func seenAt(t time.Time) ext.StartupStatus {
	return ext.StartupStatus{ControllerObservedTime: &metav1.MicroTime{Time: t}}
}
