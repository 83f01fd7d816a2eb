// Package client holds the typed clients of the four kinds, and makes every
// connection of Kiln. One file over gentype is enough: a generated clientset would
// bring a thousand lines and fakes whose apply is not the server's.
package client

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	agentsac "github.com/kiln-sandbox/kiln/crds/agents/v1beta1/applyconfiguration/agents/v1beta1"
	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	extensionsac "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1/applyconfiguration/extensions/v1beta1"
)

// The client of each kind, in one namespace or, with none, in all of them.
type (
	// Sandboxes is the client of Sandbox.
	Sandboxes = gentype.ClientWithListAndApply[*agents.Sandbox, *agents.SandboxList, *agentsac.SandboxApplyConfiguration]
	// Claims is the client of SandboxClaim.
	Claims = gentype.ClientWithListAndApply[*extensions.SandboxClaim, *extensions.SandboxClaimList, *extensionsac.SandboxClaimApplyConfiguration]
	// Pools is the client of SandboxWarmPool.
	Pools = gentype.ClientWithListAndApply[*extensions.SandboxWarmPool, *extensions.SandboxWarmPoolList, *extensionsac.SandboxWarmPoolApplyConfiguration]
	// Templates is the client of SandboxTemplate.
	Templates = gentype.ClientWithListAndApply[*extensions.SandboxTemplate, *extensions.SandboxTemplateList, *extensionsac.SandboxTemplateApplyConfiguration]
)

// Scheme knows the four kinds.
var Scheme = newScheme()

var (
	codecs     = newDecoding(Scheme)
	parameters = runtime.NewParameterCodec(Scheme)
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{agents.AddToScheme, extensions.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // the kinds are known when the program is built
		}
	}
	return s
}

// Clients is a client for each kind over one HTTP client.
type Clients struct {
	agents, extensions rest.Interface
}

// New makes the clients. The HTTP client carries the credentials of cfg; each
// group has a rate limiter of its own, as cfg says.
func New(cfg *rest.Config, h *http.Client) (*Clients, error) {
	a, err := group(cfg, h, agents.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	e, err := group(cfg, h, extensions.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return &Clients{agents: a, extensions: e}, nil
}

// group is a REST client for one group. It speaks JSON whatever cfg says: custom
// resources have no protobuf.
func group(cfg *rest.Config, h *http.Client, gv schema.GroupVersion) (rest.Interface, error) {
	c := rest.CopyConfig(cfg)
	c.APIPath = "/apis"
	c.ContentConfig = rest.ContentConfig{
		ContentType:          runtime.ContentTypeJSON,
		GroupVersion:         &gv,
		NegotiatedSerializer: codecs,
	}
	if c.UserAgent == "" {
		c.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	r, err := rest.RESTClientForConfigAndClient(c, h)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", gv, err)
	}
	return r, nil
}

// Sandboxes is the client of Sandbox in a namespace.
func (c *Clients) Sandboxes(ns string) *Sandboxes {
	return gentype.NewClientWithListAndApply[*agents.Sandbox, *agents.SandboxList, *agentsac.SandboxApplyConfiguration](
		agents.Resource.Resource, c.agents, parameters, ns,
		func() *agents.Sandbox { return &agents.Sandbox{} },
		func() *agents.SandboxList { return &agents.SandboxList{} },
	)
}

// Claims is the client of SandboxClaim in a namespace.
func (c *Clients) Claims(ns string) *Claims {
	return gentype.NewClientWithListAndApply[*extensions.SandboxClaim, *extensions.SandboxClaimList, *extensionsac.SandboxClaimApplyConfiguration](
		extensions.ClaimResource.Resource, c.extensions, parameters, ns,
		func() *extensions.SandboxClaim { return &extensions.SandboxClaim{} },
		func() *extensions.SandboxClaimList { return &extensions.SandboxClaimList{} },
	)
}

// Pools is the client of SandboxWarmPool in a namespace.
func (c *Clients) Pools(ns string) *Pools {
	return gentype.NewClientWithListAndApply[*extensions.SandboxWarmPool, *extensions.SandboxWarmPoolList, *extensionsac.SandboxWarmPoolApplyConfiguration](
		extensions.PoolResource.Resource, c.extensions, parameters, ns,
		func() *extensions.SandboxWarmPool { return &extensions.SandboxWarmPool{} },
		func() *extensions.SandboxWarmPoolList { return &extensions.SandboxWarmPoolList{} },
	)
}

// Templates is the client of SandboxTemplate in a namespace.
func (c *Clients) Templates(ns string) *Templates {
	return gentype.NewClientWithListAndApply[*extensions.SandboxTemplate, *extensions.SandboxTemplateList, *extensionsac.SandboxTemplateApplyConfiguration](
		extensions.TemplateResource.Resource, c.extensions, parameters, ns,
		func() *extensions.SandboxTemplate { return &extensions.SandboxTemplate{} },
		func() *extensions.SandboxTemplateList { return &extensions.SandboxTemplateList{} },
	)
}
