package store

import (
	"bytes"
	"hash/maphash"
	"maps"

	"k8s.io/utils/lru"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

// specs keeps one copy of the pod specs that are the same byte for byte, as those of a
// pool's members are, and of the labels and annotations beside them: they are most of what
// a sandbox weighs. It knows a number of specs, and forgets the one that was seen longest
// ago: of such there are more copies.
type specs struct {
	seed  maphash.Seed
	known *lru.Cache
}

// specsKnown is more than there are templates in use at one time on most clusters.
const specsKnown = 1000

func newSpecs(most int) specs { return specs{seed: maphash.MakeSeed(), known: lru.New(most)} }

// share lets a pod template share what it has in common with that of another sandbox.
// Nobody may change it.
func (s specs) share(t *agents.PodTemplate) {
	key := maphash.Bytes(s.seed, t.Spec.Raw)
	known, ok := s.known.Get(key)
	if !ok || !bytes.Equal(known.(agents.PodTemplate).Spec.Raw, t.Spec.Raw) {
		s.known.Add(key, *t)
		return
	}
	other := known.(agents.PodTemplate)
	t.Spec.Raw = other.Spec.Raw
	if maps.Equal(t.ObjectMeta.Labels, other.ObjectMeta.Labels) {
		t.ObjectMeta.Labels = other.ObjectMeta.Labels
	}
	if maps.Equal(t.ObjectMeta.Annotations, other.ObjectMeta.Annotations) {
		t.ObjectMeta.Annotations = other.ObjectMeta.Annotations
	}
}
