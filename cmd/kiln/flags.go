package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/kiln-sandbox/kiln/watch"
)

// settings are what the command line says.
type settings struct {
	kubeconfig                         string
	extensions                         bool
	namespaces                         namespaces
	leaderElect                        bool
	leaseNamespace                     string
	leaseDuration                      time.Duration
	renewDeadline, retryPeriod         time.Duration
	metricsAddr, healthAddr            string
	metricsSecure                      bool
	metricsCertDir                     string
	tracing                            bool
	pprof, pprofAll                    bool
	blockRate, mutexFraction           int
	qps                                float64
	burst                              int
	options                            watch.Options
	evict, noEvents, noAnnotations     bool
	noSandboxEvents                    bool
	zapLevel, zapEncoder, labelDomains string
	zapDevel, version                  bool
	// rests are the flags that were given and change nothing, each with the reason.
	rests []string
}

// unused are the flags of the agent-sandbox controller that are accepted so that
// a deployment can be switched as it is, and that change nothing here yet.
var unused = []struct{ name, value, why string }{
	{"enable-webhook", "true", "there is one API version, so nothing is converted"},
	{"webhook-port", "9443", "no webhook"},
	{"webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs", "no webhook"},
	{"webhook-cert-name", "tls.crt", "no webhook"},
	{"webhook-key-name", "tls.key", "no webhook"},
	{"webhook-service-name", "agent-sandbox-webhook-service", "no webhook"},
	{"webhook-namespace", "agent-sandbox-system", "no webhook"},
	{"manage-webhook-certs", "true", "no webhook"},
	{"api-connections", "1", "each class of writes has a connection of its own"},
	{"separate-watch-connection", "false", "informers always have one of their own"},
	{"cache-label-selectors", "false", "informers are always restricted"},
	{"sandbox-warm-pool-replenish-delay", "0", "pools are refilled at once"},
	{"sandbox-warm-pool-max-refill-rate", "0", "the classes of writes are the limit"},
	{"sandbox-warm-pool-unschedulable-recheck-interval", "1m", "an event tells"},
	{"sandbox-write-behind-window", "0", "there is nothing to put off"},
	{"zap-stacktrace-level", "", "logs carry no stack traces"},
	{"zap-time-encoding", "", "times are RFC 3339"},
}

