package states

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// What is true of every decision, whatever it is about, and that no step goes on
// for ever.

// asking are the acts that ask the shelf or the API server.
var asking = []Act{AskShelf, ReadPool, ReadTemplate, ReadSandbox, ReadClaim, ReadPod, ProveFresh}

// worthWaiting are the reasons for which a step keeps what it has begun.
var worthWaiting = []Reason{ReasonInLine, ReasonWatchBehind, ReasonAdopting, ReasonUnprotected, ReasonPodMissing}

// incomplete says what a decision lacks, or has too much; it is empty if nothing.
func incomplete(d Decision) string {
	switch {
	case d.Reason == "":
		return "it has no reason"
	case d.After < 0:
		return "it looks again in the past"
	case d.After > 0 && !d.Ends():
		return "it looks again later, and has something to do now"
	case (d.Act == Move) != (d.About.Event != ""):
		return "a move names its edge, and nothing else does"
	case d.About.Beside != Rest && (d.Act != Adopt || d.About.Beside != ProveFresh) && (d.Act != Move || d.About.Part != PartPod || d.About.Beside != Annotate):
		return "freshness is proven beside an adoption, a claim is annotated beside a hand-over, and nothing else is done beside anything"
	case d.Act == Move && d.About.Part != PartSelf && d.About.Event != EventHanded:
		return "the hand-over is the one move of another object"
	case d.Act == Sync && d.About.Part == PartSelf:
		return "what is brought in line is named"
	case d.About.Plan != nil && d.Act != Create && d.Act != Retire:
		return "a plan is carried out or not there"
	case d.About.Report != nil && d.Act != Report:
		return "a report is written or not there"
	case d.About.Part != PartSelf && d.Act != Create && d.Act != Sync && d.Act != Delete && d.Act != Move:
		return "that act has no part"
	case d.Act == Sync && d.About.Part == PartSelf:
		return "it says nothing of what is to be brought in line"
	case d.Act == Wait && !slices.Contains(worthWaiting, d.Reason):
		return "that is nothing to wait for"
	case d.Act == Wait && d.Reason == ReasonInLine && d.After == 0:
		return "a wait in line ends some time"
	}
	return ""
}

// judged checks a decision, and that its move is an edge.
func judged(g *WithT, c Chart, from State, d Decision, facts any) {
	g.Expect(incomplete(d)).To(BeEmpty(), "%+v: %+v", facts, d)
	g.Expect(d.Ends()).To(Equal(d.Act == Rest || d.Act == Wait || d.Act == Retry))
	if d.Act == Move && d.About.Part == PartPod {
		c, from = Pod, Ready // the hand-over is a move of the pod
	}
	if d.Act == Move {
		_, err := c.Judge(from, d.About.Event)
		g.Expect(err).NotTo(HaveOccurred(), "%+v: %+v", facts, d)
	}
}

// once keeps a test of many thousand values quick: gomega is asked only about
// those that are wrong.
func once(t *testing.T, right bool, facts any, d any) {
	t.Helper()
	if !right {
		t.Fatalf("%+v: %+v", facts, d)
	}
}

// A steps follows a step until it ends, whatever the answers are. F are its facts.
type steps[F comparable] struct {
	decide func(F) Decision
	// answers are the facts after an effect, every one that can be. No answer at
	// all stands for one that is an error, which ends the step.
	answers func(F, Decision) []F
	// known is how many effects a step still has at most; under marks those that
	// are being followed.
	known map[F]int
	under map[F]bool
}

func newSteps[F comparable](decide func(F) Decision, answers func(F, Decision) []F) *steps[F] {
	return &steps[F]{decide: decide, answers: answers, known: map[F]int{}, under: map[F]bool{}}
}

