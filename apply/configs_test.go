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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func aTemplate() *ext.SandboxTemplate {
	t := &ext.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Name: "python", Namespace: "ns", UID: "template-uid"}}
	t.Spec.PodTemplate.ObjectMeta = agents.PodMetadata{
		Labels:      map[string]string{"team": "a", LabelClaim: "forged"},
		Annotations: map[string]string{"note": "kept", NoteTrace: "forged"},
	}
	t.Spec.PodTemplate.Spec = runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"main","image":"python:3"}]}`)}
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
		Labels:      map[string]string{"sandbox.users.io/who": "me", "team": "a"},
		Annotations: map[string]string{"example.com/why": "because"},
	}
	c.Status.Conditions = []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "DependenciesReady", Message: "Pod is Ready",
		LastTransitionTime: metav1.NewTime(noon),
	}}
	c.Status.SandboxStatus = ext.SandboxStatus{Name: "warm-x", UID: "sandbox-uid", PodIPs: []string{"10.0.0.1"}}
	c.Status.State = ext.StateBound
	return c
}

func aBlueprint(t *testing.T) Blueprint {
	t.Helper()
	b, err := BlueprintOf(aTemplate())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return b
}

// made is the object the server would keep of a configuration.
func made[T any](t *testing.T, config any, uid string) *T {
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

func aMember(t *testing.T) *agents.Sandbox {
	return made[agents.Sandbox](t, memberConfig(aPool(), "warm-x", aBlueprint(t)), "sandbox")
}

func aUsersSandbox() *agents.Sandbox {
	s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: "ns", UID: "mine-uid", ResourceVersion: "3"}}
	s.Spec.PodTemplate.Spec = runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"main","image":"python:3"}]}`)}
	return s
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
	born, err := podConfig(member)
	g.Expect(err).NotTo(HaveOccurred())
	users, err := podConfig(mine)
	g.Expect(err).NotTo(HaveOccurred())
	adopted := made[agents.Sandbox](t, adoptConfig(member, claim), "sandbox")
	all := []configuration{
		{"template-label", states.Templer, "template", templateConfig(aTemplate())},
		{"sandbox-member", states.Owner, "sandbox", memberConfig(aPool(), "warm-x", aBlueprint(t))},
		{"sandbox-own", states.Owner, "sandbox", ownConfig(claim, aBlueprint(t))},
		{"sandbox-adopt", states.Owner, "sandbox", adoptConfig(member, claim)},
		{"sandbox-retire", states.Owner, "sandbox", retireConfig(member, states.Surplus)},
		{"sandbox-retire-twin", states.Owner, "sandbox", retireConfig(adopted, states.Surplus)},
		{"sandbox-notepod", states.Owner, "sandbox", notePodConfig(mine)},
		{"sandbox-status", states.Status, "sandboxstatus", sandboxStatusConfig(member, agents.SandboxStatus{
			Conditions: claim.Status.Conditions, PodIPs: []string{"10.0.0.1"}, NodeName: "n", Selector: "a=b",
		})},
		{"pod-member", states.Birth, "pod", born},
		{"pod-users", states.Birth, "pod", users},
		{"claim-record", states.Claimant, "claim", recordConfig(claim, "warm-x", noon)},
		{"claim-status-refused", states.Claimant, "claimstatus", claimStatusConfig(claim, refusal(&ext.SandboxClaim{}, member))},
		{"claim-status", states.Claimant, "claimstatus", claimStatusConfig(claim, claim.Status)},
		{"pool-status", states.Pooler, "poolstatus", poolStatusConfig(aPool(), ext.SandboxWarmPoolStatus{
			Replicas: 2, Selector: "a=b", CurrentRevision: "r", ObservedTemplateGeneration: 3, Conditions: claim.Status.Conditions,
		})},
	}
	a := &Applier{opts: Options{SafeToEvict: true}}
	pod := made[corev1.Pod](t, born, "pod")
	for _, to := range states.Pod.States() {
		whose, by := member, (*ext.SandboxClaim)(nil)
		if to == states.Binding || to == states.Bound {
			whose, by = adopted, claim
		}
		all = append(all, configuration{"pod-to-" + string(to), states.Marker, "pod", a.wordConfig(pod, whose, by, to)})
	}
	return append(all,
		configuration{"pod-to-stale-claims", states.Marker, "pod", a.wordConfig(pod, adopted, nil, states.Stale)},
		configuration{"pod-to-bound-users", states.Marker, "pod", a.wordConfig(pod, mine, nil, states.Bound)})
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
		"adopt": adoptConfig(member, claim), "retire": retireConfig(member, states.Surplus),
		"sandbox status": sandboxStatusConfig(member, member.Status),
	} {
		uid, version := guard(config)
		g.Expect(uid).To(Equal("sandbox-uid"), name)
		g.Expect(version).To(Equal("17"), name)
	}
	_, version := guard(claimStatusConfig(claim, claim.Status))
	g.Expect(version).To(Equal("41"), "claim status")
	_, version = guard(memberConfig(aPool(), "warm-x", aBlueprint(t)))
	g.Expect(version).To(Equal(unborn), "create")
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
	g.Expect(is.For(pool)).To(Equal(was.For(pool)))
	pool.Annotations = map[string]string{NoteMetadata: "true"}
	g.Expect(is.For(pool)).NotTo(Equal(was.For(pool)))
	g.Expect(memberConfig(pool, "x", is).Labels).To(HaveKeyWithValue(LabelRevision, is.For(pool)))
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
	g.Expect(pod.Labels).NotTo(HaveKey(LabelClaim))
	g.Expect(pod.Labels).To(HaveKeyWithValue("team", "a"))
	g.Expect(pod.Annotations).To(Equal(map[string]string{"note": "kept", NotePool: "pool-uid"}))
}

func TestTheHashIsTheOneOthersCompute(t *testing.T) {
	// FNV-1a, 32 bits, of the empty string and of "a": the published values.
	NewWithT(t).Expect([]string{Hash(""), Hash("a")}).To(Equal([]string{"811c9dc5", "e40c292c"}))
}

func TestAnEventsNameFitsHoweverLongTheObjectsIs(t *testing.T) {
	claim := aClaim()
	claim.Name = strings.Repeat("n", 253)
	e := (&Applier{opts: Options{Component: "kiln"}}).event(claim, ext.SchemeGroupVersion.WithKind(claimKind), Note{Type: corev1.EventTypeNormal})
	NewWithT(t).Expect(len(e.Name)).To(BeNumerically("<=", 253))
}