func (s *settings) flags() *flag.FlagSet {
	f := flag.NewFlagSet("kiln controller", flag.ContinueOnError)
	f.SetOutput(io.Discard) // what is wrong is said once, by main
	s.options = watch.DefaultOptions()
	o := &s.options
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig `file`; without it KUBECONFIG, the pod's service account, then ~/.kube/config")
	f.BoolVar(&s.extensions, "extensions", true, "serve claims, pools and templates too; false serves sandboxes alone")
	f.Var(&s.namespaces, "watch-namespaces", "`namespaces` to watch, separated by commas, with rights in them alone; default all")
	f.BoolVar(&s.leaderElect, "leader-elect", true, "work only while holding the lease, so that several replicas may run")
	f.StringVar(&s.leaseNamespace, "leader-election-namespace", "", "`namespace` of the lease; default the pod's own, else agent-sandbox-system")
	f.DurationVar(&s.leaseDuration, "leader-elect-lease-duration", 2*time.Second, "longest a replica waits for a leader that died; whole seconds")
	f.DurationVar(&s.renewDeadline, "leader-elect-renew-deadline", 1700*time.Millisecond, "longest the leader tries to renew the lease before it stands for election again")
	f.DurationVar(&s.retryPeriod, "leader-elect-retry-period", 300*time.Millisecond, "pause between renewals, and between a standby's looks for a leader that died: three small writes a second, and two reads for each standby, are the price of a take-over that nobody notices; a lease that is released is seen at once")
	f.StringVar(&s.metricsAddr, "metrics-bind-address", ":8080", "`address` of /metrics; 0 serves none")
	f.BoolVar(&s.metricsSecure, "metrics-secure", false, "serve metrics and profiles over HTTPS, to whom the API server lets get their paths")
	f.StringVar(&s.metricsCertDir, "metrics-cert-dir", "", "`directory` of tls.crt and tls.key for --metrics-secure, which are followed while the controller runs; without it a certificate that signs itself")
	f.StringVar(&s.healthAddr, "health-probe-bind-address", ":8081", "`address` of /healthz (the process answers), /livez (its loops move) and /readyz (its caches have synced and the API server takes its writes); 0 serves none")
	f.BoolVar(&s.pprof, "enable-pprof", false, "serve /debug/pprof/profile beside /metrics; without --metrics-secure to loopback addresses alone, such as kubectl port-forward comes from")
	f.BoolVar(&s.pprofAll, "enable-pprof-debug", false, "serve all of /debug/pprof beside /metrics, to the same addresses")
	f.IntVar(&s.blockRate, "pprof-block-profile-rate", 1000000, "with --enable-pprof-debug one sample for so many `nanoseconds` that goroutines were blocked; 1 takes all, 0 none")
	f.IntVar(&s.mutexFraction, "pprof-mutex-profile-fraction", 10, "with --enable-pprof-debug one in so `many` waits for a lock is sampled; 1 takes all, 0 none")
	f.BoolVar(&s.tracing, "enable-tracing", false, "send traces by OTLP over gRPC, to where OTEL_EXPORTER_OTLP_ENDPOINT and its like say")
	f.Float64Var(&s.qps, "kube-api-qps", -1, "requests a second, for each connection; -1 leaves the limit to the API server")
	f.IntVar(&s.burst, "kube-api-burst", 10, "requests at once, when --kube-api-qps is set")
	f.IntVar(&o.Workers.Sandboxes, "sandbox-concurrent-workers", o.Workers.Sandboxes, "sandboxes stepped at once")
	f.IntVar(&o.Workers.Claims, "sandbox-claim-concurrent-workers", o.Workers.Claims, "claims stepped at once")
	f.IntVar(&o.Workers.Pools, "sandbox-warm-pool-concurrent-workers", o.Workers.Pools, "pools stepped at once")
	f.IntVar(&o.Workers.Templates, "sandbox-template-concurrent-workers", o.Workers.Templates, "templates stepped at once")
	f.IntVar(&o.Batch, "sandbox-warm-pool-max-batch-size", o.Batch, "members a pool creates or retires in one pass")
	f.DurationVar(&o.MaxWait, "claim-max-wait", o.MaxWait, "longest a claim waits for a pool member that is starting, while no claim of its pool is given one, before it gets a sandbox of its own")
	f.DurationVar(&o.Grace, "sandbox-warm-pool-readiness-grace-period", o.Grace, "longest a pool member may be unready before it is replaced")
	f.BoolVar(&s.evict, "enable-warm-pool-eviction", true, "mark the pods of free pool members as safe to evict")
	f.BoolVar(&s.noEvents, "disable-claim-events", false, "report no Events about claims")
	f.BoolVar(&s.noSandboxEvents, "disable-sandbox-events", false, "report no Events about sandboxes")
	f.StringVar(&o.ClusterDomain, "cluster-domain", o.ClusterDomain, "`domain` that the names of Services end with in the cluster's DNS")
	f.BoolVar(&s.noAnnotations, "disable-claim-observability-annotations", false, "put no annotations on claims")
	f.StringVar(&s.labelDomains, "allowed-label-domains-file", "/etc/sandbox-config/allowed-label-domains", "`file` of the domains whose labels a claim may put on its pod, one a line; it is followed while the controller runs; if it is missing, sandbox.users.io")
	f.StringVar(&s.zapLevel, "zap-log-level", "info", "debug, info, warn or error")
	f.StringVar(&s.zapEncoder, "zap-encoder", "json", "json or console")
	f.BoolVar(&s.zapDevel, "zap-devel", false, "debug level, for a person to read")
	f.BoolVar(&s.version, "version", false, "print the version and exit")
	for _, u := range unused {
		f.Var(&accepted{value: u.value}, u.name, "")
	}
	return f
}

// accepted is a flag that takes any value and does nothing with it.
type accepted struct{ value string }

func (a *accepted) String() string     { return a.value }
func (a *accepted) Set(v string) error { a.value = v; return nil }

// IsBoolFlag lets the switches among them stand without a value.
func (a *accepted) IsBoolFlag() bool { return a.value == "true" || a.value == "false" }

// namespaces are names of namespaces; none means all.
type namespaces []string

func (n *namespaces) String() string { return strings.Join(*n, ",") }

// Set takes a list that is separated by commas. What is given again adds to it.
func (n *namespaces) Set(list string) error {
	for one := range strings.SplitSeq(list, ",") {
		if bad := validation.IsDNS1123Label(one); len(bad) > 0 {
			return fmt.Errorf("%q is no namespace: %s", one, strings.Join(bad, "; "))
		}
		if !slices.Contains(*n, one) {
			*n = append(*n, one)
		}
	}
	return nil
}

// parse reads and judges the command line. flag.ErrHelp is passed on.
func parse(args []string) (*settings, error) {
	s := &settings{}
	f := s.flags()
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	case f.NArg() > 0:
		return nil, fmt.Errorf("%w: %q is not a flag", errUsage, f.Arg(0))
	}
	f.Visit(func(one *flag.Flag) {
		for _, u := range unused {
			if u.name == one.Name {
				s.rests = append(s.rests, "--"+u.name+": "+u.why)
			}
		}
	})
	return s, s.judge()
}

