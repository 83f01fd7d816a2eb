package suite

import (
	"context"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/crds"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

// patience is longer than any server takes. It is no measure of anything.
const patience = 5 * time.Minute

// opaque is the definition of Sandbox as it was when the server did not look into
// the spec of a pod.
func opaque(t *testing.T) []byte {
	t.Helper()
	var crd map[string]any
	if err := yaml.Unmarshal(crds.Manifests()[1], &crd); err != nil {
		t.Fatal(err)
	}
	version := crd["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	properties, _, err := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", "spec", "properties", "podTemplate", "properties")
	if err != nil {
		t.Fatal(err)
	}
	properties["spec"] = map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	if err := unstructured.SetNestedMap(version, properties, "schema", "openAPIV3Schema", "properties", "spec", "properties", "podTemplate", "properties"); err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// stored are sandboxes that no server would take today, by name, with what their
// status has to say.
var stored = []struct{ name, pod, says string }{
	{"quantity", `{containers: [{name: main, image: image, resources: {limits: {cpu: abc}}}]}`, "spec.podTemplate.spec.containers[0].resources.limits.cpu"},
	{"text", `{containers: [{name: main, image: image}, {name: side, image: image, env: [{name: A, value: 1}]}]}`, "spec.podTemplate.spec.containers[1].env[0].value"},
	{"port", `{containers: [{name: main, image: image, ports: [{containerPort: "80"}]}]}`, "spec.podTemplate.spec.containers[0].ports[0].containerPort"},
	{"list", `{containers: {name: main}}`, "spec.podTemplate.spec.containers"},
}

// A server of its own: the schema of a whole kind is changed under the objects.
func TestASandboxThatWasStoredBadIsReportedAndStopsNothing(t *testing.T) {
	t.Parallel()
	g, ctx := NewWithT(t), t.Context()
	c, err := cluster.Start(ctx, cluster.Options{CRDs: true})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(c.Stop()).To(Succeed()) })
	conn, err := client.Connect(c.Config, nil)
	g.Expect(err).NotTo(HaveOccurred())
	dyn, err := dynamic.NewForConfig(c.Config)
	g.Expect(err).NotTo(HaveOccurred())
	sandboxes := dyn.Resource(agents.Resource).Namespace(metav1.NamespaceDefault)

	g.Expect(c.Apply(ctx, opaque(t))).To(Succeed())
	for _, one := range stored {
		bad := sandboxOf(t, one.name, one.pod)
		g.Eventually(func() error {
			_, err := sandboxes.Create(ctx, bad, metav1.CreateOptions{})
			return err
		}).WithTimeout(patience).Should(Succeed(), one.name)
	}
	g.Expect(c.InstallCRDs(ctx)).To(Succeed())
	refused := sandboxOf(t, "refused", stored[0].pod)
	g.Eventually(func() error {
		_, err := sandboxes.Create(ctx, refused, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}).WithTimeout(patience).Should(MatchError(ContainSubstring("cpu")), "the new schema is in force")

	explained, err := exec.Command(c.Kubectl, "--kubeconfig", c.KubeconfigPath, "explain", "sandbox.spec.podTemplate.spec.containers.resources").CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(explained))
	g.Expect(string(explained)).To(And(ContainSubstring("limits"), ContainSubstring("map[string]")))

	run(t, c)
	_, err = conn.Kiln.Sandboxes(metav1.NamespaceDefault).Create(ctx, world.Sandbox("good"), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() error {
		_, err := conn.Core.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "good", metav1.GetOptions{})
		return err
	}).WithTimeout(patience).Should(Succeed(), "others are served")
	for _, one := range stored {
		g.Eventually(func() []string { return said(t, conn, one.name) }).WithTimeout(patience).
			Should(ContainElement(ContainSubstring(one.says)), one.name)
	}
}

// said is what is said of a sandbox: in its Ready condition, and in Warnings. Where
// the value is no value of its type the server cannot apply a status, and the
// Warning is all there can be.
func said(t *testing.T, c *client.Connection, name string) (all []string) {
	t.Helper()
	s, err := c.Kiln.Sandboxes(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ready := meta.FindStatusCondition(s.Status.Conditions, "Ready"); ready != nil && ready.Status == metav1.ConditionFalse {
		all = append(all, ready.Message)
	}
	events, err := c.Core.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Regarding.UID == s.UID && e.Type == corev1.EventTypeWarning {
			all = append(all, e.Note)
		}
	}
	return all
}

func sandboxOf(t *testing.T, name, pod string) *unstructured.Unstructured {
	t.Helper()
	var o map[string]any
	text := "apiVersion: agents.x-k8s.io/v1beta1\nkind: Sandbox\nmetadata: {name: " + name + "}\nspec: {podTemplate: {spec: " + pod + "}}"
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: o}
}

// run runs Kiln on a cluster until the test ends.
func run(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	log := &strings.Builder{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	applier, err := apply.New(c.Config, apply.Options{Log: logger, Component: "kiln"})
	if err != nil {
		t.Fatal(err)
	}
	opts := watch.DefaultOptions()
	opts.Log = logger
	kiln, err := watch.New(c.Config, applier, opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { kiln.Watch(ctx); done <- nil }()
	go func() { done <- kiln.Work(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			<-done
		}
		if t.Failed() {
			t.Log(log)
		}
	})
}
