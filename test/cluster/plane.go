package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kiln-sandbox/kiln/test/cluster/portnotes"
)

// envtest has been initialised by now.
var errPortNotes = portnotes.Restore()

// startPlane starts etcd and kube-apiserver. envtest cannot be interrupted, so
// when ctx ends the processes are killed under its hands until it gives up.
func (c *Cluster) startPlane(ctx context.Context) error {
	if err := c.configurePlane(); err != nil {
		return err
	}
	if err := errors.Join(errPortNotes, portnotes.Open()); err != nil {
		return err
	}
	started := make(chan error, 1)
	go func() { started <- errors.Join(c.plane.Start(), portnotes.Close()) }()

	var err error
	select {
	case err = <-started:
	case <-ctx.Done():
		return c.abortPlane(started, context.Cause(ctx))
	}
	if err != nil {
		return c.blame(err)
	}
	for _, name := range planeNames {
		go c.keeper.watch(name, c.stopping, func() { c.gone(name) })
	}
	return c.admit()
}

// blame names the component on which envtest gave up: the last one it ran.
func (c *Cluster) blame(err error) error {
	name := "etcd"
	if c.keeper.pid("kube-apiserver") != 0 {
		name = "kube-apiserver"
	}
	return fmt.Errorf("%s: %w%s", name, err, tail(filepath.Join(c.LogDir, name+".log")))
}

var planeNames = []string{"etcd", "kube-apiserver"}

func (c *Cluster) configurePlane() error {
	etcd, api := &envtest.Etcd{}, c.plane.GetAPIServer()
	c.plane.Etcd = etcd
	c.plane.KubectlPath = c.Kubectl

	var err error
	if etcd.Path, err = c.keeper.shim("etcd", c.assets["etcd"]); err != nil {
		return err
	}
	if api.Path, err = c.keeper.shim("kube-apiserver", c.assets["kube-apiserver"]); err != nil {
		return err
	}
	etcd.DataDir, api.CertDir = filepath.Join(c.Dir, "etcd"), filepath.Join(c.Dir, "certs")
	if err := errors.Join(os.Mkdir(etcd.DataDir, 0o700), os.Mkdir(api.CertDir, 0o700)); err != nil {
		return err
	}
	etcd.URL = &url.URL{Scheme: "http", Host: FreeAddress()}
	etcd.Configure().Set("listen-peer-urls", "http://"+FreeAddress())
	at := c.options.Address
	if at == "" {
		at = FreeAddress()
	}
	if api.SecureServing.Address, api.SecureServing.Port, err = net.SplitHostPort(at); err != nil {
		return err
	}
	api.Configure().Append("advertise-address", api.SecureServing.Address)
	if net.ParseIP(api.SecureServing.Address).IsLoopback() {
		// No pod can reach loopback, and a server since 1.37 does not start if it is to
		// publish such an address as an endpoint.
		api.Configure().Append("endpoint-reconciler-type", "none")
	}
	if c.options.Admission {
		api.Configure().Disable("disable-admission-plugins") // envtest disables ServiceAccount
	} else {
		api.Configure().Append("disable-admission-plugins", "TaintNodesByCondition")
	}
	for flag, values := range c.options.APIServerFlags {
		api.Configure().Append(flag, values...)
	}
	etcd.StartTimeout, api.StartTimeout = startTimeout, startTimeout
	etcd.StopTimeout, api.StopTimeout = grace, grace

	// The logs are files, not buffers, so that no copying outlives a process.
	log, err := c.logFile("etcd")
	if err != nil {
		return err
	}
	etcd.Out, etcd.Err = log, log
	if log, err = c.logFile("kube-apiserver"); err != nil {
		return err
	}
	api.Out, api.Err = log, log
	return nil
}

func (c *Cluster) abortPlane(started <-chan error, cause error) error {
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-started:
			return cause
		case <-tick.C:
			for _, name := range planeNames {
				if pid := c.keeper.pid(name); pid != 0 {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
	}
}

// stopPlane ends kube-apiserver and etcd, in this order.
func (c *Cluster) stopPlane() error {
	if c.plane.Etcd == nil {
		return nil
	}
	err := errors.Join(c.stopRevived("kube-apiserver"), c.plane.Stop(), c.stopRevived("etcd"))
	for _, name := range planeNames {
		c.keeper.forget(name)
	}
	return err
}

// admit makes the administrator's access.
func (c *Cluster) admit() error {
	admin, err := c.plane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}},
		&rest.Config{QPS: -1})
	if err != nil {
		return fmt.Errorf("administrator: %w", err)
	}
	c.Config = admin.Config()
	return c.WriteKubeconfig(c.KubeconfigPath, c.Config)
}
