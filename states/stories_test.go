package states

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kiln-sandbox/kiln/states/stories"
)

// TestEveryStoryIsTold plays the stories that are also played on a real API server
// in a world of plain values: every step is the package's own, and is over before
// the next begins.
func TestEveryStoryIsTold(t *testing.T) {
	all, err := stories.All()
	if err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	for _, story := range all {
		t.Run(story.Name, func(t *testing.T) {
			s := stage{T: t, template: 1}
			s.rise()
			var moved [][]stories.Transition
			for _, step := range story.Steps {
				s.moved = nil
				for _, c := range step.Commands {
					s.command(c)
				}
				s.settle()
				moved = append(moved, s.moved)
			}
			if err := story.Check(moved); err != nil {
				t.Error(err)
			}
		})
	}
}

// A stage is the world of a story: everything there is, and what one controller
// remembers.
type stage struct {
	*testing.T
	template, made int
	podsHeld       bool
	pools          []*poolOnStage
	claims         []*claimOnStage
	boxes          []*boxOnStage
	// shelves are by pool; open are the members of which a claim is about to be told.
	shelves map[string]*Shelf[string]
	open    []string
	moved   []stories.Transition
}

type poolOnStage struct {
	name     string
	replicas int
	policy   UpdatePolicy
}

type claimOnStage struct {
	ClaimView
	name, pool string
}

type boxOnStage struct {
	Sandbox
	// pool is where it was made; its owner is who has it.
	pool     string
	revision int
	pod      PodView
	state    State
}

// rise begins a controller, with nothing in its memory.
func (s *stage) rise() { s.shelves, s.open = map[string]*Shelf[string]{}, nil }

func (s *stage) command(c stories.Command) {
	switch c.Verb {
	case stories.Pool:
		strategies := map[string]Strategy{"": OnReplenish, "OnReplenish": OnReplenish, "Recreate": Recreate, "RollingUpdate": Rolling}
		strategy, known := strategies[c.Strategy]
		if !known {
			s.Fatalf("no strategy %q", c.Strategy)
		}
		s.pools = append(s.pools, &poolOnStage{c.Name, c.Size, UpdatePolicy{Strategy: strategy}})
	case stories.Scale:
		s.poolOf(c.Name).replicas = c.Size
	case stories.Claim:
		s.made++
		s.claims = append(s.claims, &claimOnStage{ClaimView{UID: fmt.Sprint("claim-", s.made), State: Binding}, c.Name, c.Pool})
	case stories.DeleteClaim:
		s.claims = slices.DeleteFunc(s.claims, func(is *claimOnStage) bool { return is.name == c.Name })
	case stories.DeleteSandbox:
		claim := s.claimOf(c.Name)
		s.boxes = slices.DeleteFunc(s.boxes, func(b *boxOnStage) bool { return claim.Names(b.Sandbox) })
	case stories.HoldPods:
		s.podsHeld = true
	case stories.ReleasePods:
		s.podsHeld = false
	case stories.Crash:
		s.rise()
	case stories.TemplateChange:
		s.template++
	default:
		s.Fatalf("no verb %q", c.Verb)
	}
}

func (s *stage) poolOf(name string) *poolOnStage {
	return s.pools[slices.IndexFunc(s.pools, func(p *poolOnStage) bool { return p.name == name })]
}

// claimOf is the claim of a name, or of a UID; nil when there is none.
func (s *stage) claimOf(name string) *claimOnStage {
	i := slices.IndexFunc(s.claims, func(c *claimOnStage) bool { return c.name == name || c.UID == name })
	if i < 0 {
		return nil
	}
	return s.claims[i]
}

// settle has everything step until nothing moves any more.
func (s *stage) settle() {
	for range 100 {
		before := s.String()
		for _, b := range s.boxes {
			if b.pod == PodStarting && !s.podsHeld {
				b.pod = PodReady
			}
		}
		s.boxes = slices.DeleteFunc(s.boxes, func(b *boxOnStage) bool { // as the garbage collector does
			return b.Owner.Kind == OwnerClaim && s.claimOf(b.Owner.UID) == nil
		})
		for _, b := range slices.Clone(s.boxes) {
			s.stepBox(b, "")
		}
		s.shelve()
		for _, c := range s.claims {
			s.stepClaim(c)
		}
		for _, p := range s.pools {
			s.stepPool(p)
		}
		if s.String() == before {
			return
		}
	}
	s.Fatal("it never comes to rest")
}

