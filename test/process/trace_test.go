package process

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/stage"
)

// A sink is a collector of traces that keeps what it is sent.
type sink struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	from  []*common.KeyValue
	spans []*trace.Span
}

func (s *sink) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range r.GetResourceSpans() {
		s.from = of.GetResource().GetAttributes()
		for _, in := range of.GetScopeSpans() {
			s.spans = append(s.spans, in.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// collect serves a sink on loopback until the test ends.
func collect(t *testing.T) (s *sink, endpoint string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	server := grpc.NewServer()
	s = &sink{}
	collector.RegisterTraceServiceServer(server, s)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); err != nil {
			t.Errorf("the collector: %v", err)
		}
	})
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return s, "http://" + l.Addr().String()
}

// A tree is the spans of one trace, by their identities.
type tree map[string]*trace.Span

func (s *sink) trace(id string) tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := tree{}
	for _, one := range s.spans {
		if hex.EncodeToString(one.GetTraceId()) == id {
			all[string(one.GetSpanId())] = one
		}
	}
	return all
}

// says are the attributes of a span.
func says(s *trace.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.GetAttributes() {
		all[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return all
}

// path are the names of a span and of all above it, the root first. The span of a write
// has what it writes for its name.
func (t tree) path(s *trace.Span) (names []string) {
	for ; s != nil; s = t[string(s.GetParentSpanId())] {
		name := s.GetName()
		if name == "write" {
			name = says(s)["edge"] + " " + says(s)["class"] + " " + says(s)["outcome"]
		}
		names = append([]string{name}, names...)
	}
	return names
}

// skew is how far the times of two spans may be apart that follow each other, in
// nanoseconds. A span ends as long after its start as the monotonic clock says, and the
// start is read from two clocks one after the other: a process that loses its processor
// in between has a span that lies beside those around it.
const skew = uint64(time.Second)

// One warm claim, seen as spans. Nothing is sent before the controller ends, so what is
// there has come with the flush.
func TestTheSpansOfAWarmClaimAndItsSandboxAreBelowThoseOfItsClient(t *testing.T) {
	g := NewWithT(t)
	g.Expect(world.cluster.InstallCRDs(world.ctx)).To(Succeed())
	c, err := dynamic.NewForConfig(world.cluster.Config)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { uninstall(t, c) })
	traces, endpoint := collect(t)
	r, err := stage.Kiln{
		Name: "traced", Binary: world.binary, Alive: true, Args: []string{"--enable-tracing"},
		Env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_BSP_SCHEDULE_DELAY=3600000", "OTEL_BSP_MAX_QUEUE_SIZE=100000", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=100000"},
	}.Run(world.ctx, world.cluster)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(r.Stop()).To(Succeed()) }()
	warm(g, "traced", 1)
	const id, client = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	claim := &ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "traced", Labels: map[string]string{"agents.x-k8s.io/created-by": "go-client"},
		Annotations: map[string]string{"opentelemetry.io/trace-context": fmt.Sprintf(`{"traceparent":"00-%s-%s-01"}`, id, client)},
	}}
	claim.Spec.WarmPoolRef.Name = "traced"
	_, err = world.kiln.Claims("default").Create(world.ctx, claim, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	var sandbox string
	g.Eventually(func(g Gomega) {
		is, err := world.kiln.Claims("default").Get(world.ctx, "traced", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(meta.IsStatusConditionTrue(is.Status.Conditions, "Ready")).To(BeTrue())
		sandbox = is.Status.SandboxStatus.Name
		pod, err := world.core.CoreV1().Pods("default").Get(world.ctx, sandbox, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pod.Labels).To(HaveKeyWithValue("agents.x-k8s.io/state", "bound"))
		g.Expect(is.Annotations).To(HaveKeyWithValue("agents.x-k8s.io/sandbox-name", sandbox))
	}, long).Should(Succeed())
	g.Expect(traces.trace(id)).To(BeEmpty(), "nothing is sent yet")
	g.Expect(r.Stop()).To(Succeed())
	g.Expect(r.ExitCode()).To(Equal(0), said(t, r))

	spans := traces.trace(id)
	var paths [][]string
	for _, s := range spans {
		path := spans.path(s)
		paths = append(paths, path)
		g.Expect(s.GetStatus().GetCode()).To(Equal(trace.Status_STATUS_CODE_UNSET), fmt.Sprint(path))
		if len(path) == 1 {
			g.Expect(hex.EncodeToString(s.GetParentSpanId())).To(Equal(client), "%s is below the client's span", path)
		}
		if above := spans[string(s.GetParentSpanId())]; above != nil {
			g.Expect(s.GetStartTimeUnixNano()+skew).To(BeNumerically(">=", above.GetStartTimeUnixNano()), fmt.Sprint(path))
			g.Expect(s.GetEndTimeUnixNano()).To(BeNumerically("<=", above.GetEndTimeUnixNano()+skew), fmt.Sprint(path))
		}
	}
	slices.SortFunc(paths, slices.Compare)
	t.Logf("%d spans: %v", len(spans), paths)
	g.Expect(paths).To(ContainElements(
		[]string{"ReconcileSandboxClaim"},
		[]string{"ReconcileSandboxClaim", "waitInQueue"},
		[]string{"ReconcileSandboxClaim", "adopt take ok"},
		[]string{"ReconcileSandboxClaim", "adopt take ok", "waitForPlace"},
		[]string{"ReconcileSandboxClaim", "handed hand ok"},
		[]string{"ReconcileSandboxClaim", "handed hand ok", "waitForPlace"},
		[]string{"ReconcileSandboxClaim", "annotate hand ok"},
		[]string{"ReconcileSandboxClaim", "bound tell ok"},
		[]string{"ReconcileSandboxClaim", "bound tell ok", "waitForPlace"},
		[]string{"ReconcileSandbox"},
		[]string{"ReconcileSandbox", "waitInQueue"},
		[]string{"EmitEvent", "SandboxAdopted trail ok"},
	))
	for _, s := range spans {
		switch all := says(s); s.GetName() {
		case "ReconcileSandbox":
			g.Expect(all).To(And(HaveKeyWithValue("sandbox.name", sandbox), HaveKeyWithValue("sandbox.namespace", "default")))
		case "ReconcileSandboxClaim":
			g.Expect(all).To(And(HaveKeyWithValue("sandboxclaim.name", "traced"), HaveKeyWithValue("created-by", "go-client")))
		case "write":
			g.Expect(all).To(And(HaveKey("kind"), HaveKey("manager"), HaveKey("class"), HaveKey("outcome")))
		}
	}
	g.Expect(fmt.Sprint(traces.from)).To(And(ContainSubstring("service.name"), ContainSubstring("agent-sandbox-controller")))
}
