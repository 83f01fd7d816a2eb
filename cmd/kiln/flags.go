package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/kiln-sandbox/kiln/watch"
)

// settings are what the command line says.
type settings struct {
	kubeconfig                         string
	extensions                         bool
	leaderElect                        bool
	leaseNamespace                     string
	metricsAddr, healthAddr            string
	pprof, pprofAll                    bool
	qps                                float64
	burst                              int
	options                            watch.Options
	evict, noEvents, noAnnotations     bool
	zapLevel, zapEncoder, labelDomains string
	zapDevel, version                  bool
}

// unused are the flags of the agent-sandbox controller that are accepted so that
// a deployment can be switched as it is, and that change nothing here yet.
var unused = []struct{ name, value, why string }{
	{"cluster-domain", "cluster.local", "Services are not made yet"},
	{"enable-webhook", "true", "there is one API version, so nothing is converted"},
	{"webhook-port", "9443", "no webhook"},
	{"webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs", "no webhook"},
	{"webhook-cert-name", "tls.crt", "no webhook"},
	{"webhook-key-name", "tls.key", "no webhook"},
	{"webhook-service-name", "agent-sandbox-webhook-service", "no webhook"},
	{"webhook-namespace", "agent-sandbox-system", "no webhook"},
	{"manage-webhook-certs", "true", "no webhook"},
	{"enable-tracing", "false", "no tracing yet"},
	{"pprof-block-profile-rate", "1000000", "block profiles are off"},
	{"pprof-mutex-profile-fraction", "10", "mutex profiles are off"},
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
	f.BoolVar(&s.leaderElect, "leader-elect", true, "work only while holding the lease, so that several replicas may run")
	f.StringVar(&s.leaseNamespace, "leader-election-namespace", "", "`namespace` of the lease; default the pod's own, else agent-sandbox-system")
	f.StringVar(&s.metricsAddr, "metrics-bind-address", ":8080", "`address` of /metrics; 0 serves none")
	f.StringVar(&s.healthAddr, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 serves none")
	f.BoolVar(&s.pprof, "enable-pprof", false, "serve /debug/pprof/profile beside /metrics")
	f.BoolVar(&s.pprofAll, "enable-pprof-debug", false, "serve all of /debug/pprof beside /metrics")
	f.Float64Var(&s.qps, "kube-api-qps", -1, "requests a second, for each connection; -1 leaves the limit to the API server")
	f.IntVar(&s.burst, "kube-api-burst", 10, "requests at once, when --kube-api-qps is set")
	f.IntVar(&o.Workers.Sandboxes, "sandbox-concurrent-workers", o.Workers.Sandboxes, "sandboxes stepped at once")
	f.IntVar(&o.Workers.Claims, "sandbox-claim-concurrent-workers", o.Workers.Claims, "claims stepped at once")
	f.IntVar(&o.Workers.Pools, "sandbox-warm-pool-concurrent-workers", o.Workers.Pools, "pools stepped at once")
	f.IntVar(&o.Workers.Templates, "sandbox-template-concurrent-workers", o.Workers.Templates, "templates stepped at once")
	f.IntVar(&o.Batch, "sandbox-warm-pool-max-batch-size", o.Batch, "members a pool creates or retires in one pass")
	f.DurationVar(&o.MaxWait, "claim-max-wait", o.MaxWait, "longest a claim waits for a pool member that is starting before it gets a sandbox of its own")
	f.DurationVar(&o.Grace, "sandbox-warm-pool-readiness-grace-period", o.Grace, "longest a pool member may be unready before it is replaced")
	f.BoolVar(&s.evict, "enable-warm-pool-eviction", true, "mark the pods of free pool members as safe to evict")
	f.BoolVar(&s.noEvents, "disable-claim-events", false, "report no Events about claims")
	f.BoolVar(&s.noAnnotations, "disable-claim-observability-annotations", false, "put no annotations on claims")
	f.StringVar(&s.labelDomains, "allowed-label-domains-file", "/etc/sandbox-config/allowed-label-domains", "`file` of the domains whose labels a claim may put on its pod, one a line; if it is missing, sandbox.users.io")
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
	if s.qps != -1 && s.qps <= 0 {
		return fmt.Errorf("%w: --kube-api-qps is %v; give a rate above 0, or -1 for none", errUsage, s.qps)
	}
	for name, d := range map[string]time.Duration{"claim-max-wait": o.MaxWait, "sandbox-warm-pool-readiness-grace-period": o.Grace} {
		if d <= 0 || d > 24*time.Hour {
			return fmt.Errorf("%w: --%s is %v; give a time above 0 and up to 24h", errUsage, name, d)
		}
	}
	for name, addr := range map[string]string{"metrics-bind-address": s.metricsAddr, "health-probe-bind-address": s.healthAddr} {
		if err := address(addr); err != nil {
			return fmt.Errorf("%w: --%s is %q: %w; give host:port, :port, or 0 for none", errUsage, name, addr, err)
		}
	}
	if s.zapEncoder != "json" && s.zapEncoder != "console" {
		return fmt.Errorf("%w: --zap-encoder is %q; give json or console", errUsage, s.zapEncoder)
	}
	_, err := level(s.zapLevel)
	return err
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
	fmt.Fprint(out, "\nAccepted, so that deployments of the agent-sandbox controller start as they are, and without effect:\n")
	for _, u := range unused {
		fmt.Fprintf(out, "  --%s%s (%s)\n", u.name, strings.Repeat(" ", max(1, 50-len(u.name))), u.why)
	}
}