// longest returns how many effects a step has at most, and how it comes round to
// where it was, if it does.
func (s *steps[F]) longest(f F) (n int, circle []string) {
	d := s.decide(f)
	if d.Ends() {
		return 0, nil
	}
	if n, ok := s.known[f]; ok {
		return n, nil
	}
	how := fmt.Sprintf("%s: %s", d.Act, d.Reason)
	if s.under[f] {
		return 0, []string{how}
	}
	s.under[f] = true
	defer delete(s.under, f)
	for _, then := range s.answers(f, d) {
		m, circle := s.longest(then)
		if circle != nil {
			return 0, append(circle, how)
		}
		n = max(n, m)
	}
	s.known[f] = n + 1
	return n + 1, nil
}

func (s *steps[F]) check(t *testing.T, f F, most int) int {
	t.Helper()
	n, circle := s.longest(f)
	if circle != nil || n > most {
		t.Fatalf("%+v: %d effects, %v", f, n, circle)
	}
	return n
}

// afterClaim are the facts of a claim after an effect, with every answer. A
// refusal begins the claim anew; without it, no answer leads back.
func afterClaim(f ClaimFacts, d Decision) (all []ClaimFacts) {
	add := func(change func(*ClaimFacts)) {
		then := f
		change(&then)
		all = append(all, then)
	}
	problems := []Reason{"", ReasonEnvRejected}
	asked := []Presence{PresenceShown, PresenceHidden, PresenceMissing}
	switch d.Act {
	case AskShelf:
		for _, o := range Offers[1:] {
			add(func(f *ClaimFacts) { f.Offer = o })
		}
	case ReadPool:
		for _, p := range asked {
			for _, template := range Presences[:2] {
				for _, problem := range problems {
					add(func(f *ClaimFacts) {
						if f.Pool = p; p == PresenceShown {
							f.Template, f.Problem, f.Strict = template, problem, !f.Strict
						}
					})
				}
			}
		}
	case ReadTemplate:
		for _, p := range asked {
			for _, problem := range problems {
				add(func(f *ClaimFacts) { f.Template, f.Problem = p, problem })
			}
		}
	case ReadSandbox:
		for _, p := range asked {
			add(func(f *ClaimFacts) { f.Sandbox = p })
		}
		for _, h := range Holdings[1:] { // it is the claim's after all
			add(func(f *ClaimFacts) { f.Holds = h })
		}
	case ProveFresh:
		for _, fresh := range Freshnesses[1:] {
			for _, outdated := range []bool{false, true} {
				add(func(f *ClaimFacts) { f.Freshness, f.Outdated = fresh, outdated })
			}
		}
	case Adopt:
		proofs := Freshnesses // the one beside it may have failed
		if d.About.Beside == Rest {
			proofs = []Freshness{f.Freshness}
		}
		for _, fresh := range proofs {
			for _, outdated := range []bool{false, true} {
				add(func(f *ClaimFacts) {
					f.Holds, f.Offer, f.Freshness, f.Outdated, f.Misannotated = HoldsWarm, OfferNone, fresh, outdated, true
					f.Handover = HandoverDue
				})
			}
		}
	case Create:
		for _, h := range []Holding{HoldsStarting, HoldsReady} {
			add(func(f *ClaimFacts) { f.Holds, f.Misannotated = h, true })
		}
		add(func(f *ClaimFacts) { f.Problem = ReasonNameTaken })
		add(func(f *ClaimFacts) { f.Problem = ReasonCreateRefused })
	case Move:
		if d.About.Part == PartPod {
			for _, h := range []Handover{HandoverDone, HandoverLacksPod} { // it may have vanished
				add(func(f *ClaimFacts) { f.Handover, f.Misannotated = h, f.Misannotated && d.About.Beside == Rest })
			}
			add(func(f *ClaimFacts) { f.Problem = ReasonHandoverRefused })
			break
		}
		edge, _ := Claim.Edge(f.State, d.About.Event)
		for _, said := range []Reason{"", ReasonHolds} {
			if f.Problem != "" && said != "" {
				said = f.Problem
			}
			add(func(f *ClaimFacts) { f.State, f.Named, f.Reported = edge.To, edge.To != Stale, said })
		}
	case Refuse:
		add(func(f *ClaimFacts) {
			f.Holds, f.Offer, f.Outdated, f.Refused, f.Mislabelled = HoldsNone, OfferNone, false, false, false
		})
	case Report:
		add(func(f *ClaimFacts) { f.Reported = d.Reason })
	case Annotate:
		add(func(f *ClaimFacts) { f.Misannotated = false })
	case Sync:
		add(func(f *ClaimFacts) { f.Mislabelled, f.Refused = false, false })
		if d.Reason == ReasonPodProblem {
			add(func(f *ClaimFacts) { f.Problem = ReasonCreateRefused })
		}
	case Delete:
		if d.About.Part == PartSandbox {
			add(func(f *ClaimFacts) { f.Holds = HoldsNone })
		} else {
			add(func(f *ClaimFacts) { f.Gone = true })
		}
	case Rest, Wait, Retry, ReadClaim, Retire, Label:
	}
	return all
}

