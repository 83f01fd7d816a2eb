package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/crds"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// telling are fields that a CRD of this version has and an older one has not.
var telling = map[string][]string{
	crds.SandboxClaims:    {"properties", "status", "properties", "startup"},
	crds.SandboxWarmPools: {"properties", "status", "properties", "currentRevision"},
}

// crdPause is how long to wait before looking for the CRDs again.
const crdPause = 5 * time.Second

// needed are the CRDs that are served: of sandboxes alone, or all.
func needed(s *settings) []string {
	if !s.extensions {
		return []string{crds.Sandboxes}
	}
	return crds.Names()
}

// awaitCRDs returns when the CRDs are there in a shape that fits. Until then it says
// which is not and what to do, once for each thing there is to say.
func awaitCRDs(ctx context.Context, cfg *rest.Config, names []string, log *slog.Logger) error {
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	said := ""
	for {
		wrong := checkCRDs(ctx, c, names)
		if wrong == nil {
			return nil
		}
		if wrong.Error() != said {
			said = wrong.Error()
			log.Error("the CustomResourceDefinitions do not fit; install those of this version: "+
				"kiln crds install, or kubectl apply --server-side --force-conflicts -f crds/agents/v1beta1 -f crds/extensions/v1beta1", "wrong", said)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(crdPause):
		}
	}
}

// checkCRDs says everything that is wrong with CRDs.
func checkCRDs(ctx context.Context, c dynamic.Interface, names []string) error {
	var wrong []error
	for _, name := range names {
		crd, err := c.Resource(crdResource).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			wrong = append(wrong, fmt.Errorf("%s is missing", name))
		case err != nil:
			wrong = append(wrong, fmt.Errorf("%s cannot be read: %w", name, err))
		default:
			wrong = append(wrong, checkCRD(crd))
		}
	}
	return errors.Join(wrong...)
}

func checkCRD(crd *unstructured.Unstructured) error {
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return err
	}
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok || version["name"] != "v1beta1" {
			continue
		}
		path := telling[crd.GetName()]
		if path == nil {
			return nil
		}
		if _, ok, err := unstructured.NestedFieldNoCopy(version, append([]string{"schema", "openAPIV3Schema"}, path...)...); err != nil || !ok {
			return fmt.Errorf("%s is of an older shape: it has no %s", crd.GetName(), strings.Join([]string{path[1], path[3]}, "."))
		}
		return nil
	}
	return fmt.Errorf("%s has no version v1beta1", crd.GetName())
}
