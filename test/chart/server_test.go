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
	appsv1 "k8s.io/api/apps/v1"
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
	into(t, object(t, manifest, "Deployment", "kiln"), &d)
	into(t, object(t, manifest, "Job", "kiln-crds"), &j)
	into(t, object(t, manifest, "Pod", "kiln-answers"), &p)
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
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		// This test is its scheduler.
		Spec: corev1.PodSpec{SchedulerName: "test", Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred(), "a pod of a user's own is nobody's concern")
	status := func(of kubernetes.Interface, patch string) error {
		_, err := of.CoreV1().Pods(namespace).Patch(setup.ctx, "p", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	}
	for key, value := range map[string]string{"state": `"bound"`, "claim-uid": `"x"`, "warm-pool-sandbox": `"x"`} {
		set := `{"metadata":{"labels":{"agents.x-k8s.io/` + key + `":` + value + `}}}`
		gone := `{"metadata":{"labels":{"agents.x-k8s.io/` + key + `":null}}}`
		g.Expect(pods(setup.core, set)).To(Satisfy(apierrors.IsForbidden), key)
		g.Expect(pods(as(t, controllerUser), set)).To(Succeed(), key)
		g.Expect(pods(setup.core, gone)).To(Satisfy(apierrors.IsForbidden), key)
		g.Expect(status(setup.core, gone)).To(Satisfy(apierrors.IsForbidden), "a write of the status writes labels, too")
	}
	binding := func(labels map[string]string) *corev1.Binding {
		return &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: labels}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-0"}}
	}
	scheduler, forged := as(t, "system:kube-scheduler").CoreV1(), map[string]string{"agents.x-k8s.io/state": "stale"}
	g.Expect(scheduler.Pods(namespace).Bind(setup.ctx, binding(forged), metav1.CreateOptions{})).To(Satisfy(apierrors.IsForbidden), "the labels of a binding go onto the pod")
	g.Expect(scheduler.RESTClient().Post().Namespace(namespace).Resource("bindings").Body(binding(forged)).Do(setup.ctx).Error()).To(Satisfy(apierrors.IsForbidden))
	g.Expect(scheduler.Pods(namespace).Bind(setup.ctx, binding(nil), metav1.CreateOptions{})).To(Succeed())
	for _, user := range []string{"system:kube-scheduler", "system:node:n"} {
		g.Expect(status(as(t, user), `{"status":{"message":"`+user+`"}}`)).To(Succeed(), "who leaves the labels alone writes the status")
	}
	g.Expect(pods(setup.core, `{"metadata":{"labels":{"mine":"x"}}}`)).To(Succeed(), "other labels are the user's")
}

