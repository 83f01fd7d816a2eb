package bench

import (
	"math"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestAPercentileIsAValueThatWasMeasured(t *testing.T) {
	g := NewWithT(t)
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(i+1))
	}
	for p, value := range map[float64]float64{0: 1, 1: 1, 50: 50, 90: 90, 99: 99, 99.5: 100, 100: 100} {
		g.Expect(percentile(hundred, p)).To(Equal(value), "p%v", p)
	}
	g.Expect(percentile([]float64{7}, 50)).To(Equal(7.0))
	g.Expect(percentile([]float64{1, 2, 3}, 50)).To(Equal(2.0))
	g.Expect(percentile([]float64{1, 2}, 99)).To(Equal(2.0))
	g.Expect(percentile(nil, 50)).To(BeZero())
	g.Expect(distribution([]float64{3, 1, 2})).To(Equal(Latency{P50: 2, P90: 3, P99: 3, Max: 3, Mean: 2}))
}

func TestArrivalsAreAPoissonProcessThatCanBeRepeated(t *testing.T) {
	g := NewWithT(t)
	const rate = 50.0
	until := func(seed uint64) (all []time.Duration) {
		for at := range arrivals(seed, rate) {
			if at >= 400*time.Second {
				break
			}
			all = append(all, at)
		}
		return all
	}
	all := until(7)
	g.Expect(until(7)).To(Equal(all), "the same seed")
	g.Expect(until(8)).NotTo(Equal(all), "another seed")
	g.Expect(slices.IsSorted(all)).To(BeTrue())
	// The number of 20,000 expected arrivals varies by 141; five times that is never met
	// by a process of the wrong rate.
	g.Expect(len(all)).To(BeNumerically("~", 20_000, 700))
	// Of exponential gaps one in e is longer than the mean, and their deviation is the mean.
	long, squares := 0, 0.0
	for i := 1; i < len(all); i++ {
		gap := (all[i] - all[i-1]).Seconds() * rate
		if gap > 1 {
			long++
		}
		squares += (gap - 1) * (gap - 1)
	}
	g.Expect(float64(long) / float64(len(all))).To(BeNumerically("~", 1/math.E, 0.02))
	g.Expect(math.Sqrt(squares / float64(len(all)))).To(BeNumerically("~", 1, 0.05))
}

// bound is a life of a claim that was served.
func bound(name, sandbox string, asked, bound time.Duration) life {
	return life{name: name, asked: asked, answered: asked + 1, seen: asked + 2, bound: bound, served: bound, sandbox: sandbox, sandboxes: []string{sandbox + "/"}}
}

func TestTheLivesOfClaimsAreSummedUp(t *testing.T) {
	g := NewWithT(t)
	r := summarize([]life{
		bound("b", "pool-1", 1*time.Second, 2*time.Second),
		bound("a", "pool-2", 0, 4*time.Second),
		bound("c", "c", 2*time.Second, 3*time.Second), // named as its claim: a cold start
		{name: "d", asked: 3 * time.Second, answered: 4 * time.Second},
	})
	g.Expect(r.Claims).To(Equal(4))
	g.Expect(r.Ready).To(Equal(3))
	g.Expect(r.Latency.P50).To(Equal(1000.0))
	g.Expect(r.Latency.Max).To(Equal(4000.0))
	g.Expect(r.WarmServedFraction).To(BeNumerically("~", 2.0/3))
	g.Expect(r.AllReadySeconds).To(Equal(4.0))
	g.Expect(r.SubmitQPS).To(Equal(1.0))
	g.Expect(r.CompletionQPS).To(Equal(0.75))
	g.Expect(r.PeakConcurrency).To(Equal(2), "b is served when c is asked for: at no time three wait")
	g.Expect(r.Overtaken).To(Equal(2000.0), "a waits on for two seconds when b is served")
	g.Expect(r.Timeline).To(HaveLen(4))
	g.Expect(r.Timeline[0].Bound).To(Equal(4000.0), "the timeline is in the order of asking")
	g.Expect(r.Timeline[2].Cold).To(BeTrue())
	g.Expect(summarize(nil).Claims).To(BeZero())
	inTurn := summarize([]life{bound("a", "pool-1", 0, 2*time.Second), bound("b", "pool-2", time.Second, 3*time.Second)})
	g.Expect(inTurn.Overtaken).To(BeZero(), "the first that came was served first")
}

