package memory

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// News is what Events have said of objects, by their UIDs, so that none is said
// again while nothing has changed. A new leader says it once more.
type News struct {
	mu   sync.Mutex
	said map[types.UID]string
}

// NewNews returns News of nothing.
func NewNews() *News { return &News{said: map[types.UID]string{}} }

// Tell reports whether a text about an object is new, and remembers it.
func (n *News) Tell(uid types.UID, text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.said[uid] == text {
		return false
	}
	n.said[uid] = text
	return true
}

// Forget drops what was said of an object: it is gone, or all is well with it.
func (n *News) Forget(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.said, uid)
}

// Len is of how many objects something was said.
func (n *News) Len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.said)
}