// A rolling update would start a second replica beside the first one, and both would work.
func TestAReplicaThatHoldsNoLeaseEndsBeforeTheNextOneStarts(t *testing.T) {
	g := NewWithT(t)
	const namespace = "recreated"
	g.Expect(setup.cluster.Apply(setup.ctx, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}"))).To(Succeed())
	for _, c := range []struct {
		leaderElect string
		want        appsv1.DeploymentStrategyType
	}{{"true", appsv1.RollingUpdateDeploymentStrategyType}, {"false", appsv1.RecreateDeploymentStrategyType}, {"true", appsv1.RollingUpdateDeploymentStrategyType}} {
		manifest := rendered(t, append(with(t, "{replicaCount: 1, namespace: {name: "+namespace+"}, controller: {leaderElect: "+c.leaderElect+"}}"),
			"--show-only", "templates/deployment.yaml")...)
		for name, args := range map[string][]string{
			"by the server": {"--server-side", "--force-conflicts", "--field-manager=helm"}, "by the client": nil,
		} {
			said, err := kubectl(manifest, append([]string{"apply", "--dry-run=server", "-o", "jsonpath={.spec.strategy.type}", "-f", "-"}, args...)...)
			g.Expect(err).NotTo(HaveOccurred(), said)
			g.Expect(said).To(ContainSubstring(string(c.want)), name)
		}
		said, err := kubectl(manifest, "apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", "-")
		g.Expect(err).NotTo(HaveOccurred(), said)
	}
}

// owners makes a pool and two claims, which exist, or the garbage collector would take what they
// own. It returns them by their names.
func owners(t *testing.T, namespace string) map[string]*unstructured.Unstructured {
	t.Helper()
	claim := map[string]any{"warmPoolRef": map[string]any{"name": "p"}}
	all := map[string]*unstructured.Unstructured{
		"pool":   {Object: map[string]any{"kind": "SandboxWarmPool", "spec": map[string]any{"replicas": 0, "sandboxTemplateRef": map[string]any{"name": "t"}}}},
		"first":  {Object: map[string]any{"kind": "SandboxClaim", "spec": claim}},
		"second": {Object: map[string]any{"kind": "SandboxClaim", "spec": claim}},
	}
	for name, o := range all {
		o.SetAPIVersion("extensions.agents.x-k8s.io/v1beta1")
		o.SetName(name)
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		said, err := kubectl(string(text), "-n", namespace, "create", "-f", "-", "-o", "jsonpath={.metadata.uid}")
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		o.SetUID(types.UID(said))
	}
	return all
}

// owned is a sandbox with an owner and with a label that says whose it is, if there are any.
func owned(t *testing.T, namespace, name string, owner, label *unstructured.Unstructured) string {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{"podTemplate": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "image"}}}}},
	}}
	if owner != nil {
		o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	}
	if label != nil {
		o.SetLabels(map[string]string{"agents.x-k8s.io/claim-uid": string(label.GetUID())})
	}
	text, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestASandboxNeverGoesFromOneClaimToAnother(t *testing.T) {
	g := NewWithT(t)
	const namespace = "owners"
	g.Expect(setup.cluster.InstallCRDs(setup.ctx)).To(Succeed())
	admission(t, namespace)
	by := owners(t, namespace)
	apply := func(name, owner, label string) error {
		return setup.cluster.Apply(setup.ctx, []byte(owned(t, namespace, name, by[owner], by[label])))
	}
	g.Expect(apply("s", "pool", "")).To(Succeed())
	g.Expect(apply("s", "first", "")).To(Succeed(), "a claim takes it from a pool")
	g.Eventually(func() string {
		said, _ := kubectl(owned(t, namespace, "s", by["second"], nil), "apply", "--server-side", "--force-conflicts", "--field-manager=cluster", "--dry-run=server", "-f", "-")
		return said
	}, patience, often).Should(ContainSubstring("never another claim's"))
	const never, stays, leaves = "never another claim's", "stays as it is", "leaves its UID"
	for _, c := range []struct{ what, name, owner, label, refused string }{
		{"it goes to another claim", "s", "second", "", never},
		{"its claim leaves it, and nothing says whose it was", "s", "", "", leaves},
		{"the label says another claim than it has", "s", "first", "second", stays},
		{"the label says the claim that it has", "s", "first", "first", ""},
		{"the label goes with the owner", "s", "", "", stays},
		{"it goes to another claim after that", "s", "second", "", never},
		{"the label goes alone", "s", "first", "", stays},
		{"its claim leaves it, and the label says whose it was", "s", "", "first", ""},
		{"the label goes after that", "s", "", "", stays},
		{"the label says another claim after that", "s", "", "second", stays},
		{"another claim takes what was left", "s", "second", "first", never},
		{"another claim takes what was left, with its label", "s", "second", "second", never},
		{"its claim takes it again", "s", "first", "first", ""},
		{"one is made with a wrong label, as before there were policies", "wrong", "first", "second", ""},
		{"its claim leaves it, and the label says another one", "wrong", "", "second", leaves},
		{"the controller mends the label", "wrong", "first", "first", ""},
		{"one is free", "free", "pool", "", ""},
		{"a label keeps a free one from the claims", "free", "pool", "second", stays},
		{"the controller takes it for a claim", "free", "first", "first", ""},
	} {
		if err := apply(c.name, c.owner, c.label); (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: the API server said %v", c.what, err)
		}
	}
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
		s, err := setup.core.FlowcontrolV1().FlowSchemas().Get(setup.ctx, "kiln-"+name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(s.Spec.PriorityLevelConfiguration.Name).To(Equal("kiln-" + name))
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
