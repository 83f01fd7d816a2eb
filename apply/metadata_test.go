package apply

import (
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A clerk keeps a pod as the server would: who has applied which key.
type clerk struct {
	t       *testing.T
	a       *Applier
	sandbox *agents.Sandbox
	pod     *corev1.Pod
	// born is what is kiln-pod's alone, ours what kiln-state has applied last.
	born, ours podMetadata
	syncs      int
}

func aClerk(t *testing.T, s *agents.Sandbox, state states.State) *clerk {
	t.Helper()
	config, err := podConfig(s)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	c := &clerk{t: t, a: &Applier{opts: Options{SafeToEvict: true}}, sandbox: s, pod: made[corev1.Pod](t, config, "pod")}
	if c.pod.Annotations == nil {
		c.pod.Annotations = map[string]string{}
	}
	c.born = podMetadata{maps.Clone(config.Labels), maps.Clone(config.Annotations)}
	c.apply(state)
	return c
}

func (c *clerk) move() PodMove {
	m := PodMove{Pod: c.pod, Sandbox: c.sandbox}
	if OwnerOf(c.sandbox).Kind == states.OwnerClaim {
		m.Claim = aClaim()
	}
	return m
}

// apply is an apply of kiln-state: what it left out is gone, if it was its alone.
func (c *clerk) apply(to states.State) {
	c.t.Helper()
	want := c.a.metadata(c.move(), to)
	for _, of := range []struct{ live, born, was, want map[string]string }{
		{c.pod.Labels, c.born.labels, c.ours.labels, want.labels},
		{c.pod.Annotations, c.born.annotations, c.ours.annotations, want.annotations},
	} {
		for k := range of.was {
			if _, stays := of.want[k]; !stays {
				delete(of.live, k)
			}
		}
		for k, v := range of.want {
			if is, shared := of.born[k]; shared && is == v && of.live[k] == v {
				c.t.Errorf("%s is kiln-pod's and kiln-state's", k)
			}
			delete(of.born, k)
			of.live[k] = v
		}
		for k, v := range of.born {
			of.live[k] = v
		}
	}
	c.ours = want
}

// settle brings the pod in line, as the loop does.
func (c *clerk) settle() {
	c.t.Helper()
	for c.syncs = 0; c.a.Drifted(c.move(), stateOfPod(c.pod)); c.syncs++ {
		if c.syncs > MostSyncs {
			c.t.Fatalf("it never comes to rest: %v", c.pod)
		}
		c.apply(stateOfPod(c.pod))
	}
}

func stateOfPod(p *corev1.Pod) states.State { return states.Pod.Parse(p.Labels[LabelState]) }

func users(labels, annotations map[string]string) *agents.Sandbox {
	s := aUsersSandbox()
	s.Spec.PodTemplate.ObjectMeta = agents.PodMetadata{Labels: labels, Annotations: annotations}
	return s
}

func TestWhatAUserWritesInAPodTemplateReachesTheRunningPod(t *testing.T) {
	type keys = map[string]string
	for _, row := range []struct {
		name                string
		was, is             keys
		wasNotes, isNotes   keys
		labels, annotations string
		syncs               int
	}{
		{name: "nothing", syncs: 0},
		{name: "what is as it was", was: keys{"team": "a"}, is: keys{"team": "a"}, labels: "team", syncs: 0},
		{name: "a new one", is: keys{"team": "a"}, labels: "team", syncs: 1},
		{name: "another value", was: keys{"team": "a"}, is: keys{"team": "b"}, labels: "team", syncs: 1},
		{name: "one that is gone", was: keys{"team": "a", "x": "y"}, is: keys{"x": "y"}, labels: "x", syncs: 2},
		{name: "all gone, and the list of them", was: keys{"team": "a"}, syncs: 3},
		{name: "an annotation", wasNotes: keys{"n": "a", "m": "x"}, isNotes: keys{"n": "b", "o": "c"}, annotations: "n,o", syncs: 2},
		{name: "labels of ours", is: keys{
			LabelState: "ready", LabelClaimUID: "forged", LabelNameHash: "forged", LabelPool: "forged", LabelTemplate: "forged",
			LabelAdoptable: "true", "extensions.agents.x-k8s.io/x": "forged",
		}, isNotes: keys{AnnotationTrace: "forged", AnnotationPoolUID: "forged", annotationRestated: "label:team"}, syncs: 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			c := aClerk(t, users(row.was, row.wasNotes), states.Bound)
			g.Expect(c.a.Drifted(c.move(), states.Bound)).To(BeFalse(), "a pod is born as it should be")
			c.sandbox = users(row.is, row.isNotes)
			c.settle()
			g.Expect(c.syncs).To(Equal(row.syncs))
			g.Expect(unreserved(c.pod.Labels)).To(Equal(unreserved(row.is)))
			g.Expect(unreserved(c.pod.Annotations)).To(Equal(unreserved(row.isNotes)))
			g.Expect(c.pod.Annotations[AnnotationLabels]).To(Equal(row.labels))
			g.Expect(c.pod.Annotations[AnnotationAnnotations]).To(Equal(row.annotations))
			g.Expect(only(c.pod.Labels, append(birthLabels, LabelClaimUID, LabelAdoptable))).To(Equal(keys{
				LabelState: "bound", LabelNameHash: Hash("mine"),
			}))
			g.Expect(c.pod.Annotations).NotTo(HaveKey(AnnotationPoolUID))
			c.sandbox = users(row.was, row.wasNotes)
			c.settle()
			g.Expect(unreserved(c.pod.Labels)).To(Equal(unreserved(row.was)), "and back")
			g.Expect(unreserved(c.pod.Annotations)).To(Equal(unreserved(row.wasNotes)), "and back")
		})
	}
}

