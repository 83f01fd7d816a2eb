package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// A session is one run of the benchmark, in a namespace of its own.
type session struct {
	Options
	server    *server
	template  blueprint
	progress  *Progress
	processes processes
	pool      *board
	floor     *floor

	// live is the ledger of the scenario that is under way.
	live atomic.Pointer[ledger]
	// revision and size are what template and pool were last told to be.
	revision, size int
	round          int
	// fill is what the last change of the pool's size took, if it grew.
	fill  *Fill
	notes []string
}

// The paths of what the benchmark makes. Templates, pools and what it waits for are
// named bench.
const (
	extensions = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/"
	namespaces = "/api/v1/namespaces"
	bench      = "bench"
)

func (s *session) path(resource string) string { return extensions + s.Namespace + "/" + resource }
func (s *session) pods() string                { return namespaces + "/" + s.Namespace + "/pods" }

// Run measures what o says on the server that cfg names, and removes what it made. A
// report of broken promises is a report: whoever asked looks at Broken. One that comes
// with an error has what was measured until then, if anything was. It is not divided by any
// floor yet: see Divide.
func Run(ctx context.Context, cfg *rest.Config, o Options, progress *Progress) (report *Report, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &session{Options: o, progress: progress, pool: newBoard()}
	if s.template, err = parseTemplate(o.Template); err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent, cfg.QPS = manager, -1
	if s.server, err = connect(cfg, o.Connections); err != nil {
		return nil, err
	}
	if len(o.Processes) > 0 || local(cfg.Host) {
		s.processes, s.notes = findProcesses(o.Processes, procDir)
	}
	report = &Report{At: time.Now().UTC().Truncate(time.Second), Cores: runtime.NumCPU(), TemplateBytes: s.template.bytes()}
	if report.Server, err = s.version(ctx); err != nil {
		return nil, err
	}
	if err := s.makeNamespace(ctx); err != nil {
		return nil, err
	}
	err = s.watched(ctx, func(ctx context.Context) error { return s.rounds(ctx, report) })
	err = errors.Join(err, s.clean(ctx, err))
	if len(report.Rounds) == 0 {
		return nil, err
	}
	return report, err
}

// local reports whether a server runs on this machine.
func local(host string) bool {
	u, err := url.Parse(host)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

func (s *session) version(ctx context.Context) (string, error) {
	raw, err := s.server.get(ctx, "/version")
	if err != nil {
		return "", fmt.Errorf("ask the API server for its version: %w", err)
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	err = json.Unmarshal(raw, &v)
	return v.GitVersion, err
}

// makeNamespace makes the namespace. One that is there is somebody else's.
func (s *session) makeNamespace(ctx context.Context) error {
	if s.Namespace == "" {
		s.Namespace = fmt.Sprintf("kiln-bench-%05x", rand.Uint32N(1<<20))
	}
	body := marshal(map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": s.Namespace, "labels": mark},
	})
	_, err := s.server.create(ctx, namespaces, body)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("namespace %s is there already, and kiln bench works only in one that it makes: give another name, or delete it", s.Namespace)
	}
	if err != nil {
		return fmt.Errorf("make namespace %s: %w", s.Namespace, err)
	}
	return nil
}

// mark is the label of everything that is not inside the namespace.
var mark = map[string]any{"app.kubernetes.io/managed-by": manager}

// marshal encodes what only has values that JSON has.
func marshal(o any) []byte {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return text
}

// unpooled selects the pods without a pool's label: a pod is first told of when it is a
// claim's. All pods would be so many events that the last ones are read seconds late.
const unpooled = "!agents.x-k8s.io/warm-pool-sandbox"

// watched does something while claims, pods and the pool are watched. A watch that fails for
// good ends it.
func (s *session) watched(ctx context.Context, do func(context.Context) error) error {
	for of, see := range map[source]func(time.Time, event){
		{path: s.path("sandboxclaims")}:                   s.seeClaim,
		{path: s.path("sandboxwarmpools")}:                s.seePool,
		{path: s.pods(), label: unpooled, metadata: true}: s.seePod,
	} {
		inner, stop, err := s.server.attend(ctx, of, see)
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("%w: install the CustomResourceDefinitions first", err)
		}
		if err != nil {
			return err
		}
		defer stop()
		ctx = inner
	}
	err := do(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (s *session) seeClaim(at time.Time, e event) {
	if l := s.live.Load(); l != nil {
		l.see(at, e)
	}
}

func (s *session) seePod(at time.Time, e event) {
	if l := s.live.Load(); l != nil {
		l.seePod(at, e)
	}
}

func (s *session) seePool(_ time.Time, e event) {
	if e.Object.Metadata.Name == bench {
		s.pool.set(e.Object.Status)
	}
}

// rounds runs every scenario, again and again.
func (s *session) rounds(ctx context.Context, report *Report) error {
	if slices.Contains(s.Scenarios, Floor) {
		if err := s.prepareFloor(ctx); err != nil {
			return err
		}
	}
	for s.round = 1; s.round <= s.Rounds; s.round++ {
		round, err := s.playAll(ctx)
		if len(round.Results) > 0 {
			report.Rounds = append(report.Rounds, round)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// playAll runs a round, or what can be run of it.
func (s *session) playAll(ctx context.Context) (round Round, err error) {
	defer func() { round.Notes, s.notes = s.notes, nil }()
	for _, scenario := range Scenarios {
		if !slices.Contains(s.Scenarios, scenario) {
			continue
		}
		results, err := s.play(ctx, scenario)
		round.Results = append(round.Results, results...)
		if err != nil {
			return round, fmt.Errorf("%s: %w", scenario, err)
		}
	}
	return round, nil
}

// note remembers what could not be measured.
func (s *session) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(s.notes, text) {
		s.notes = append(s.notes, text)
	}
}

// farewell is how long cleaning up may take without anything being deleted.
const farewell = 5 * time.Minute

// clean removes everything that was made, also when the run was interrupted. A namespace
// that is kept keeps nothing that is outside of it.
func (s *session) clean(ctx context.Context, why error) error {
	keep := s.Keep && why == nil
	if ctx.Err() != nil {
		s.progress.say("interrupted; removing namespace %s (a second Ctrl-C ends at once and leaves it)", s.Namespace)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	err := s.floor.remove(ctx, s.server)
	if keep {
		return err
	}
	path := namespaces + "/" + s.Namespace
	if gone := s.server.remove(ctx, path); gone != nil {
		return errors.Join(err, fmt.Errorf("remove namespace %s: %w", s.Namespace, gone))
	}
	seen := false
	gone := s.server.follow(ctx, source{path: namespaces, field: "metadata.name=" + s.Namespace, metadata: true}, func(_ time.Time, e event) bool {
		s.progress.update("removing namespace %s", s.Namespace)
		seen = seen || e.Type == added
		return e.Type != deleted && (e.Type != listed || seen)
	})
	if gone != nil {
		gone = fmt.Errorf("namespace %s is not gone yet; the API server goes on removing it: %w", s.Namespace, gone)
	}
	return errors.Join(err, gone)
}

// because is the message of a condition that is not True, if there is one.
func (s status) because() string {
	for _, c := range s.Conditions {
		if c.Type == "Ready" && c.Status != "True" {
			return strings.TrimSpace(c.Reason + " " + c.Message)
		}
	}
	return "is a controller running?"
}
