package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/yaml"

	"github.com/kiln-sandbox/kiln/crds"
)

const crdsUsage = `kiln crds install applies the CustomResourceDefinitions of this version, and returns when they are served.
Definitions under which objects are still stored as v1alpha1 are left alone, and it says what helps.

Flags:
  --kubeconfig file    as of kiln controller
`

// served is the version that objects are served and stored in.
const served = "v1beta1"

// installer is the field manager of the definitions.
const installer = "kiln-crds"

// installCRDs carries out kiln crds install.
func installCRDs(ctx context.Context, args []string, out io.Writer) error {
	var s settings
	f := flag.NewFlagSet("kiln crds", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "")
	if len(args) == 0 || args[0] != "install" {
		fmt.Fprint(out, crdsUsage)
		if len(args) > 0 && slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
			return nil
		}
		return fmt.Errorf("%w: say kiln crds install", errUsage)
	}
	switch err := f.Parse(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, crdsUsage)
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", errUsage, err)
	case f.NArg() > 0:
		return fmt.Errorf("%w: %q is not a flag", errUsage, f.Arg(0))
	}
	s.qps = -1
	cfg, err := connect(ctx, &s)
	if err != nil {
		return err
	}
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	return install(ctx, c.Resource(crdResource), out)
}

// install applies every definition, if none of them would be refused.
func install(ctx context.Context, c dynamic.ResourceInterface, out io.Writer) error {
	var refused []error
	for _, name := range crds.Names() {
		is, err := c.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		default:
			refused = append(refused, keepsOlder(is))
		}
	}
	if err := errors.Join(refused...); err != nil {
		return err
	}
	for _, raw := range crds.Manifests() {
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &crd.Object); err != nil {
			return err
		}
		if _, err := c.Apply(ctx, crd.GetName(), crd, metav1.ApplyOptions{FieldManager: installer, Force: true}); err != nil {
			return fmt.Errorf("apply %s: %w", crd.GetName(), err)
		}
		fmt.Fprintln(out, crd.GetName()+" applied")
	}
	return established(ctx, c)
}

// established returns when the API server serves the definitions.
func established(ctx context.Context, c dynamic.ResourceInterface) error {
	for _, name := range crds.Names() {
		for {
			crd, err := c.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			if conditionTrue(crd, "Established") {
				break
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Second):
			}
		}
	}
	return nil
}

func conditionTrue(o *unstructured.Unstructured, kind string) bool {
	conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	return err == nil && slices.ContainsFunc(conditions, func(one any) bool {
		c, ok := one.(map[string]any)
		return ok && c["type"] == kind && c["status"] == "True"
	})
}

// stored are the versions that objects may be stored in, as the status says.
func stored(crd *unstructured.Unstructured) []string {
	versions, _, err := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	if err != nil {
		return nil
	}
	return versions
}

// older reports whether objects may be stored in a version that is not served any
// more.
func older(crd *unstructured.Unstructured) bool {
	return slices.ContainsFunc(stored(crd), func(v string) bool { return v != served })
}

// keepsOlder says why a definition cannot be replaced, and what helps.
func keepsOlder(crd *unstructured.Unstructured) error {
	if !older(crd) {
		return nil
	}
	name := crd.GetName()
	return fmt.Errorf(`%s: objects are stored as %s, and this version serves %s alone. Rewrite them and drop the old version first, with
  kiln migrate --prune-stored-versions
or by hand, while the agent-sandbox controller that converts them still runs, with
  kubectl get %s -A -o json | kubectl replace -f -
  kubectl patch crd %s --subresource=status --type=merge -p '{"status":{"storedVersions":[%q]}}'`,
		name, strings.Join(stored(crd), " and "), served, name, name, served)
}

// prune rewrites the stored objects of every definition that keeps an older version,
// and takes that out of its status.
func prune(ctx context.Context, cfg *rest.Config, dryRun bool, out io.Writer) error {
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	for _, name := range crds.Names() {
		crd, err := c.Resource(crdResource).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			fmt.Fprintf(out, "%s: not installed\n", name)
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		case !older(crd):
			fmt.Fprintf(out, "%s: stored as %s alone\n", name, served)
		default:
			if err := pruneOne(ctx, c, crd, dryRun, out); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// pruneOne is sound for two reasons: what is written meanwhile is written in the
// storage version, which is the new one; and the status is written only if the
// definition is still the one that was looked at before.
func pruneOne(ctx context.Context, c dynamic.Interface, crd *unstructured.Unstructured, dryRun bool, out io.Writer) error {
	if !storesServed(crd) {
		return fmt.Errorf("%s is not the version that objects are stored in; upgrade the agent-sandbox controller and its definitions to one that stores %s, and try again", served, served)
	}
	n, err := rewrite(ctx, c, crd, dryRun)
	if err != nil {
		return err
	}
	if dryRun {
		fmt.Fprintf(out, "%s: %d objects would be rewritten, and %s would become %s\n", crd.GetName(), n, strings.Join(stored(crd), " and "), served)
		return nil
	}
	body := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"status":{"storedVersions":[%q]}}`, crd.GetResourceVersion(), served)
	if _, err := c.Resource(crdResource).Patch(ctx, crd.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: installer}, "status"); err != nil {
		return fmt.Errorf("drop the older version: %w", err)
	}
	fmt.Fprintf(out, "%s: %d objects rewritten, %s became %s\n", crd.GetName(), n, strings.Join(stored(crd), " and "), served)
	return nil
}

// storesServed reports whether new objects are stored in the served version.
func storesServed(crd *unstructured.Unstructured) bool {
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return err == nil && slices.ContainsFunc(versions, func(one any) bool {
		v, ok := one.(map[string]any)
		return ok && v["name"] == served && v["storage"] == true && v["served"] == true
	})
}

// rewrite has the server store every object anew: a patch that changes nothing is
// written all the same when the stored version is another one.
func rewrite(ctx context.Context, c dynamic.Interface, crd *unstructured.Unstructured, dryRun bool) (n int, err error) {
	plural, group, _ := strings.Cut(crd.GetName(), ".")
	resource := c.Resource(schema.GroupVersionResource{Group: group, Version: served, Resource: plural})
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return resource.List(ctx, o) }
	err = pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		one := o.(*unstructured.Unstructured)
		n++
		if dryRun {
			return nil
		}
		_, err := resource.Namespace(one.GetNamespace()).Patch(ctx, one.GetName(), types.MergePatchType, []byte("{}"), metav1.PatchOptions{FieldManager: installer})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("rewrite %s/%s: %w", one.GetNamespace(), one.GetName(), err)
		}
		return nil
	})
	return n, err
}
