package client

import (
	stdjson "encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

// heads are how answers begin.
var heads = []string{
	`{"apiVersion":"agents.x-k8s.io/v1beta1","kind":"Sandbox","metadata":{"name":"a"}}`,
	`{"apiVersion":"v1","kind":"Status","status":"Failure"}`,
	`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure"}`,
	`{"apiVersion":"agents.x-k8s.io/v1beta1","items":[{"kind":"Sandbox"}],"kind":"SandboxList"}`,
	`{"type":"ADDED","object":{"apiVersion":"agents.x-k8s.io/v1beta1","kind":"Sandbox"}}`,
	`{"type":"Opaque","kind":"Secret","apiVersion":"v1"}`,
	`{"apiVersion":"a\u0062","kind":"Sandbox"}`,
	`{"apiVersion":"a/b/c","kind":"Sandbox"}`,
	` { "apiVersion" : "v1" , "kind" : "Pod" } `,
	`{"apiVersion":"v1","kind":`,
	`{"apiVersion":"v1`,
	`{"type":"ADDED"`,
	`{}`, `[]`, `null`, ``,
}

func TestTheKindOfAnObjectIsWhatClientGoSaysItIs(t *testing.T) {
	for _, text := range heads {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			want, wrong := json.DefaultMetaFactory.Interpret([]byte(text))
			got, err := kinds{}.Interpret([]byte(text))
			g.Expect(got).To(Equal(want))
			if wrong == nil {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(wrong.Error()))
		})
	}
}

// big is a sandbox as an event of a watch brings it.
func big(t testing.TB) (object, event []byte) {
	t.Helper()
	s := agents.Sandbox{TypeMeta: metav1.TypeMeta{APIVersion: "agents.x-k8s.io/v1beta1", Kind: "Sandbox"}}
	s.Name = "a"
	s.Annotations = map[string]string{"long": strings.Repeat("x", 10_000)}
	text, err := stdjson.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	// The API server writes the keys in order.
	var sorted map[string]any
	if err := stdjson.Unmarshal(text, &sorted); err != nil {
		t.Fatal(err)
	}
	if object, err = stdjson.Marshal(sorted); err != nil {
		t.Fatal(err)
	}
	if event, err = stdjson.Marshal(struct {
		Type   string             `json:"type"`
		Object stdjson.RawMessage `json:"object"`
	}{"MODIFIED", object}); err != nil {
		t.Fatal(err)
	}
	return object, event
}

// Parsing takes memory for what it parses; the first bytes need three strings at most.
func TestTheKindIsFoundWithoutParsing(t *testing.T) {
	object, event := big(t)
	for name, data := range map[string][]byte{"an object": object, "an event": event} {
		t.Run(name, func(t *testing.T) {
			allocations := testing.AllocsPerRun(100, func() {
				if _, err := (kinds{}).Interpret(data); err != nil {
					t.Fatal(err)
				}
			})
			NewWithT(t).Expect(allocations).To(BeNumerically("<=", 3))
		})
	}
}

func BenchmarkInterpret(b *testing.B) {
	object, event := big(b)
	for name, data := range map[string][]byte{"object": object, "event": event} {
		for by, factory := range map[string]json.MetaFactory{"kiln": kinds{}, "client-go": json.DefaultMetaFactory} {
			b.Run(name+"/"+by, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := factory.Interpret(data); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
