package apply

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A server answers every write with what was written, and counts them.
type server struct {
	applier  *Applier
	registry *prometheus.Registry
	log      bytes.Buffer
	mu       sync.Mutex
	writes   int
}

func aServer(t *testing.T) *server {
	t.Helper()
	s := &server{registry: prometheus.NewRegistry()}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.writes++
		s.mu.Unlock()
		written, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(written) // a closed test connection has no one to tell
	}))
	t.Cleanup(h.Close)
	var err error
	s.applier, err = New(&rest.Config{Host: h.URL}, Options{
		Log: slog.New(slog.NewTextHandler(&s.log, nil)), Metrics: s.registry, Component: "kiln",
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s
}

func (s *server) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

func decided(event states.Event, why states.Reason) states.Decision {
	return states.Decision{Act: states.Move, About: states.About{Event: event}, Reason: why}
}

// labels are the labels of the one series of a metric.
func (s *server) labels(t *testing.T, metric string) map[string]string {
	t.Helper()
	g := NewWithT(t)
	families, err := s.registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	got := map[string]string{}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		g.Expect(f.GetMetric()).To(HaveLen(1))
		for _, l := range f.GetMetric()[0].GetLabel() {
			got[l.GetName()] = l.GetValue()
		}
	}
	return got
}

func TestATransitionIsLoggedWithItsReason(t *testing.T) {
	g, s := NewWithT(t), aServer(t)
	claim := aClaim()
	claim.Status.State = ""
	got, err := s.applier.MoveClaim(t.Context(), claim, decided(states.EventBound, states.ReasonAdopted), aClaim().Status)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Status.State).To(Equal(ext.StateBound))
	g.Expect(s.log.String()).To(ContainSubstring("kind=claim key=ns/a from=binding to=bound event=bound by=kiln-claim reason=Adopted"))
	g.Expect(s.labels(t, "kiln_transitions_total")).To(Equal(map[string]string{"kind": "claim", "event": "bound", "from": "binding", "to": "bound"}))
	g.Expect(s.labels(t, "kiln_write_seconds")).To(Equal(map[string]string{"class": "tell"}))
}

func TestAMoveThatNoChartAllowsIsNotSent(t *testing.T) {
	g, s := NewWithT(t), aServer(t)
	_, err := s.applier.MoveClaim(t.Context(), aClaim(), decided(states.EventColdStart, states.ReasonOwnStarting), aClaim().Status)
	g.Expect(err).To(MatchError(ContainSubstring("ns/a: claim: no move")))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", Labels: map[string]string{LabelState: "bound"}}}
	_, err = s.applier.MovePod(t.Context(), PodMove{Pod: pod, Sandbox: aMember(t), Decision: decided(states.EventRetired, states.ReasonRetired)})
	g.Expect(err).To(MatchError(ContainSubstring("ns/p: pod: no move")))
	pool, want := aPool(), ext.SandboxWarmPoolStatus{}
	pool.Status.Rollout.Phase, want.Rollout.Phase = "Complete", "DeadlineExceeded"
	_, err = s.applier.ReportPool(t.Context(), pool, want, states.Decision{Act: states.Report})
	g.Expect(err).To(MatchError(ContainSubstring(`pool ns/warm: report: rollout: no move from "Complete" to "DeadlineExceeded"`)))
	g.Expect(s.sent()).To(BeZero())
	g.Expect(s.log.String()).To(BeEmpty())
}

func TestAnotherPhaseOfARolloutIsATransition(t *testing.T) {
	g, s := NewWithT(t), aServer(t)
	pool, want := aPool(), ext.SandboxWarmPoolStatus{Replicas: 1}
	why := states.Decision{Act: states.Report, Reason: states.ReasonAsPlanned}
	pool.Status.Rollout.Phase, want.Rollout.Phase = "Complete", "Complete"
	_, err := s.applier.ReportPool(t.Context(), pool, want, why)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.log.String()).To(BeEmpty(), "the phase stays")
	want.Rollout.Phase = "RollingOut"
	_, err = s.applier.ReportPool(t.Context(), pool, want, why)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.log.String()).To(ContainSubstring("kind=rollout key=ns/warm from=Complete to=RollingOut event=rolling by=kiln-pool reason=AsPlanned"))
	g.Expect(s.labels(t, "kiln_transitions_total")).To(HaveKeyWithValue("kind", "rollout"))
	g.Expect(s.sent()).To(Equal(2))
}

func TestEveryPhaseOfARolloutIsReachedByItsOwnEvent(t *testing.T) {
	for _, from := range states.Rollout.States() {
		for _, to := range states.Rollout.States() {
			g := NewWithT(t)
			edge, legal := states.Rollout.Between(from, to)
			move, err := phaseMove(string(from), string(to), states.ReasonAsPlanned)
			switch {
			case from == to:
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(move).To(BeNil())
			case legal:
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(move.edge).To(Equal(edge))
			default:
				g.Expect(err).To(HaveOccurred(), "%s to %s", from, to)
			}
		}
	}
	g := NewWithT(t)
	move, err := phaseMove("", string(states.Rollout.Initial), states.ReasonAsPlanned)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(move).To(BeNil(), "a pool without a phase is in the initial one")
	_, err = phaseMove("", "Unheard", states.ReasonAsPlanned)
	g.Expect(err).To(HaveOccurred())
}

func TestASandboxIsRetiredForAKnownReasonOnly(t *testing.T) {
	g, s := NewWithT(t), aServer(t)
	for why, value := range map[states.Reason]string{
		states.ReasonSurplus: "surplus", states.ReasonOutdated: "outdated", states.ReasonStuck: "stuck",
	} {
		got, err := s.applier.Retire(t.Context(), aMember(t), why)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.Annotations).To(HaveKeyWithValue(AnnotationRetired, value))
	}
	_, err := s.applier.Retire(t.Context(), aMember(t), states.ReasonFree)
	g.Expect(err).To(MatchError(ContainSubstring("sandbox ns/warm-x: retire")))
	g.Expect(s.sent()).To(Equal(3))
}

func TestAStatusThatSaysTheSameIsNotSent(t *testing.T) {
	g, s := NewWithT(t), aServer(t)
	claim := aClaim()
	got, err := s.applier.ReportClaim(t.Context(), claim, claim.Status)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(BeIdenticalTo(claim))
	g.Expect(s.sent()).To(BeZero())
	g.Expect(s.labels(t, "kiln_writes_total")).To(HaveKeyWithValue("result", "skipped"))
}
