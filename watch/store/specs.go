package store

import (
	"bytes"
	"hash/maphash"

	"k8s.io/utils/lru"
)

// specs keeps one copy of the pod specs that are the same byte for byte, as those of a
// pool's members are: a spec is most of what a sandbox weighs. It knows a number of
// specs, and forgets the one that was seen longest ago: of such there are more copies.
type specs struct {
	seed  maphash.Seed
	known *lru.Cache
}

// specsKnown is more than there are templates in use at one time on most clusters.
const specsKnown = 1000

func newSpecs(most int) specs { return specs{seed: maphash.MakeSeed(), known: lru.New(most)} }

// share returns bytes that are the same, and may be those of another sandbox. Nobody
// may change them.
func (s specs) share(spec []byte) []byte {
	key := maphash.Bytes(s.seed, spec)
	if had, ok := s.known.Get(key); ok && bytes.Equal(had.([]byte), spec) {
		return had.([]byte)
	}
	s.known.Add(key, spec)
	return spec
}
