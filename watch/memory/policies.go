package memory

import (
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/states"
)

// PolicyDeletions are the templates whose NetworkPolicy is being deleted. The stores show
// such a policy until the API server has answered, and nothing may be started under it.
type PolicyDeletions struct {
	mu  sync.Mutex
	all map[cache.ObjectName]struct{}
}

// NewPolicyDeletions returns a set without templates.
func NewPolicyDeletions() *PolicyDeletions {
	return &PolicyDeletions{all: map[cache.ObjectName]struct{}{}}
}

// Begin notes that the policy of a template is about to be deleted. Whether something
// still needs it has to be asked after that: who looks later finds it going.
func (p *PolicyDeletions) Begin(template cache.ObjectName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[template] = struct{}{}
}

// End notes that the stores show what became of the policy.
func (p *PolicyDeletions) End(template cache.ObjectName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, template)
}

// Underway reports whether the policy of a template is being deleted.
func (p *PolicyDeletions) Underway(template cache.ObjectName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.all[template]
	return ok
}

// Len is how many policies are being deleted.
func (p *PolicyDeletions) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}

// PolicyProblems are the templates whose NetworkPolicy cannot be what it should be.
type PolicyProblems struct {
	mu  sync.Mutex
	all map[cache.ObjectName]PolicyProblem
}

// A PolicyProblem is the code of what is wrong, and a message for a person. The zero
// value is none.
type PolicyProblem struct {
	Reason  states.Reason
	Message string
}

// NewPolicyProblems returns a set without templates.
func NewPolicyProblems() *PolicyProblems {
	return &PolicyProblems{all: map[cache.ObjectName]PolicyProblem{}}
}

// Set remembers what is wrong with the policy of a template, or that nothing is.
func (p *PolicyProblems) Set(template cache.ObjectName, is PolicyProblem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if is == (PolicyProblem{}) {
		delete(p.all, template)
		return
	}
	p.all[template] = is
}

// Of is what is wrong with the policy of a template.
func (p *PolicyProblems) Of(template cache.ObjectName) PolicyProblem {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[template]
}

// Len is how many templates it has problems of.
func (p *PolicyProblems) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}