// String is all there is, so that two moments can be compared.
func (s *stage) String() string {
	var out []byte
	for _, c := range s.claims {
		out = fmt.Appendln(out, *c)
	}
	for _, b := range s.boxes {
		out = fmt.Appendln(out, *b)
	}
	return string(out)
}

// move goes along an edge, and tells of it.
func (s *stage) move(c Chart, name, pool string, from State, event Event) State {
	edge, err := c.Judge(from, event)
	if err != nil {
		s.Fatal(err)
	}
	s.moved = append(s.moved, stories.Transition{
		Kind: c.Kind, Name: name, Pool: pool, From: string(edge.From), To: string(edge.To), Event: string(edge.Event), By: string(edge.By),
	})
	return edge.To
}

func (s *stage) memberOf(b *boxOnStage) Member {
	_, lent := s.shelf(b.pool).Borrower(b.Name)
	return Member{
		Name: b.Name, Pod: b.pod, State: b.state, Current: b.revision == s.template, Terminating: b.leaves(),
		Taken: b.state == Ready && lent, Born: at(b.revision),
	}
}

func (s *stage) shelf(pool string) *Shelf[string] {
	if s.shelves[pool] == nil {
		s.shelves[pool] = NewShelf[string]()
	}
	return s.shelves[pool]
}

// shelve brings the shelves in line with what there is.
func (s *stage) shelve() {
	for _, b := range s.boxes {
		if b.pool == "" {
			continue
		}
		switch PlaceOf(s.memberOf(b), b.Sandbox, s.poolOf(b.pool).policy.Strict()) {
		case PlaceFree:
			s.shelf(b.pool).Put(Entry{Name: b.Name, Current: b.revision == s.template}, time.Time{})
		case PlaceComing:
			s.shelf(b.pool).Coming(b.Name)
		case PlaceNone:
			s.shelf(b.pool).Drop(b.Name)
		}
	}
}

func (s *stage) stepClaim(c *claimOnStage) {
	policy := s.poolOf(c.pool).policy
	f := ClaimFacts{Pool: PresenceShown, Template: PresenceShown, MaxWait: time.Hour, Strict: policy.Strict()}
	var offered string
	for range mostEffects + 1 {
		var owned []Sandbox
		for _, b := range s.boxes {
			owned = append(owned, b.Sandbox)
		}
		held := c.Held(owned)
		f.State, f.Named, f.Holds = c.State, c.SandboxName != "", HoldsNone
		if held >= 0 {
			f.Holds = HoldingOf(owned[held])
			f.Handover = HandoverOf(owned[held], s.boxes[held].pod, s.boxes[held].state)
		}
		d := StepClaim(f)
		switch d.Act {
		case Rest, Wait, Retry:
			s.open = nil
			return
		case AskShelf:
			var e Entry
			e, f.Offer = s.shelf(c.pool).Take(c.UID, at(0))
			offered = e.Name
		case ReadSandbox:
			f.Sandbox = c.Loses(s.read(c.SandboxName))
		case ProveFresh:
			f.Freshness = FreshnessProven
		case Adopt:
			s.shelf(c.pool).Done(c.UID)
			s.adopt(s.boxOf(offered), c)
			f.Offer = OfferNone
			s.stepBox(s.boxOf(offered), "") // the other loops look at once, and wait
			s.stepPool(s.poolOf(c.pool))
		case Create:
			s.shelf(c.pool).GiveBack(c.UID, time.Time{})
			s.boxes = append(s.boxes, &boxOnStage{Sandbox: s.given(Sandbox{Name: c.name}, c), revision: s.template, state: Warming})
		case Move:
			if d.About.Part == PartPod {
				b := s.boxes[held]
				b.state = s.move(Pod, b.Name, b.pool, b.state, d.About.Event)
				break
			}
			c.State = s.move(Claim, c.name, "", c.State, d.About.Event)
			if d.About.Event != EventLost {
				c.SandboxName, c.SandboxUID = owned[held].Name, owned[held].UID
			}
		case Report:
			f.Reported = d.Reason
		case ReadPool, ReadTemplate, ReadClaim, Annotate, Refuse, Retire, Delete, Sync, Label:
			s.Fatalf("claim %s: %v", c.name, d)
		}
	}
	s.Fatalf("claim %s steps for ever", c.name)
}