// begun are the facts of claims at the beginning of a step: nobody was asked yet.
func begun(test func(ClaimFacts)) {
	for _, state := range []State{Binding, Warming, Bound, Stale} {
		for _, holds := range Holdings {
			for _, pool := range Presences[:2] {
				for _, template := range Presences[:2] {
					for _, fresh := range Freshnesses[:2] {
						for _, waited := range []time.Duration{0, WaitQuietly, maxWait} {
							for flags := range 1 << 6 {
								on := func(bit int) bool { return flags&(1<<bit) != 0 }
								f := ClaimFacts{
									State: state, Holds: holds, Pool: pool, Template: template, Freshness: fresh,
									Waited: waited, Still: waited, MaxWait: maxWait,
									Named: on(0), NeedsOwn: on(1), Misannotated: on(2), Strict: on(3), Outdated: on(4),
								}
								if on(5) {
									f.Problem = ReasonInvalidMetadata
								}
								test(f)
								f.Mislabelled, f.Refused = holds != HoldsNone, holds != HoldsNone && on(4)
								test(f)
								f.Lifetime = Lifetime{Ends: true, Left: time.Hour - time.Hour*time.Duration(flags&1), Deletes: on(1)}
								test(f)
							}
						}
					}
				}
			}
		}
	}
}

// mostEffects is how many effects a step has at most, but for those of a claim
// that refused a sandbox, and of a pool that takes several batches.
const mostEffects = 8

func TestEveryStepOfAClaimEnds(t *testing.T) {
	t.Run("whatever the answers are, and without a refusal after few effects", func(t *testing.T) {
		s := newSteps(StepClaim, func(f ClaimFacts, d Decision) []ClaimFacts {
			if d.Act == Refuse {
				return nil
			}
			return afterClaim(f, d)
		})
		longest := 0
		begun(func(f ClaimFacts) { longest = max(longest, s.check(t, f, mostEffects)) })
		t.Logf("at most %d effects", longest)
	})
	t.Run("after one refusal it begins anew, and ends after as few again", func(t *testing.T) {

		refused := newSteps(StepClaim, func(f ClaimFacts, d Decision) []ClaimFacts {
			if d.Act == Refuse {
				return nil
			}
			return afterClaim(f, d)
		})
		before, after := 0, 0
		s := newSteps(StepClaim, func(f ClaimFacts, d Decision) []ClaimFacts {
			all := afterClaim(f, d)
			if d.Act == Refuse {
				for _, then := range all {
					after = max(after, refused.check(t, then, mostEffects))
				}
				return nil
			}
			return all
		})
		begun(func(f ClaimFacts) { before = max(before, s.check(t, f, mostEffects)) })
		t.Logf("at most %d effects, and %d after a refusal", before, after)
	})
}