func TestALedgerTakesTheFirstEventInWhichAClaimIsReadyAndNamesItsSandbox(t *testing.T) {
	g := NewWithT(t)
	l := newLedger()
	one := l.ask("a")
	at := func(seconds int) time.Time { return l.begun.Add(time.Duration(seconds) * time.Second) }
	tell := func(second int, kind, claim, sandbox, ready string) {
		e := event{Type: kind}
		e.Object.Metadata.Name, e.Object.Status.Sandbox.Name = claim, sandbox
		e.Object.Status.Conditions = []condition{{Type: "Ready", Status: ready}}
		l.see(at(second), e)
	}
	tell(1, added, "a", "", "")
	tell(2, "MODIFIED", "a", "", "True")
	tell(3, "MODIFIED", "a", "s", "False")
	tell(4, "MODIFIED", "b", "t", "True")
	g.Expect(one.bound).To(BeZero())
	tell(5, "MODIFIED", "a", "s", "True")
	g.Expect(one.bound).NotTo(BeZero())
	g.Expect(one.done).NotTo(BeClosed(), "its pod has not said that it is the claim's")
	tell(6, "MODIFIED", "a", "u", "True")
	tell(7, deleted, "a", "v", "True")
	lives, _ := l.close()
	g.Expect(lives).To(HaveLen(1), "what nobody asked for is not ours")
	g.Expect(lives[0].seen).To(Equal(time.Second))
	g.Expect(lives[0].bound).To(Equal(5 * time.Second))
	g.Expect(lives[0].sandbox).To(Equal("s"))
	g.Expect(lives[0].sandboxes).To(Equal([]string{"s/", "u/"}), "every sandbox it was told of")
}

func TestAClaimIsServedWhenItIsReadyAndItsPodSaysThatItIsTheClaims(t *testing.T) {
	hash := "1a2b3c4d"
	type said struct {
		claim, pod string // resource versions; of the pod, as it becomes the claim's
		podFirst   bool
		labels     labels
	}
	for name, row := range map[string]struct {
		said
		served      time.Duration
		unreachable bool
	}{
		"the pod was written first, and seen first":   {said{"7", "6", true, labels{ClaimUID: "u"}}, 2 * time.Second, false},
		"the pod was written first, and seen last":    {said{"7", "6", false, labels{ClaimUID: "u"}}, 2 * time.Second, false},
		"the claim was written first":                 {said{"7", "8", false, labels{ClaimUID: "u"}}, 2 * time.Second, true},
		"a later version has more digits":             {said{"9", "10", false, labels{ClaimUID: "u"}}, 2 * time.Second, true},
		"the pod still has the pool's label":          {said{"7", "6", true, labels{ClaimUID: "u", Pool: &hash}}, 0, true},
		"the pod is another claim's of the same name": {said{"7", "6", true, labels{ClaimUID: "v"}}, 0, true},
		"the pod lacks the claim's UID, as all do":    {said{"7", "6", true, labels{}}, 2 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			l := newLedger()
			one := l.ask("a")
			claim, pod := event{Type: added}, event{Type: added}
			claim.Object.Metadata.Name, claim.Object.Metadata.UID, claim.Object.Metadata.ResourceVersion = "a", "u", row.claim
			claim.Object.Status.Sandbox.Name, claim.Object.Status.Conditions = "s", []condition{{Type: "Ready", Status: "True"}}
			pod.Object.Metadata.Name, pod.Object.Metadata.ResourceVersion, pod.Object.Metadata.Labels = "s", row.pod, row.labels
			first, second := func(at time.Time) { l.see(at, claim) }, func(at time.Time) { l.seePod(at, pod) }
			if row.podFirst {
				first, second = second, first
			}
			first(l.begun.Add(time.Second))
			second(l.begun.Add(2 * time.Second))
			lives, _ := l.close()
			g.Expect(lives[0].served).To(Equal(row.served))
			g.Expect(lives[0].unreachable).To(Equal(row.unreachable))
			if row.served > 0 {
				g.Expect(one.done).To(BeClosed())
			}
			checks, _ := judge(lives)
			g.Expect(checks.UnreachableAtReady > 0).To(Equal(row.unreachable))
		})
	}
	t.Run("a pod lacks the claim's UID, and others have theirs", func(t *testing.T) {
		g := NewWithT(t)
		l := newLedger()
		one := l.ask("a")
		claim, pod, other := event{Type: added}, event{Type: added}, event{Type: added}
		claim.Object.Metadata.Name, claim.Object.Metadata.UID = "a", "u"
		claim.Object.Status.Sandbox.Name, claim.Object.Status.Conditions = "s", []condition{{Type: "Ready", Status: "True"}}
		pod.Object.Metadata.Name, other.Object.Metadata.Name, other.Object.Metadata.Labels.ClaimUID = "s", "t", "v"
		l.seePod(l.begun, other)
		l.seePod(l.begun, pod)
		l.see(l.begun.Add(time.Second), claim)
		g.Expect(one.done).NotTo(BeClosed())
	})
	t.Run("a floor has no pods to look at", func(t *testing.T) {
		g := NewWithT(t)
		l := newLedger()
		l.ignorePods()
		one := l.ask("a")
		e := event{Type: added}
		e.Object.Metadata.Name, e.Object.Status.Sandbox.Name, e.Object.Status.Conditions = "a", "s", []condition{{Type: "Ready", Status: "True"}}
		l.see(l.begun.Add(time.Second), e)
		g.Expect(one.done).To(BeClosed())
		lives, _ := l.close()
		g.Expect(lives[0].unreachable).To(BeFalse())
	})
}