func TestAHandThatWasAtAPodsLabelsIsMended(t *testing.T) {
	g := NewWithT(t)
	c := aClerk(t, users(map[string]string{"team": "a"}, nil), states.Bound)
	c.pod.Labels[LabelNameHash], c.pod.Labels["team"] = "forged", "forged"
	delete(c.born.labels, LabelNameHash) // it is the hand's now
	delete(c.born.labels, "team")
	c.settle()
	g.Expect(c.syncs).To(Equal(1))
	g.Expect(c.pod.Labels).To(HaveKeyWithValue(LabelNameHash, Hash("mine")))
	g.Expect(c.pod.Labels).To(HaveKeyWithValue("team", "a"))
}

func TestAPodFollowsWhatItsClaimAddsToTheSandbox(t *testing.T) {
	g := NewWithT(t)
	claim := aClaim()
	c := aClerk(t, aMember(t), states.Ready)
	c.sandbox = made[agents.Sandbox](t, adoptConfig(adopting(t, aMember(t), claim)), "sandbox")
	c.apply(states.Bound)
	g.Expect(unreserved(c.pod.Labels)).To(Equal(map[string]string{"team": "a", "sandbox.users.io/who": "me"}))
	g.Expect(c.pod.Labels).To(HaveKeyWithValue(LabelState, "bound"))
	c.settle()
	g.Expect(c.syncs).To(BeZero(), "the move has brought it all")
	claim.Spec.AdditionalPodMetadata = agents.PodMetadata{Labels: map[string]string{"sandbox.users.io/who": "you"}}
	c.sandbox = made[agents.Sandbox](t, claimedConfig(adopting(t, c.sandbox, claim)), "sandbox")
	c.settle()
	g.Expect(c.syncs).To(Equal(1))
	g.Expect(c.pod.Labels).To(HaveKeyWithValue("sandbox.users.io/who", "you"))
	g.Expect(unreserved(c.pod.Annotations)).To(Equal(map[string]string{"note": "kept"}))
	g.Expect(c.pod.Annotations[AnnotationAnnotations]).To(Equal("note"))
}

func TestAPodThatIsStartingLacksNothingOfWhatItsFirstMoveBrings(t *testing.T) {
	g := NewWithT(t)
	member := aMember(t)
	config, err := podConfig(member)
	g.Expect(err).NotTo(HaveOccurred())
	a, m := &Applier{opts: Options{SafeToEvict: true}}, PodMove{Pod: made[corev1.Pod](t, config, "pod"), Sandbox: member}
	g.Expect(a.Drifted(m, states.Warming)).To(BeFalse())
	member.Spec.PodTemplate.ObjectMeta.Labels["team"] = "b"
	g.Expect(a.Drifted(m, states.Warming)).To(BeTrue())
}

func TestWhoMadeASandboxIsNormalisedOnItsPod(t *testing.T) {
	for _, row := range []struct{ name, sandbox, template, want string }{
		{"the sandbox says it", "python-client", "", "python-client"},
		{"its template says it", "", "go-client", "go-client"},
		{"the sandbox has the word", "go-client", "controller", "go-client"},
		{"anything else", "me", "", "unknown"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := aUsersSandbox()
			s.Labels, s.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{}, map[string]string{}
			if row.sandbox != "" {
				s.Labels[LabelCreatedBy] = row.sandbox
			}
			if row.template != "" {
				s.Spec.PodTemplate.ObjectMeta.Labels[LabelCreatedBy] = row.template
			}
			NewWithT(t).Expect(aClerk(t, s, states.Bound).pod.Labels).To(HaveKeyWithValue(LabelCreatedBy, row.want))
		})
	}
}

func TestTheTemplatesLabelComesFromTheBlueprintOfASandboxThatIsNotAUsers(t *testing.T) {
	g := NewWithT(t)
	s := aUsersSandbox()
	s.Labels = map[string]string{LabelTemplate: "forged"}
	s.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{LabelTemplate: Hash("t")}
	g.Expect(podLabels(s)).NotTo(HaveKey(LabelTemplate))
	s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(aClaim(), ext.SchemeGroupVersion.WithKind(ext.KindClaim))}
	g.Expect(podLabels(s)).To(HaveKeyWithValue(LabelTemplate, Hash("t")))
}
