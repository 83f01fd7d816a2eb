package states

// Counts are members by what a plan asks about each.
type Counts struct {
	// Fresh and FreshReady are the members of the current revision that are not ready
	// and that are, Old and OldReady those of another. None is on its way out.
	Fresh, FreshReady, Old, OldReady int
	// Hopeless are those of them that will never start, and that are outdated; Stuck
	// those that will not become free by themselves.
	Hopeless, Stuck int
}

// A Census is what is counted of a pool's members. It is kept up to date member by
// member, so that a pool of thousands costs what changed.
type Census struct {
	Counts
	// Warming are those that are starting, Refused those whose pod the API server does
	// not accept, Terminating those on their way out.
	Warming, Refused, Terminating int
	// Taken are those that claims are taking at this moment. They count as all others
	// do, and are never given up.
	Taken Counts
}

// Add counts a member.
func (c *Census) Add(m Member) { c.count(m, 1) }

// Remove takes a member out that was counted as it is given.
func (c *Census) Remove(m Member) { c.count(m, -1) }

// Take counts that a claim is taking a member, which was counted as it is given.
func (c *Census) Take(m Member) {
	if !m.Terminating {
		c.Taken.count(m, 1)
	}
}

// CensusOf counts members.
func CensusOf(members []Member) (c Census) {
	for _, m := range members {
		c.Add(m)
		if m.Taken {
			c.Take(m)
		}
	}
	return c
}

func (c *Census) count(m Member, n int) {
	if m.Terminating {
		c.Terminating += n
		return
	}
	c.Counts.count(m, n)
	if m.State == Warming {
		c.Warming += n
	}
	if m.Refused {
		c.Refused += n
	}
}

func (c *Counts) count(m Member, n int) {
	switch ready := m.State == Ready; {
	case m.Current && ready:
		c.FreshReady += n
	case m.Current:
		c.Fresh += n
	case ready:
		c.OldReady += n
	default:
		c.Old += n
	}
	if m.Hopeless() {
		c.Hopeless += n
	}
	if m.stuck() {
		c.Stuck += n
	}
}

func (c Counts) fresh() int { return c.Fresh + c.FreshReady }
func (c Counts) old() int   { return c.Old + c.OldReady }
func (c Counts) stay() int  { return c.fresh() + c.old() }
func (c Counts) free() int  { return c.FreshReady + c.OldReady }

// Free is how many members a claim may take.
func (c Census) Free() int { return c.left().free() }

// left are those that no claim is taking.
func (c Census) left() Counts {
	return Counts{
		Fresh: c.Fresh - c.Taken.Fresh, FreshReady: c.FreshReady - c.Taken.FreshReady,
		Old: c.Old - c.Taken.Old, OldReady: c.OldReady - c.Taken.OldReady,
		Hopeless: c.Hopeless - c.Taken.Hopeless, Stuck: c.Stuck - c.Taken.Stuck,
	}
}

// Hopeless reports whether a member's pod was refused and its template has changed
// since.
func (m Member) Hopeless() bool { return m.Refused && !m.Current }

// stuck reports whether a member will not become free by itself.
func (m Member) stuck() bool { return m.Stuck && m.State != Ready }

// census is what is counted of the members.
func (f PoolFacts) census() Census {
	if f.Counted != nil {
		return *f.Counted
	}
	return CensusOf(f.Members)
}
