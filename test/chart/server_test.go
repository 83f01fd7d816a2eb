package chart

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/test/stage"
)

// kubectl runs kubectl with a manifest on its standard input, and returns what it said.
func kubectl(manifest string, args ...string) (string, error) {
	command := exec.CommandContext(setup.ctx, setup.cluster.Kubectl, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+setup.cluster.KubeconfigPath, "HOME="+filepath.Join(setup.cluster.Dir, "home"))
	command.Stdin = strings.NewReader(manifest)
	out, err := command.CombinedOutput()
	return string(out), err
}

// home makes the namespace of the controller.
func home(t *testing.T) {
	t.Helper()
	if err := setup.cluster.Apply(setup.ctx, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: "+stage.Home+"}}")); err != nil {
		t.Fatal(err)
	}
}

// operated are kinds of the Prometheus operator, which this server has not; the tests of
// what is measured read them.
var operated = []string{"ServiceMonitor", "PrometheusRule"}

// without is a manifest without some kinds.
func without(manifest string, kinds ...string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(manifest, "\n---\n"), func(document string) bool {
		return slices.ContainsFunc(kinds, func(kind string) bool { return strings.Contains(document, "\nkind: "+kind+"\n") })
	}), "\n---\n")
}

func TestEveryObjectFitsARealServer(t *testing.T) {
	home(t)
	for name, args := range map[string][]string{
		"by default":              nil,
		"with everything":         everything(),
		"with a few namespaces":   with(t, "watchNamespaces: [default, kube-public]"),
		"with sandboxes alone":    with(t, "controller: {extensions: false, metricsBindAddress: \"0\"}"),
		"with everything changed": with(t, "replicaCount: 1\npodDisruptionBudget: {maxUnavailable: 50%}\nnetworkPolicy: {egress: [{ports: [{port: 6443}]}]}\nextraEnv: [{name: A, value: b}]\nimage: {digest: sha256:"+strings.Repeat("a", 64)+"}"),
	} {
		t.Run(name, func(t *testing.T) {
			said, err := kubectl(without(rendered(t, args...), operated...), "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-")
			if err != nil || strings.Contains(said, "Warning") {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
}

// What users of the agent-sandbox controller apply.
func TestThePlainManifestsAreCompleteAndFit(t *testing.T) {
	home(t)
	dir := t.TempDir()
	if out, err := exec.CommandContext(setup.ctx, "make", "-C", setup.root, "manifests", "MANIFESTS="+dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for file, definitions := range map[string]int{"sandbox.yaml": 1, "sandbox-with-extensions.yaml": 4} {
		t.Run(file, func(t *testing.T) {
			path := filepath.Join(dir, file)
			said, err := kubectl("", "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", path)
			if err != nil || strings.Contains(said, "Warning") {
				t.Errorf("%v\n%s", err, said)
			}
			for part, want := range map[string]int{
				"customresourcedefinition.apiextensions": definitions, "namespace/": 1, "deployment.apps/": 1, "clusterrole.rbac": 4, "rolebinding.rbac": 2,
			} {
				if got := strings.Count(said, part); got < want {
					t.Errorf("%d of %s, want %d in\n%s", got, part, want, said)
				}
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte("managed-by: Helm")) || bytes.Contains(text, []byte("helm.sh/hook")) {
				t.Error("it says that helm installs it")
			}
		})
	}
}

// Every pod of the chart is let into a namespace that enforces the profile restricted.
func TestEveryPodIsRestricted(t *testing.T) {
	g := NewWithT(t)
	const name = "restricted"
	g.Expect(setup.cluster.Apply(setup.ctx, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: "+name+
		", labels: {pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/enforce-version: latest}}}"))).To(Succeed())
	manifest := rendered(t)
	var d deployment
	var j batchv1.Job
	var p corev1.Pod
	into(t, object(t, manifest, "Deployment", "agent-sandbox-controller"), &d)
	into(t, object(t, manifest, "Job", "agent-sandbox-controller-crds"), &j)
	into(t, object(t, manifest, "Pod", "agent-sandbox-controller-answers"), &p)
	for what, spec := range map[string]corev1.PodSpec{"the controller": d.Spec.Template.Spec, "the hook": j.Spec.Template.Spec, "the test": p.Spec} {
		create := func(spec corev1.PodSpec) error {
			_, err := setup.core.CoreV1().Pods(name).Create(setup.ctx,
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Spec: spec}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		g.Expect(create(spec)).To(Succeed(), what)
		g.Expect(*spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem).To(BeTrue(), what)
		spec = *spec.DeepCopy()
		spec.Containers[0].SecurityContext.Capabilities = nil
		g.Expect(create(spec)).To(MatchError(ContainSubstring("violates PodSecurity")), "the profile is enforced here")
	}
}

// as is the client of somebody else, who is in system:masters but for the name.
func as(t *testing.T, user string) kubernetes.Interface {
	t.Helper()
	cfg := rest.CopyConfig(setup.cluster.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

const controllerUser = "system:serviceaccount:" + stage.Home + ":" + stage.Account

// admission makes the policies, which stay, and a namespace, and returns when the server minds
// them.
func admission(t *testing.T, namespace string) {
	t.Helper()
	manifest := rendered(t, append(everything(), "--show-only", "templates/admission.yaml")...)
	for _, part := range []string{manifest, "{apiVersion: v1, kind: Namespace, metadata: {name: " + namespace + "}}"} {
		if err := setup.cluster.Apply(setup.ctx, []byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	g := NewWithT(t)
	g.Eventually(func() error { return label(setup.ctx, setup.core, namespace, "ready") }, patience, often).ShouldNot(Succeed())
	for _, o := range objects(t, manifest) {
		if o.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		p, err := setup.core.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(setup.ctx, o.GetName(), metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		if p.Status.TypeChecking != nil {
			g.Expect(p.Status.TypeChecking.ExpressionWarnings).To(BeEmpty())
		}
	}
}

// label asks, without doing it, for a pod with a state.
func label(ctx context.Context, as kubernetes.Interface, namespace, state string) error {
	_, err := as.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "asked", Labels: map[string]string{"agents.x-k8s.io/state": state}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func TestOnlyTheControllerWritesTheLabelsThatSayWhoseAPodIs(t *testing.T) {
	g := NewWithT(t)
	const namespace = "labels"
	admission(t, namespace)
	g.Expect(label(setup.ctx, setup.core, namespace, "ready")).To(MatchError(ContainSubstring("the label agents.x-k8s.io/state is written by the controller alone")))
	g.Expect(label(setup.ctx, as(t, controllerUser), namespace, "ready")).To(Succeed())
	pods := func(of kubernetes.Interface, patch string) error {
		_, err := of.CoreV1().Pods(namespace).Patch(setup.ctx, "p", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	_, err := setup.core.CoreV1().Pods(namespace).Create(setup.ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred(), "a pod of a user's own is nobody's concern")
	for key, value := range map[string]string{"state": `"bound"`, "claim-uid": `"x"`, "warm-pool-sandbox": `"x"`} {
		set := `{"metadata":{"labels":{"agents.x-k8s.io/` + key + `":` + value + `}}}`
		gone := `{"metadata":{"labels":{"agents.x-k8s.io/` + key + `":null}}}`
		g.Expect(pods(setup.core, set)).To(Satisfy(apierrors.IsForbidden), key)
		g.Expect(pods(as(t, controllerUser), set)).To(Succeed(), key)
		g.Expect(pods(setup.core, gone)).To(Satisfy(apierrors.IsForbidden), key)
	}
	g.Expect(pods(setup.core, `{"metadata":{"labels":{"mine":"x"}}}`)).To(Succeed(), "other labels are the user's")
}

func TestASandboxNeverGoesFromOneClaimToAnother(t *testing.T) {
	g := NewWithT(t)
	const namespace = "owners"
	g.Expect(setup.cluster.InstallCRDs(setup.ctx)).To(Succeed())
	admission(t, namespace)
	// They exist, or the garbage collector would take what they own.
	owners := map[string]*unstructured.Unstructured{
		"pool":  {Object: map[string]any{"kind": "SandboxWarmPool", "spec": map[string]any{"replicas": 0, "sandboxTemplateRef": map[string]any{"name": "t"}}}},
		"first": {Object: map[string]any{"kind": "SandboxClaim", "spec": map[string]any{"warmPoolRef": map[string]any{"name": "p"}}}},
	}
	owners["second"] = owners["first"].DeepCopy()
	for name, o := range owners {
		o.SetAPIVersion("extensions.agents.x-k8s.io/v1beta1")
		o.SetName(name)
		text, err := o.MarshalJSON()
		g.Expect(err).NotTo(HaveOccurred())
		said, err := kubectl(string(text), "-n", namespace, "create", "-f", "-", "-o", "jsonpath={.metadata.uid}")
		g.Expect(err).NotTo(HaveOccurred(), said)
		o.SetUID(types.UID(said))
	}
	sandbox := func(name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": map[string]any{"name": "s", "namespace": namespace},
			"spec": map[string]any{"podTemplate": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "image"}}}}},
		}}
		if owner := owners[name]; owner != nil {
			yes := true
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: name, UID: owner.GetUID(), Controller: &yes}})
		}
		return o
	}
	apply := func(o *unstructured.Unstructured) error {
		text, err := o.MarshalJSON()
		if err != nil {
			return err
		}
		return setup.cluster.Apply(setup.ctx, text)
	}
	g.Expect(apply(sandbox("pool"))).To(Succeed())
	g.Expect(apply(sandbox("first"))).To(Succeed(), "a claim takes it from a pool")
	g.Eventually(func() (string, error) {
		text, err := sandbox("second").MarshalJSON()
		if err != nil {
			return "", err
		}
		said, _ := kubectl(string(text), "apply", "--server-side", "--force-conflicts", "--field-manager=cluster", "--dry-run=server", "-f", "-")
		return said, nil
	}, patience, often).Should(ContainSubstring("never another claim's"))
	g.Expect(apply(sandbox("second"))).To(MatchError(ContainSubstring("never another claim's")))
	marked := sandbox("first")
	marked.SetLabels(map[string]string{"agents.x-k8s.io/claim-uid": string(owners["first"].GetUID())})
	g.Expect(apply(marked)).To(Succeed())
	left := sandbox("")
	left.SetLabels(marked.GetLabels())
	g.Expect(apply(left)).To(Succeed(), "a claim may leave it behind")
	again := sandbox("second")
	again.SetLabels(marked.GetLabels())
	g.Expect(apply(again)).To(MatchError(ContainSubstring("never another claim's")), "and it is nobody else's then")
	g.Expect(apply(marked)).To(Succeed())
}

// Requests are told apart by what they are for: claims go before refills, refills before the rest.
func TestRequestsOfTheControllerHaveTheirLevels(t *testing.T) {
	g := NewWithT(t)
	home(t)
	g.Expect(setup.cluster.InstallCRDs(setup.ctx)).To(Succeed())
	g.Expect(setup.cluster.Apply(setup.ctx, []byte(rendered(t, append(everything(), "--show-only", "templates/flowcontrol.yaml")...)))).To(Succeed())
	t.Cleanup(func() {
		for _, kind := range []string{"flowschema", "prioritylevelconfiguration"} {
			if said, err := kubectl("", "delete", kind, "-l", "app.kubernetes.io/name=kiln"); err != nil {
				t.Errorf("%v\n%s", err, said)
			}
		}
	})
	schemas := map[string]string{}
	for _, name := range []string{"claims", "refill", "rest"} {
		s, err := setup.core.FlowcontrolV1().FlowSchemas().Get(setup.ctx, "agent-sandbox-controller-"+name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(s.Spec.PriorityLevelConfiguration.Name).To(Equal("agent-sandbox-controller-" + name))
		schemas[string(s.UID)] = name
	}
	cfg, _ := account(t)
	h, err := rest.HTTPClientFor(cfg)
	g.Expect(err).NotTo(HaveOccurred())
	for request, level := range map[string]string{
		"PATCH /apis/extensions.agents.x-k8s.io/v1beta1/namespaces/default/sandboxclaims/x/status":    "claims",
		"PATCH /apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes/x":                          "claims",
		"GET /apis/extensions.agents.x-k8s.io/v1beta1/namespaces/default/sandboxwarmpools/x":          "claims",
		"PUT /apis/coordination.k8s.io/v1/namespaces/" + stage.Home + "/leases/x":                     "claims",
		"PATCH /api/v1/namespaces/default/pods/x":                                                     "refill",
		"PATCH /apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes/x/status":                   "refill",
		"PATCH /apis/extensions.agents.x-k8s.io/v1beta1/namespaces/default/sandboxwarmpools/x/status": "rest",
		"POST /apis/events.k8s.io/v1/namespaces/default/events":                                       "rest",
		"GET /api/v1/pods": "rest",
	} {
		verb, path, _ := strings.Cut(request, " ")
		g.Eventually(func() (string, error) {
			r, err := httpRequest(setup.ctx, verb, cfg.Host+path)
			if err != nil {
				return "", err
			}
			answer, err := h.Do(r)
			if err != nil {
				return "", err
			}
			defer answer.Body.Close()
			return schemas[answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)], nil
		}, patience, often).Should(Equal(level), request)
	}
}

// Users have with these kinds what they have with others, by the roles that every cluster has.
func TestUsersRolesReachTheKindsOfTheAPI(t *testing.T) {
	g := NewWithT(t)
	g.Expect(setup.cluster.Apply(setup.ctx, []byte(rendered(t, "--show-only", "templates/users.yaml")))).To(Succeed())
	for _, role := range []string{"view", "edit", "admin"} {
		g.Expect(setup.cluster.Apply(setup.ctx, []byte("{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: "+role+
			", namespace: default}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "+role+"}, subjects: [{kind: User, name: "+role+"}]}"))).To(Succeed())
	}
	may := func(user, verb, what string) func() (string, error) {
		return func() (string, error) {
			said, err := kubectl("", "auth", "can-i", verb, what, "-n", "default", "--as="+user)
			said = strings.TrimSpace(said)
			if said == "yes" || said == "no" {
				err = nil // kubectl ends with 1 to say no
			}
			return said, err
		}
	}
	for _, what := range []string{"sandboxes.agents.x-k8s.io", "sandboxclaims.extensions.agents.x-k8s.io", "sandboxwarmpools.extensions.agents.x-k8s.io", "sandboxtemplates.extensions.agents.x-k8s.io"} {
		for _, role := range []string{"view", "edit", "admin"} {
			for verb, roles := range map[string][]string{"list": {"view", "edit", "admin"}, "create": {"edit", "admin"}, "deletecollection": {"admin"}} {
				want := "no"
				if slices.Contains(roles, role) {
					want = "yes"
				}
				g.Eventually(may(role, verb, what), patience, often).Should(Equal(want), role+" "+verb+" "+what)
			}
		}
	}
}

func httpRequest(ctx context.Context, verb, url string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, verb, url, strings.NewReader("{}"))
	if err == nil && verb == http.MethodPatch {
		r.Header.Set("Content-Type", string(types.MergePatchType))
	}
	return r, err
}
