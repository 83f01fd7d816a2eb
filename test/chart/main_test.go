// Package chart holds the chart against what it promises: every value has an effect, every
// object fits a real API server, the controller gets the rights that it uses, alerts and
// dashboard ask for what the controller tells.
package chart

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/stage"
)

// setup is what the tests of this package share.
var setup struct {
	ctx context.Context
	// root is the repository, helm and kiln the paths of binaries.
	root, helm, kiln string
	cluster          *cluster.Cluster
	audit            *stage.Audit
	core             kubernetes.Interface
}

func TestMain(m *testing.M) {
	stage.TestMain("chart", func(ctx context.Context, dir string) (int, error) { return run(ctx, dir, m) })
}

func run(ctx context.Context, dir string, m *testing.M) (code int, err error) {
	setup.ctx = ctx
	if setup.root, err = cluster.Root(); err != nil {
		return 1, err
	}
	setup.helm = filepath.Join(setup.root, "bin", "helm")
	if _, err := os.Stat(setup.helm); err != nil {
		return 1, fmt.Errorf("%w: run make bin/helm", err)
	}
	if setup.kiln, err = stage.Build(ctx, dir); err != nil {
		return 1, err
	}
	if setup.audit, err = stage.NewAudit(); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, setup.audit.Remove()) }()
	flags := setup.audit.Flags()
	// As on clusters that are strict: who names an owner that blocks needs rights on it.
	flags["enable-admission-plugins"] = []string{"OwnerReferencesPermissionEnforcement"}
	if setup.cluster, err = cluster.Start(ctx, cluster.Options{
		APIServerFlags: flags, Manager: true, Scheduler: true, Nodes: 1,
		Controllers: []string{"job-controller", "deployment-controller", "replicaset-controller", "clusterrole-aggregation-controller"},
	}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, setup.cluster.Stop()) }()
	if setup.core, err = kubernetes.NewForConfig(setup.cluster.Config); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// at is a path in the repository.
func at(path ...string) string { return filepath.Join(append([]string{setup.root}, path...)...) }

// everything are the arguments that switch on all that the chart can make.
func everything() []string { return []string{"-f", at("test", "chart", "testdata", "everything.yaml")} }

// template renders the chart as `helm template` does, or returns what helm said.
func template(args ...string) (string, error) {
	command := exec.CommandContext(setup.ctx, setup.helm,
		append([]string{"template", "kiln", at("helm", "kiln"), "-n", stage.Home}, args...)...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("helm template: %w\n%s", err, said.String())
	}
	return string(out), nil
}

// rendered is the chart rendered, or the end of the test.
func rendered(t *testing.T, args ...string) string {
	t.Helper()
	text, err := template(args...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// with are the arguments that give the chart values, written as YAML.
func with(t *testing.T, values string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-f", file}
}

// objects are the objects of a manifest.
func objects(t *testing.T, manifest string) (all []*unstructured.Unstructured) {
	t.Helper()
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}

// object is the one object of a kind and a name.
func object(t *testing.T, manifest, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range objects(t, manifest) {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("the chart makes no %s %s", kind, name)
	return nil
}

// into reads an object as its type, and fails on fields that the type has not.
func into(t *testing.T, from *unstructured.Unstructured, to any) {
	t.Helper()
	text, err := yaml.Marshal(from.Object)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, to); err != nil {
		t.Fatalf("%s %s: %v", from.GetKind(), from.GetName(), err)
	}
}