// afterSandbox are the facts of a sandbox after an effect, with every answer.
func afterSandbox(f SandboxFacts, d Decision) (all []SandboxFacts) {
	add := func(change func(*SandboxFacts)) {
		then := f
		change(&then)
		all = append(all, then)
	}
	switch d.Act {
	case AskShelf:
		for _, l := range loans[1:] {
			add(func(f *SandboxFacts) { f.Loan = l })
		}
	case ReadClaim:
		for _, h := range []Holder{HolderClaim, HolderGone, HolderElsewhere, HolderEnded, HolderHidden} {
			for _, knows := range []bool{false, true} {
				add(func(f *SandboxFacts) { f.Holder, f.ClaimKnows = h, knows && h == HolderClaim })
			}
		}
	case Create, Sync:
		add(func(f *SandboxFacts) { // the server refuses it: nothing else is tried in this step
			f.Volumes, f.Service, f.Drifted = UpkeepNone, UpkeepNone, false
			f.Blocked, f.Retryable, f.Readiness = true, true, ReasonPodProblem
			if f.Pod == PodAdoptable {
				f.Pod = PodForeign
			}
		})
		switch d.About.Part {
		case PartVolumes:
			add(func(f *SandboxFacts) { f.Volumes = UpkeepNone })
		case PartService:
			add(func(f *SandboxFacts) { f.Service = UpkeepNone })
		case PartPod:
			add(func(f *SandboxFacts) { f.Pod, f.Drifted, f.Readiness = PodStarting, false, ReasonPodPending })
			add(func(f *SandboxFacts) { f.Pod, f.Drifted, f.Readiness = PodReady, false, ReasonPodReady })
			add(func(f *SandboxFacts) { f.Pod, f.Readiness = PodForeign, ReasonPodForeign })
		case PartSelf, PartSandbox, PartPolicy:
		}
	case Move:
		edge, _ := Pod.Edge(f.State, d.About.Event)
		add(func(f *SandboxFacts) { f.State = edge.To })
	case Report:
		add(func(f *SandboxFacts) { f.Reported = d.Reason })
	case Retire:
		add(func(f *SandboxFacts) { f.Retired, f.Retire = true, "" })
	case ReadPool:
		for _, o := range []Orphan{OrphanNone, OrphanCurrent, OrphanOutdated} {
			add(func(f *SandboxFacts) { f.Orphan = o })
		}
	case Adopt:
		add(func(f *SandboxFacts) { f.Orphan, f.Holder = OrphanNone, HolderPool })
	case Delete:
		switch d.About.Part {
		case PartPod:
			add(func(f *SandboxFacts) { f.Pod, f.Readiness = PodTerminating, ReasonPodTerminating })
			add(func(f *SandboxFacts) { f.Pod, f.Readiness = PodNone, ReasonPodMissing })
		case PartService:
			add(func(f *SandboxFacts) { f.Service = UpkeepNone })
		case PartSelf, PartVolumes, PartSandbox, PartPolicy:
			add(func(f *SandboxFacts) { f.Gone = true })
			add(func(f *SandboxFacts) { f.Terminating = true })
		}
	case Rest, Wait, Retry, ReadTemplate, ReadSandbox, ProveFresh, Annotate, Refuse, Label:
	}
	return all
}

func TestEveryStepOfASandboxEnds(t *testing.T) {
	s := newSteps(StepSandbox, afterSandbox)
	longest := 0
	eachSandbox(func(f SandboxFacts) {
		if f.Loan == LoanUnknown && f.Reported == "" {
			longest = max(longest, s.check(t, f, mostEffects))
		}
	})
	t.Logf("at most %d effects", longest)
}

