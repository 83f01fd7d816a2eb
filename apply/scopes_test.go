package apply

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v4/typed"

	"github.com/kiln-sandbox/kiln/states"
)

// fieldsOf is the set of fields that a configuration sets.
func fieldsOf(t *testing.T, config any) *fieldpath.Set {
	t.Helper()
	g := NewWithT(t)
	raw, err := json.Marshal(config)
	g.Expect(err).NotTo(HaveOccurred())
	var plain map[string]any
	g.Expect(json.Unmarshal(raw, &plain)).To(Succeed())
	value, err := typed.DeducedParseableType.FromUnstructured(plain)
	g.Expect(err).NotTo(HaveOccurred())
	set, err := value.ToFieldSet()
	g.Expect(err).NotTo(HaveOccurred())
	return set
}

func scopeOf(t *testing.T, m states.Manager, kind string) Scope {
	t.Helper()
	for _, s := range Scopes {
		if s.Manager == m && s.Kind == kind {
			return s
		}
	}
	t.Fatalf("%s has no scope on %s", m, kind)
	return Scope{}
}

func TestEveryConfigurationStaysInItsManagersScope(t *testing.T) {
	for _, c := range everyConfiguration(t) {
		t.Run(c.name, func(t *testing.T) {
			outside := scopeOf(t, c.manager, c.kind).Covers(fieldsOf(t, c.config))
			NewWithT(t).Expect(outside).To(BeEmpty(), "%s writes outside its scope", c.manager)
		})
	}
}

func TestAScopeNoticesAFieldOutsideIt(t *testing.T) {
	g := NewWithT(t)
	config := claimStatusConfig(aClaim(), aClaim().Status)
	config.WithLabels(map[string]string{"mine": "not"})
	g.Expect(scopeOf(t, states.ClaimManager, "claimstatus").Covers(fieldsOf(t, config))).To(HaveLen(1))
	g.Expect(scopeOf(t, states.StateManager, "pod").Covers(fieldsOf(t, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{LabelRevision: "x"}},
		"spec":     map[string]any{"nodeName": "n"},
	}))).To(HaveLen(2))
}

// objectOf is the kind of the object that a scope's kind is a part of.
var objectOf = map[string]string{
	"sandbox": "sandbox", "sandboxstatus": "sandbox", "pod": "pod", "service": "service", "persistentvolumeclaim": "persistentvolumeclaim",
	"claim": "claim", "claimstatus": "claim", "poolstatus": "pool", "template": "template",
	"policy": "policy",
}

func TestTwoManagersNeverOwnTheSameField(t *testing.T) {
	for i, a := range Scopes {
		for _, b := range Scopes[i+1:] {
			if objectOf[a.Kind] != objectOf[b.Kind] || a.Manager == b.Manager {
				continue
			}
			g := NewWithT(t)
			g.Expect(overlap(a.own, b.own)).To(BeEmpty(), "%s and %s on %s", a.Manager, b.Manager, a.Kind)
			if a.keys != noKeys {
				g.Expect(a.keys).NotTo(Equal(b.keys), "%s and %s may own the same users' keys", a.Manager, b.Manager)
			}
		}
	}
}

// overlap lists the fields of one set that are in another, or below one of its
// fields.
func overlap(a, b *fieldpath.Set) (both []string) {
	within := func(in, of *fieldpath.Set) {
		in.Leaves().Iterate(func(p fieldpath.Path) {
			for i := range p {
				if of.Has(p[:i+1]) {
					both = append(both, p.String())
				}
			}
		})
	}
	within(a, b)
	within(b, a)
	return both
}

func TestAnOverlapIsFound(t *testing.T) {
	NewWithT(t).Expect(overlap(fields(at("spec")), fields(at("spec.podTemplate")))).NotTo(BeEmpty())
}

func TestWhatIsWrittenWithTheCreationOnlyHasAnotherManagerThatOwnsIt(t *testing.T) {
	g := NewWithT(t)
	creation, moves := scopeOf(t, states.PodManager, "pod"), scopeOf(t, states.StateManager, "pod")
	g.Expect(moves.Covers(creation.once)).To(BeEmpty())
	g.Expect(overlap(creation.once, creation.own)).To(BeEmpty())
}