func (s *stage) adopt(b *boxOnStage, c *claimOnStage) {
	b.Sandbox = s.given(b.Sandbox, c)
	s.open = append(s.open, b.Name)
}

// given is a sandbox that is a claim's.
func (s *stage) given(b Sandbox, c *claimOnStage) Sandbox {
	s.made++
	if b.UID == "" {
		b.UID = fmt.Sprint("sandbox-", s.made)
	}
	b.Owner, b.ClaimUID = Owner{OwnerClaim, c.name, c.UID}, c.UID
	return b
}

func (s *stage) boxOf(name string) *boxOnStage {
	i := slices.IndexFunc(s.boxes, func(b *boxOnStage) bool { return b.Name == name })
	if i < 0 {
		return nil
	}
	return s.boxes[i]
}

// read is what the API server says of a sandbox.
func (s *stage) read(name string) (Sandbox, Presence) {
	if b := s.boxOf(name); b != nil {
		return b.Sandbox, PresenceShown
	}
	return Sandbox{}, PresenceMissing
}

func (s *stage) stepBox(b *boxOnStage, retire Reason) {
	f := SandboxFacts{Retire: retire}
	for range mostEffects + 1 {
		var claim ClaimView
		is := PresenceMissing
		if c := s.claimOf(b.Owner.UID); c != nil {
			claim, is = c.ClaimView, PresenceShown
		}
		f.Retired, f.Warm, f.Pod, f.State = b.Retired, b.Warm, b.pod, b.state
		f.Holder, f.ClaimKnows = HolderOf(b.Sandbox, claim, is), is == PresenceShown && claim.Knows(b.Sandbox)
		f.Own = b.Sandbox.OwnOf(claim)
		f.Readiness = ReadinessOf(PodFacts{View: b.pod, Phase: PodPhaseRunning})
		d := StepSandbox(f)
		switch d.Act {
		case Rest, Wait, Retry:
			return
		case AskShelf:
			if f.Loan = LoanClosed; slices.Contains(s.open, b.Name) {
				f.Loan = LoanOpen
			}
		case Create:
			b.pod, b.state = PodStarting, Warming
		case Report:
			f.Reported, b.Ready = d.Reason, d.Reason == ReasonPodReady
		case Move:
			b.state = s.move(Pod, b.Name, b.pool, b.state, d.About.Event)
		case Retire:
			b.Retired = true
		case Delete:
			s.boxes = slices.DeleteFunc(s.boxes, func(is *boxOnStage) bool { return is == b })
			if b.pool != "" {
				s.shelf(b.pool).Drop(b.Name)
			}
			return
		case ReadPool, ReadTemplate, ReadSandbox, ReadClaim, ReadPod, ProveFresh, Annotate, Adopt, Refuse, Sync, Label:
			s.Fatalf("sandbox %s: %v", b.Name, d)
		}
	}
	s.Fatalf("sandbox %s steps for ever", b.Name)
}

func (s *stage) stepPool(p *poolOnStage) {
	f := PoolFacts{
		Replicas: p.replicas, Template: PresenceShown, Strategy: p.policy.Strategy, Budget: p.policy.Budget(p.replicas), Batch: 10,
	}
	for range mostEffects + 1 {
		f.Members = nil
		for _, b := range s.boxes {
			if b.Owner.Kind == OwnerPool && b.pool == p.name {
				f.Members = append(f.Members, s.memberOf(b))
			}
		}
		d := StepPool(f)
		switch d.Act {
		case Rest, Wait, Retry:
			return
		case AskShelf:
			f.LoansKnown, f.Handing = true, len(s.open)
		case Create:
			for range d.About.Plan.Create {
				s.made++
				s.boxes = append(s.boxes, &boxOnStage{pool: p.name, revision: s.template, state: Warming, Sandbox: Sandbox{
					Name: fmt.Sprint(p.name, "-", s.made), UID: fmt.Sprint("sandbox-", s.made), Owner: Owner{OwnerPool, p.name, p.name}, Warm: true,
				}})
			}
		case Retire:
			for _, r := range d.About.Plan.Retire {
				s.stepBox(s.boxOf(r.Name), r.Reason)
			}
		case ReadPool, ReadTemplate, ReadSandbox, ReadClaim, ReadPod, ProveFresh, Move, Report, Annotate, Adopt, Refuse, Delete, Sync, Label:
			s.Fatalf("pool %s: %v", p.name, d)
		}
	}
	s.Fatalf("pool %s steps for ever", p.name)
}
