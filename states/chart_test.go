package states

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	. "github.com/onsi/gomega"
)

var update = flag.Bool("update", false, "rewrite the golden files and the generated blocks of states.md and docs/concepts.md")

// words are the five states of pods and claims.
var words = []State{Warming, Ready, Binding, Bound, Stale}

// everyChart are those of what objects carry, and that of rollouts.
var everyChart = append(slices.Clone(Charts), Rollout)

// verbs and places are the events and the states of every chart, so that each is
// also asked of the wrong one.
func verbs() []Event {
	var all []Event
	for _, c := range everyChart {
		all = append(all, c.Events()...)
	}
	return all
}

func places() []State { return slices.Concat(words, Rollout.Order) }

// eachChart runs a test once for each chart.
func eachChart(t *testing.T, name string, test func(g *WithT, c Chart)) {
	t.Helper()
	for _, c := range everyChart {
		t.Run(c.Kind+" "+name, func(t *testing.T) { test(NewWithT(t), c) })
	}
}

func TestTheWholeMatrixIsTheGoldenOne(t *testing.T) {
	var out bytes.Buffer
	for _, c := range everyChart {
		w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		fmt.Fprint(w, c.Kind)
		for _, e := range c.Events() {
			fmt.Fprintf(w, "\t%s", e)
		}
		fmt.Fprintln(w)
		for _, from := range c.Order {
			fmt.Fprint(w, from)
			for _, event := range c.Events() {
				to := "no"
				if edge, err := c.Judge(from, event); err == nil {
					to = string(edge.To)
				}
				fmt.Fprintf(w, "\t%s", to)
			}
			fmt.Fprintln(w)
		}
		w.Flush()
		fmt.Fprintln(&out)
	}
	golden(t, "testdata/matrix.txt", out.String())
}

func TestTheChartsAreSound(t *testing.T) {
	eachChart(t, "has no event twice from one state", func(g *WithT, c Chart) {
		seen := map[string]bool{}
		for _, e := range c.Edges {
			key := string(e.From) + " " + string(e.Event)
			g.Expect(seen[key]).To(BeFalse(), "the library would silently keep only the last %q", key)
			seen[key] = true
		}
	})
	eachChart(t, "has no edge from a state to itself", func(g *WithT, c Chart) {
		for _, e := range c.Edges {
			g.Expect(e.From).NotTo(Equal(e.To), "%s", e.Event)
		}
	})
	eachChart(t, "reaches every state from the first", func(g *WithT, c Chart) {
		reached := []State{c.Initial}
		for i := 0; i < len(reached); i++ {
			for _, e := range c.Edges {
				if e.From == reached[i] && !slices.Contains(reached, e.To) {
					reached = append(reached, e.To)
				}
			}
		}
		g.Expect(reached).To(ConsistOf(c.States()))
	})
	eachChart(t, "ends in stale and nowhere else but bound, and a rollout never ends", func(g *WithT, c Chart) {
		for _, s := range c.States() {
			leaves := slices.ContainsFunc(c.Edges, func(e Edge) bool { return e.From == s })
			g.Expect(leaves || s == Stale || s == Bound).To(BeTrue(), "nothing leads out of %s", s)
			g.Expect(leaves && s == Stale).To(BeFalse(), "something leads out of stale")
		}
	})
	eachChart(t, "says of every edge when", func(g *WithT, c Chart) {
		for _, e := range c.Edges {
			g.Expect(e.When).NotTo(BeEmpty(), "%s", e.Event)
		}
	})
	eachChart(t, "is written by one manager", func(g *WithT, c Chart) {
		by := map[string]Manager{"pod": StateManager, "claim": ClaimManager, "rollout": PoolManager}[c.Kind]
		g.Expect(by).NotTo(BeEmpty())
		for _, e := range c.Edges {
			g.Expect(e.By).To(Equal(by), "%s", e.Event)
		}
	})
	t.Run("the managers are called as they are documented", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect([]Manager{OwnerManager, StatusManager, PodManager, StateManager, ClaimManager, PoolManager, TemplateManager}).To(Equal(
			[]Manager{"kiln-owner", "kiln-status", "kiln-pod", "kiln-state", "kiln-claim", "kiln-pool", "kiln-template"}))
	})
	t.Run("a rollout stalls only after it was seen to roll", func(t *testing.T) {
		for _, e := range Rollout.Edges {
			NewWithT(t).Expect(e.Event == EventStalled).To(Equal(e.From == State(PhaseRollingOut) && e.To == State(PhaseDeadlineExceeded)), "%v", e)
		}
	})
	t.Run("every phase is in the order of the story", func(t *testing.T) {
		NewWithT(t).Expect(Rollout.States()).To(Equal(Rollout.Order))
	})
	t.Run("a pod goes from ready to bound in one move", func(t *testing.T) {
		edge, ok := Pod.Between(Ready, Bound)
		g := NewWithT(t)
		g.Expect(ok).To(BeTrue())
		g.Expect(edge.Event).To(Equal(EventHanded))
	})
	t.Run("no event belongs to two charts", func(t *testing.T) {
		all := verbs()
		slices.Sort(all)
		NewWithT(t).Expect(slices.Compact(slices.Clone(all))).To(Equal(all))
	})
}