func (s *settings) judge() error {
	o := s.options
	for name, n := range map[string]int{
		"sandbox-concurrent-workers": o.Workers.Sandboxes, "sandbox-claim-concurrent-workers": o.Workers.Claims,
		"sandbox-warm-pool-concurrent-workers": o.Workers.Pools, "sandbox-template-concurrent-workers": o.Workers.Templates,
		"sandbox-warm-pool-max-batch-size": o.Batch, "kube-api-burst": s.burst,
	} {
		if n < 1 || n > 10000 {
			return fmt.Errorf("%w: --%s is %d; give a number from 1 to 10000", errUsage, name, n)
		}
	}
	for name, n := range map[string]int{"pprof-block-profile-rate": s.blockRate, "pprof-mutex-profile-fraction": s.mutexFraction} {
		if n < 0 {
			return fmt.Errorf("%w: --%s is %d; give 0 for none, or a number above", errUsage, name, n)
		}
	}
	if s.qps != -1 && s.qps <= 0 {
		return fmt.Errorf("%w: --kube-api-qps is %v; give a rate above 0, or -1 for none", errUsage, s.qps)
	}
	for name, d := range map[string]time.Duration{"claim-max-wait": o.MaxWait, "sandbox-warm-pool-readiness-grace-period": o.Grace} {
		if d <= 0 || d > 24*time.Hour {
			return fmt.Errorf("%w: --%s is %v; give a time above 0 and up to 24h", errUsage, name, d)
		}
	}
	if err := s.judgeLease(); err != nil {
		return err
	}
	for name, addr := range map[string]string{"metrics-bind-address": s.metricsAddr, "health-probe-bind-address": s.healthAddr} {
		if err := address(addr); err != nil {
			return fmt.Errorf("%w: --%s is %q: %w; give host:port, :port, or 0 for none", errUsage, name, addr, err)
		}
	}
	if s.metricsCertDir != "" && !s.metricsSecure {
		return fmt.Errorf("%w: --metrics-cert-dir is %q; give --metrics-secure with it", errUsage, s.metricsCertDir)
	}
	if bad := validation.IsDNS1123Subdomain(o.ClusterDomain); len(bad) > 0 {
		return fmt.Errorf("%w: --cluster-domain is %q: %s; give a domain such as cluster.local", errUsage, o.ClusterDomain, strings.Join(bad, "; "))
	}
	if s.zapEncoder != "json" && s.zapEncoder != "console" {
		return fmt.Errorf("%w: --zap-encoder is %q; give json or console", errUsage, s.zapEncoder)
	}
	_, err := level(s.zapLevel)
	return err
}

// workersMany is how many workers are so many that the log says so.
const workersMany = 1000

// workers is how many keys all loops step at once at most.
func (s *settings) workers() int {
	w := s.options.Workers
	return w.Sandboxes + w.Claims + w.Pools + w.Templates
}

// judgeLease holds the times of the lease against what leader election can keep.
func (s *settings) judgeLease() error {
	switch {
	case s.leaseDuration < time.Second || s.leaseDuration%time.Second != 0:
		return fmt.Errorf("%w: --leader-elect-lease-duration is %v; give whole seconds, at least one", errUsage, s.leaseDuration)
	case s.renewDeadline >= s.leaseDuration:
		return fmt.Errorf("%w: --leader-elect-renew-deadline is %v; give less than the lease duration, %v", errUsage, s.renewDeadline, s.leaseDuration)
	case s.retryPeriod <= 0 || time.Duration(leaderelection.JitterFactor*float64(s.retryPeriod)) >= s.renewDeadline:
		return fmt.Errorf("%w: --leader-elect-retry-period is %v; give a time above 0 and well below the renew deadline, %v", errUsage, s.retryPeriod, s.renewDeadline)
	}
	return nil
}

func address(addr string) error {
	if addr == "0" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return errors.New("the port is not a number from 0 to 65535")
	}
	return nil
}

// help prints the flags in the order a person looks for them.
func help(out io.Writer) {
	f := (&settings{}).flags()
	fmt.Fprint(out, "kiln controller runs the controller until it is told to stop (SIGTERM, Ctrl-C).\n\nFlags:\n")
	listFlags(out, f)
	fmt.Fprint(out, "\nAccepted, so that deployments of the agent-sandbox controller start as they are, and without effect:\n")
	for _, u := range unused {
		fmt.Fprintf(out, "  --%s%s (%s)\n", u.name, strings.Repeat(" ", max(1, 50-len(u.name))), u.why)
	}
}

// listFlags prints the flags that have something to say.
func listFlags(out io.Writer, f *flag.FlagSet) {
	f.VisitAll(func(one *flag.Flag) {
		if one.Usage == "" {
			return
		}
		kind, text := flag.UnquoteUsage(one)
		if kind != "" {
			kind = " " + kind
		}
		if one.DefValue != "" {
			text += " (default " + one.DefValue + ")"
		}
		fmt.Fprintf(out, "  --%s%s\n        %s\n", one.Name, kind, text)
	})
}
