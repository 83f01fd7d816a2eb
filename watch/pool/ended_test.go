package pool

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/store"
)

// The pool ends while a step of it runs: the event of its end has passed, and what the
// step remembers after that has nobody left to forget it.
func TestNothingIsRememberedOfAPoolThatEndedWhileAStepRan(t *testing.T) {
	for name, do := range map[string]func(*world, Snapshot) error{
		"a creation that is refused": func(w *world, s Snapshot) error {
			_, err := Members{w.Pools}.Do(t.Context(), s, states.Decision{Act: states.Create, About: states.About{Plan: &states.PoolPlan{Create: 1}}})
			return err
		},
		"a status": func(w *world, s Snapshot) error {
			_, err := Status{w.Pools}.Do(t.Context(), s, states.Decision{Act: states.Report, About: states.About{Report: &states.PoolReport{
				Degraded: states.ReasonAsPlanned, Ready: states.ReasonMembersReady, Progress: states.Progress{Phase: states.PhaseComplete},
			}}})
			return err
		},
		"what ends the step": func(w *world, s Snapshot) error {
			w.Churn.Add("u", 1, noon.Time)
			_, err := Members{w.Pools}.Do(t.Context(), s, states.Decision{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := aWorld(t, aPool(), aTemplate(), member("m"), free("m"))
			w.writing().err = apply.ErrGone
			s := w.Observe(key, learned{})
			w.Stores.Pools.MarkDeleted(aPool())
			w.PoolChanged(store.Change[*ext.SandboxWarmPool]{Was: aPool(), HadWas: true})
			w.Memory.created("u", apply.ErrRefused)
			_ = do(w, s) // the pool is gone: whatever it says of that
			w.g.Expect(w.Memory.Len()).To(BeZero())
			w.g.Expect(w.Churn.Len()).To(BeZero())
			w.g.Expect(w.ended).To(Equal(2), "nor measured")
		})
	}
}

// A deletion and a creation under the same name may come as one event.
func TestNothingIsRememberedOfAPoolThatWasReplaced(t *testing.T) {
	w := aWorld(t, aPool(func(p *ext.SandboxWarmPool) { p.UID = "another" }), aTemplate())
	w.writing()
	w.Memory.created("u", apply.ErrRefused)
	w.Churn.Add("u", 1, noon.Time)
	now, _ := w.Stores.Pools.Get(key)
	w.PoolChanged(store.Change[*ext.SandboxWarmPool]{Was: aPool(), HadWas: true, Is: now, HasIs: true})
	w.g.Expect(w.Memory.Len()).To(BeZero())
	w.g.Expect(w.Churn.Len()).To(BeZero())
}

// answering has a world ask a server that has nothing, and counts the questions.
func answering(t *testing.T, w *world) *atomic.Int32 {
	t.Helper()
	asked := &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(http.StatusNotFound)
		_, _ = out.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
	}))
	t.Cleanup(server.Close)
	conn, err := client.Connect(&rest.Config{Host: server.URL}, nil)
	w.g.Expect(err).NotTo(HaveOccurred())
	if w.Stores, err = store.New(conn, ""); err != nil {
		t.Fatal(err)
	}
	return asked
}

func TestATemplateThatIsMissingIsReadOnceUntilAnEventOfItOrOfThePool(t *testing.T) {
	w := aWorld(t)
	asked := answering(t, w)
	w.writing()
	w.put(aPool())
	look := func() {
		w.g.Expect(loop.Step(t.Context(), Members{w.Pools}, key).Err).NotTo(HaveOccurred())
		w.g.Expect(loop.Step(t.Context(), Status{w.Pools}, key).Err).NotTo(HaveOccurred())
	}
	for range 5 {
		look()
	}
	w.g.Expect(asked.Load()).To(BeEquivalentTo(1))
	w.SpecChanged(aPool()) // its template was made and deleted
	look()
	w.g.Expect(asked.Load()).To(BeEquivalentTo(2))
	w.put(later(999999999)(aPool(func(p *ext.SandboxWarmPool) { p.Generation, p.Spec.TemplateRef.Name = 4, "other" })))
	look()
	look()
	w.g.Expect(asked.Load()).To(BeEquivalentTo(3), "another template")
	w.put(later(999999999)(aTemplate(func(t *ext.SandboxTemplate) { t.Name = "other" })))
	f := w.Observe(key, learned{}).Facts
	w.g.Expect(f.Template).To(Equal(states.PresenceShown))
}

// A plan of a rolling update leaves no fewer free than it must. What it counted on may
// be gone by the time that it is carried out.
func TestNothingIsGivenUpWhenFewerAreFreeThanThePlanWasMadeFor(t *testing.T) {
	rolling := func(p *ext.SandboxWarmPool) { p.Spec.UpdateStrategy.Type = ext.Rolling }
	for name, row := range map[string]struct {
		happens func(*world)
		gone    int
	}{
		"nothing happens":                  {func(*world) {}, 1},
		"another loses its readiness":      {func(w *world) { w.put(later(6)(free("n", starting))) }, 0},
		"another becomes ready":            {func(w *world) { w.put(later(6)(free("o"))) }, 1},
		"the one itself loses what it had": {func(w *world) { w.put(later(6)(free("m", starting))) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := aWorld(t, aPool(rolling), aTemplate(), member("m", old), free("m"), member("n"), free("n"), member("o"), free("o", starting))
			w.writing()
			s := w.Observe(key, learned{loansKnown: true})
			all := w.Roster.Select("a/u", states.Choice{All: true}, nil)
			s.Facts.Members, s.members = all.Members, all.Sandboxes
			s.ready = map[string]bool{"m": true, "n": true}
			plan := &states.PoolPlan{Retire: []states.Retirement{{Name: "m", Reason: states.ReasonOutdated}}}
			row.happens(w)
			_, err := Members{w.Pools}.Do(t.Context(), s, states.Decision{Act: states.Retire, About: states.About{Plan: plan}})
			w.g.Expect(err).NotTo(HaveOccurred())
			w.g.Expect(w.Retirements.Len()).To(Equal(row.gone))
		})
	}
}