func TestTheJudge(t *testing.T) {
	eachChart(t, "allows every edge that is listed", func(g *WithT, c Chart) {
		for _, e := range c.Edges {
			edge, err := c.Judge(e.From, e.Event)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(edge).To(Equal(e))
		}
	})
	eachChart(t, "refuses every pair that is not", func(g *WithT, c Chart) {
		for _, from := range places() {
			for _, event := range verbs() {
				if _, listed := c.Edge(from, event); listed {
					continue
				}
				_, err := c.Judge(from, event)
				g.Expect(err).To(MatchError(ContainSubstring("no move %q from %q", event, from)))
			}
		}
	})
	eachChart(t, "refuses a state and an event that nobody knows", func(g *WithT, c Chart) {
		for _, from := range []State{"", "frozen", "WARMING"} {
			_, err := c.Judge(from, c.Edges[0].Event)
			g.Expect(err).To(HaveOccurred(), "from %q", from)
		}
		for _, event := range []Event{"", "melted"} {
			_, err := c.Judge(c.Initial, event)
			g.Expect(err).To(HaveOccurred(), "event %q", event)
		}
	})
	t.Run("speaks up when the library and the table differ", func(t *testing.T) {
		c := Chart{Kind: "broken", Initial: Warming, Edges: []Edge{
			{From: Warming, Event: EventWarmed, To: Ready},
			{From: Warming, Event: EventWarmed, To: Stale}, // the library keeps this one, the table finds the other
		}}
		_, err := c.Judge(Warming, EventWarmed)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("the machine moves")))
	})
}

func TestParse(t *testing.T) {
	eachChart(t, "reads its own words as they are", func(g *WithT, c Chart) {
		for _, s := range c.States() {
			g.Expect(c.Parse(string(s))).To(Equal(s))
		}
	})
	eachChart(t, "reads a missing or an unknown word as the first state", func(g *WithT, c Chart) {
		for _, word := range []string{"", "frozen", "Bound", " bound", "warming,ready", "complete"} {
			g.Expect(c.Parse(word)).To(Equal(c.Initial), "%q", word)
		}
	})
	t.Run("a pod starts warming and a claim starts binding", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(Pod.Parse("")).To(Equal(Warming))
		g.Expect(Claim.Parse("")).To(Equal(Binding))
	})
	t.Run("a rollout of which nothing is told starts warming", func(t *testing.T) {
		NewWithT(t).Expect(ParsePhase("")).To(Equal(PhaseWarming))
	})
	t.Run("ready is no word of a claim", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(Claim.States()).NotTo(ContainElement(Ready))
		g.Expect(Claim.Parse("ready")).To(Equal(Binding))
	})
}

func TestBetween(t *testing.T) {
	eachChart(t, "finds a way where an edge is, and none where there is none", func(g *WithT, c Chart) {
		for _, from := range places() {
			for _, to := range places() {
				listed := slices.ContainsFunc(c.Edges, func(e Edge) bool { return e.From == from && e.To == to })
				edge, found := c.Between(from, to)
				g.Expect(found).To(Equal(listed), "%s -> %s", from, to)
				if found {
					g.Expect(edge.From).To(Equal(from))
					g.Expect(edge.To).To(Equal(to))
				}
			}
		}
	})
	t.Run("of two events that lead the same way the first listed is found", func(t *testing.T) {
		edge, _ := Claim.Between(Bound, Stale)
		NewWithT(t).Expect(edge.Event).To(Equal(EventExpired))
	})
}

func TestTheDocumentsShowTheCharts(t *testing.T) {
	for file, shows := range map[string][]string{"states.md": {"edges", "picture"}, "../docs/concepts.md": {"picture"}} {
		read, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := string(read)
		for _, c := range everyChart {
			picture, err := c.Mermaid()
			if err != nil {
				t.Fatal(err)
			}
			blocks := map[string]string{"edges": table(c), "picture": "```mermaid\n" + picture + "```\n"}
			for _, what := range shows {
				want = fill(t, want, c.Kind+" "+what, blocks[what])
			}
		}
		golden(t, file, want)
	}
}

// table lists the edges of a chart as Markdown; those that differ only in where they
// begin share a row.
func table(c Chart) string {
	var b strings.Builder
	b.WriteString("| from | event | to | written by | what must be true first |\n|---|---|---|---|---|\n")
	for i := 0; i < len(c.Edges); {
		e := c.Edges[i]
		var from []string
		for ; i < len(c.Edges) && sameRow(e, c.Edges[i]); i++ {
			from = append(from, fmt.Sprintf("`%s`", c.Edges[i].From))
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s | %s |\n", strings.Join(from, ", "), e.Event, e.To, e.By, e.When)
	}
	return b.String()
}

func sameRow(a, b Edge) bool {
	a.From = b.From
	return a == b
}

// fill puts a block between its two markers.
func fill(t *testing.T, text, name, block string) string {
	t.Helper()
	start, end := "<!-- generated: "+name+" -->\n", "<!-- end: "+name+" -->\n"
	before, rest, ok := strings.Cut(text, start)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("no markers for the block %q", name)
	}
	return before + start + block + end + after
}

// golden compares a text with a committed file, or rewrites the file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is out of date (go test ./states -update); it should read:\n%s", file, got)
	}
}
