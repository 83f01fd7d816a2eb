package memory

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

// PodsInFlight are the sandboxes whose pods are being made at this moment. Should
// such a sandbox end before the answer has come, its pod is made all the same.
type PodsInFlight struct {
	mu  sync.Mutex
	all map[types.UID]*agents.Sandbox
}

// NewPodsInFlight returns a set without pods.
func NewPodsInFlight() *PodsInFlight { return &PodsInFlight{all: map[types.UID]*agents.Sandbox{}} }

// Begin takes in that the pod of a sandbox is about to be made.
func (p *PodsInFlight) Begin(s *agents.Sandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[s.UID] = s
}

// End takes in that the answer has come.
func (p *PodsInFlight) End(s *agents.Sandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, s.UID)
}

// Of lists the sandboxes of a pool whose pods are being made. Owner references are
// free text, so none of another namespace is the pool's, whatever it says.
func (p *PodsInFlight) Of(pool metav1.Object) (all []*agents.Sandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.all {
		if s.Namespace == pool.GetNamespace() && apply.ControlledBy(pool.GetUID(), s) {
			all = append(all, s)
		}
	}
	return all
}

// Len is how many pods are being made.
func (p *PodsInFlight) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}
