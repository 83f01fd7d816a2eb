package kit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/scale"

	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/sim"
	"github.com/kiln-sandbox/kiln/test/stage"
	"github.com/kiln-sandbox/kiln/test/world"
)

// server is the API server of this test binary, as its administrator sees it.
var server struct {
	world.Clients
	config *rest.Config
	// account is the access of the controllers: they have the rights that the chart
	// gives them, and no others.
	account *rest.Config
	scales  scale.ScalesGetter
}

// sideBySide is how many tests run at once unless -parallel says otherwise. They
// wait for the server more than they compute.
const sideBySide = "6"

// Main starts the API server, runs the tests and takes it down again. With
// KILN_SERVER=simulated it is one in memory.
func Main(m *testing.M) {
	if err := flag.Set("test.parallel", sideBySide); err != nil {
		panic(err)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if os.Getenv("KILN_SERVER") == "simulated" {
		return runSimulated(m)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	audit, err := stage.NewAudit()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, audit.Remove()) }()
	c, err := cluster.Start(ctx, cluster.Options{CRDs: true, APIServerFlags: audit.Flags()})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if err := connect(c.Config); err != nil {
		return 1, err
	}
	if server.account, _, err = stage.Admit(ctx, c); err != nil {
		return 1, err
	}
	if code = m.Run(); all() {
		return code, usesItsRights(audit)
	}
	return code, nil
}

// runSimulated runs the tests on a server in memory. It has no rights to be audited, and
// what rests on admission or validation fails there.
func runSimulated(m *testing.M) (code int, err error) {
	s, err := sim.New()
	if err != nil {
		return 1, err
	}
	listening := httptest.NewServer(s)
	defer listening.Close()
	defer listening.CloseClientConnections()
	server.account = &rest.Config{Host: listening.URL, QPS: -1}
	if err := connect(server.account); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// all reports whether no flag chose among the tests.
func all() bool {
	run, skip := flag.Lookup("test.run"), flag.Lookup("test.skip")
	return run.Value.String() == "" && skip.Value.String() == ""
}

// usesItsRights holds the rights that the chart gives the controller against what it
// asked for in all the tests together.
func usesItsRights(audit *stage.Audit) error {
	rights, err := stage.Rights()
	if err != nil {
		return err
	}
	if err := audit.Compare(rights); err != nil {
		return fmt.Errorf("the rights in the chart are not what the controller uses:\n%w", err)
	}
	return nil
}

func connect(cfg *rest.Config) error {
	h, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	server.config = cfg
	core := rest.CopyConfig(cfg)
	core.ContentType = runtime.ContentTypeProtobuf // a third of the work of JSON
	if server.Core, err = kubernetes.NewForConfigAndClient(core, h); err != nil {
		return err
	}
	if server.Kiln, err = client.New(cfg, h); err != nil {
		return err
	}
	kinds := meta.NewDefaultRESTMapper(nil)
	kinds.Add(ext.SchemeGroupVersion.WithKind("SandboxWarmPool"), meta.RESTScopeNamespace)
	server.scales, err = scale.NewForConfig(cfg, kinds, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(server.Core.Discovery()))
	return err
}

// Config is the administrator's access to the server.
func Config() *rest.Config { return server.config }