// afterTemplate are the facts of a template after an effect, with every answer.
func afterTemplate(f TemplateFacts, d Decision) (all []TemplateFacts) {
	add := func(change func(*TemplateFacts)) {
		then := f
		change(&then)
		all = append(all, then)
	}
	switch d.Act {
	case Create:
		add(func(f *TemplateFacts) { f.Policy = PolicyCurrent })
		add(func(f *TemplateFacts) { f.Policy, f.Told = PolicyForeign, false })
		add(func(f *TemplateFacts) { f.Refused, f.Told = true, false })
		add(func(f *TemplateFacts) { f.Refused, f.Told = true, true })
	case Sync:
		add(func(f *TemplateFacts) { f.Synced, f.Policy = true, PolicyCurrent })
		add(func(f *TemplateFacts) { f.Synced = true })
		add(func(f *TemplateFacts) { f.Refused, f.Told = true, false })
	case Delete:
		add(func(f *TemplateFacts) { f.Policy = PolicyNone })
		add(func(f *TemplateFacts) { f.Policy = PolicyTerminating })
	case Report:
		add(func(f *TemplateFacts) { f.Told = true })
	case Label:
		add(func(f *TemplateFacts) { f.Labelled = true })
	}
	return all
}

// eachTemplate calls test with every value of the facts of a template.
func eachTemplate(test func(f TemplateFacts)) {
	for _, policy := range policyViews {
		for flags := range 1 << 9 {
			on := func(bit int) bool { return flags&(1<<bit) != 0 }
			test(TemplateFacts{
				Policy: policy, Gone: on(0), Terminating: on(1), Labelled: on(2), Managed: on(3), Invalid: on(4), Used: on(5),
				Refused: on(6), Synced: on(7), Told: on(8),
			})
		}
	}
}

func TestEveryStepOfATemplateEnds(t *testing.T) {
	s := newSteps(StepTemplate, afterTemplate)
	longest := 0
	eachTemplate(func(f TemplateFacts) {
		longest = max(longest, s.check(t, f, mostEffects))
		judged(NewWithT(t), Pod, "", StepTemplate(f), f)
	})
	t.Logf("at most %d effects", longest)
}

func TestEveryStepOfAnnotationsEnds(t *testing.T) {
	s := newSteps(StepAnnotations, func(f AnnotationFacts, d Decision) []AnnotationFacts {
		f.Misannotated = false
		return []AnnotationFacts{f}
	})
	for _, f := range []AnnotationFacts{{}, {Gone: true}, {Misannotated: true}, {Gone: true, Misannotated: true}} {
		s.check(t, f, 1)
		judged(NewWithT(t), Claim, "", StepAnnotations(f), f)
		NewWithT(t).Expect(StepAnnotations(f).Act == Annotate).To(Equal(f.Misannotated && !f.Gone), "%+v", f)
	}
}

func TestTheListsAreComplete(t *testing.T) {
	for name, list := range map[string][]uint8{
		"holders": numbers(Holders), "pod views": numbers(PodViews), "presences": numbers(Presences), "loans": numbers(loans), "orphans": numbers(orphans),
		"upkeeps": numbers(upkeeps), "policy views": numbers(policyViews),
		"holdings": numbers(Holdings), "hand-overs": numbers(Handovers), "offers": numbers(Offers), "freshnesses": numbers(Freshnesses), "strategies": numbers(Strategies),
	} {
		t.Run(name, func(t *testing.T) {
			for i, n := range list {
				NewWithT(t).Expect(n).To(Equal(uint8(i)), "a value is missing or twice in the list")
			}
		})
	}
	t.Run("every act has a name of its own", func(t *testing.T) {
		var names []string
		for a := Rest; a <= Sync; a++ {
			names = append(names, a.String())
		}
		slices.Sort(names)
		NewWithT(t).Expect(slices.Compact(slices.Clone(names))).To(Equal(names))
	})
	t.Run("asking comes between ending and doing", func(t *testing.T) {
		for a := Rest; a <= Sync; a++ {
			NewWithT(t).Expect(slices.Contains(asking, a)).To(Equal(a > Retry && a < Move), "%s", a)
		}
	})
}

func numbers[E ~uint8](list []E) []uint8 {
	var out []uint8
	for _, e := range list {
		out = append(out, uint8(e))
	}
	return out
}
