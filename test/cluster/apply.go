package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/kiln-sandbox/kiln/crds"
)

// manager is the field manager of what this package writes.
const manager = "cluster"

// Apply applies every document of a manifest by server-side apply, as the
// administrator. A namespaced object that names no namespace goes to default.
func (c *Cluster) Apply(ctx context.Context, manifest []byte) error {
	objects, err := parse(manifest)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	discovery, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return err
	}
	kinds := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery))
	for _, o := range objects {
		kind, err := kinds.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if _, err := resource(client, kind, o).Apply(ctx, o.GetName(), o,
			metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func resource(client dynamic.Interface, kind *meta.RESTMapping, o *unstructured.Unstructured) dynamic.ResourceInterface {
	if kind.Scope.Name() != meta.RESTScopeNameNamespace {
		return client.Resource(kind.Resource)
	}
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return client.Resource(kind.Resource).Namespace(namespace)
}

// parse splits a manifest into its objects; empty documents are skipped.
func parse(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// InstallCRDs installs Kiln's custom resources and returns when they are served.
func (c *Cluster) InstallCRDs(ctx context.Context) error {
	for _, manifest := range crds.Manifests() {
		if err := c.Apply(ctx, manifest); err != nil {
			return err
		}
	}
	for _, name := range crds.Names() {
		if err := c.Await(ctx, crdResource, "", name, True("Established")); err != nil {
			return err
		}
	}
	return nil
}
