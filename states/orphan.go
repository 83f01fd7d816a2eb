package states

// An Orphan is what is known of a pool's member that has lost its pool.
type Orphan uint8

// The orphans.
const (
	// OrphanNone: it is none, or there is no pool that may take it in.
	OrphanNone Orphan = iota
	// OrphanUnsure: the pool that the watch shows may be older than the loss. One that
	// is deleted and leaves its members behind must not get them back.
	OrphanUnsure
	// OrphanCurrent: a pool of the name exists, and it is of the pool's revision.
	OrphanCurrent
	// OrphanOutdated: a pool of the name exists, and it is of another revision.
	OrphanOutdated
)

// Orphaned reports whether a sandbox says of itself that it is a pool's member and has
// no owner: its pool was deleted and left it behind. One that a claim ever had says so
// and is none, whatever else it says: somebody's work is in it. A pod in a state that
// no member has was a claim's, too. Labels are the word of whoever may write
// sandboxes, who may as well name a pool as the owner; who may only make pods or claims
// can not write them.
func Orphaned(s Sandbox, pod State) bool {
	free := pod == Warming || pod == Ready
	return s.Owner.Kind == OwnerNone && s.Warm && s.Pool != "" && s.ClaimUID == "" && !s.leaves() && free
}

// adopted decides what becomes of an orphan, if a sandbox is one.
func (f SandboxFacts) adopted() (d Decision, orphan bool) {
	switch f.Orphan {
	case OrphanUnsure:
		return act(ReadPool, ReasonPoolUnseen), true
	case OrphanCurrent:
		return act(Adopt, ReasonOrphaned), true
	case OrphanOutdated:
		return act(Retire, ReasonOutdated), true
	case OrphanNone:
	}
	return Decision{}, false
}
