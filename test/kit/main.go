package kit

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	"github.com/kiln-sandbox/kiln/test/world"
)

// server is the API server of this test binary, as its administrator sees it.
var server struct {
	world.Clients
	config *rest.Config
	scales scale.ScalesGetter
}

// sideBySide is how many tests run at once unless -parallel says otherwise. They
// wait for the server more than they compute.
const sideBySide = "6"

// Main starts the API server, runs the tests and takes it down again.
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
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Options{CRDs: true})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if err := connect(c.Config); err != nil {
		return 1, err
	}
	return m.Run(), nil
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
