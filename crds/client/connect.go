package client

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// A Connection is every client that Kiln needs, over one transport that no other
// connection shares.
type Connection struct {
	// Core has the built-in kinds, in protobuf.
	Core kubernetes.Interface
	// Kiln has the kinds of Kiln.
	Kiln *Clients
	// Metadata has the metadata of any kind.
	Metadata metadata.Interface
	// Config is the configuration of the connection. Clients that are made from it
	// have a transport of their own.
	Config *rest.Config
}

// Connect connects to the server that cfg names, with a transport of its own:
// what waits on one connection holds up nothing on another. The transport is
// wrapped if wrap is given. Client-side rate limits are off unless cfg asks for
// one, which then holds for each connection.
func Connect(cfg *rest.Config, wrap func(http.RoundTripper) http.RoundTripper) (*Connection, error) {
	c := &Connection{Config: isolated(cfg)}
	if wrap != nil {
		c.Config.Wrap(wrap)
	}
	h, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	if c.Kiln, err = New(c.Config, h); err != nil {
		return nil, err
	}
	if c.Core, err = kubernetes.NewForConfigAndClient(protobuf(c.Config), h); err != nil {
		return nil, fmt.Errorf("client for the built-in kinds: %w", err)
	}
	if c.Metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(c.Config), h); err != nil {
		return nil, fmt.Errorf("client for metadata: %w", err)
	}
	return c, nil
}

// isolated copies a configuration so that clients made from the copy share no
// transport with any other: client-go caches transports by their settings, and
// a dial function of its own keeps two apart.
func isolated(cfg *rest.Config) *rest.Config {
	own := rest.CopyConfig(cfg)
	if own.QPS == 0 {
		own.QPS = -1 // client-go takes zero for five a second
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	own.Dial = dialer.DialContext
	return own
}

// protobuf is a configuration for the built-in kinds.
func protobuf(cfg *rest.Config) *rest.Config {
	c := rest.CopyConfig(cfg)
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c.ContentType = runtime.ContentTypeProtobuf
	return c
}
