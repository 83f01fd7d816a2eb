package chart

import (
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kiln-sandbox/kiln/test/stage"
)

type deployment = appsv1.Deployment

// Tools that were made for the agent-sandbox controller look for its names, which nameOverride gives. The ports are
// the same in any case.
func TestTheNamesAreKilnsOwnOrThoseOfTheAgentSandboxController(t *testing.T) {
	for _, row := range []struct{ override, name string }{{"", "kiln"}, {"agent-sandbox-controller", "agent-sandbox-controller"}} {
		t.Run(row.name, func(t *testing.T) {
			values := "nameOverride: " + strconv.Quote(row.override)
			manifest := rendered(t, with(t, values)...)
			var d deployment
			into(t, object(t, manifest, "Deployment", row.name), &d)
			app := map[string]string{"app": row.name}
			if !maps.Equal(d.Spec.Selector.MatchLabels, app) {
				t.Errorf("it selects %v", d.Spec.Selector.MatchLabels)
			}
			if d.Namespace != "agent-sandbox-system" || *d.Spec.Replicas != 2 {
				t.Errorf("%d replicas in %s", *d.Spec.Replicas, d.Namespace)
			}
			pod := d.Spec.Template.Spec
			if pod.ServiceAccountName != row.name {
				t.Errorf("its account is %s", pod.ServiceAccountName)
			}
			ports := map[string]int32{}
			for _, p := range pod.Containers[0].Ports {
				ports[p.Name] = p.ContainerPort
			}
			if !maps.Equal(ports, map[string]int32{"metrics": 8080, "health": 8081}) {
				t.Errorf("its ports are %v", ports)
			}
			if name := configOf(pod); name != "agent-sandbox-config" {
				t.Errorf("it mounts %s, and should mount what users made", name)
			}
			var s corev1.Service
			into(t, object(t, manifest, "Service", row.name), &s)
			if !maps.Equal(s.Spec.Selector, app) || s.Spec.Ports[0].Port != 8080 {
				t.Errorf("the Service is %v", s.Spec)
			}
			manifest = rendered(t, with(t, values+"\nallowedLabelDomains: [a.example.com]")...)
			object(t, manifest, "ConfigMap", row.name+"-config")
			into(t, object(t, manifest, "Deployment", row.name), &d)
			if name := configOf(d.Spec.Template.Spec); name != row.name+"-config" {
				t.Errorf("it mounts %s, and should mount its own", name)
			}
		})
	}
}

// configOf is the ConfigMap that a pod mounts if it is there.
func configOf(pod corev1.PodSpec) string {
	for _, v := range pod.Volumes {
		if v.ConfigMap != nil && *v.ConfigMap.Optional {
			return v.ConfigMap.Name
		}
	}
	return ""
}

// Two releases that make an object of the same name cannot be installed at a time, and who uninstalls one of
// them deletes the object of the other.
func TestNoObjectHasANameOfTheAgentSandboxControllersChart(t *testing.T) {
	command := exec.CommandContext(setup.ctx, setup.helm, "template", "agent-sandbox", at("test", "e2e", "testdata", "incumbent"), "-n", stage.Home)
	text, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	key := func(o *unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }
	theirs := map[string]bool{}
	for _, o := range objects(t, string(text)) {
		theirs[key(o)] = true
	}
	if !theirs["Deployment agent-sandbox-controller"] {
		t.Fatalf("that chart makes %v", theirs)
	}
	for _, o := range objects(t, rendered(t, everything()...)) {
		if theirs[key(o)] {
			t.Errorf("both may make %s", key(o))
		}
		if !strings.HasPrefix(o.GetName(), "kiln") {
			t.Errorf("%s is no name of Kiln's own", key(o))
		}
	}
}

// The tests run with the rights of the chart, so they must be these.
func TestTheRolesAreTheRights(t *testing.T) {
	rights, err := stage.Rights()
	if err != nil {
		t.Fatal(err)
	}
	manifest := rendered(t, with(t, "metrics: {secure: true}")...)
	for _, want := range stage.Roles(rights) {
		text, err := yaml.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		o := objects(t, string(text))[0]
		is := object(t, manifest, o.GetKind(), o.GetName())
		is.SetLabels(nil)
		got, err := yaml.Marshal(is)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(text) {
			t.Errorf("the chart has\n%s\nand the tests have\n%s", got, text)
		}
	}
}

// Who watches few namespaces has no right anywhere else, and who serves sandboxes alone has none on claims.
func TestRightsEndWhereTheyAreNotNeeded(t *testing.T) {
	for _, o := range objects(t, rendered(t, append(with(t, "watchNamespaces: [a, b]"), "--no-hooks")...)) {
		if o.GetKind() == "ClusterRoleBinding" {
			t.Errorf("the controller has rights everywhere: %s", o.GetName())
		}
		if o.GetKind() == "RoleBinding" && !slices.Contains([]string{"a", "b", stage.Home}, o.GetNamespace()) {
			t.Errorf("the controller has rights in %s", o.GetNamespace())
		}
	}
	for _, o := range objects(t, rendered(t)) {
		if strings.Contains(o.GetName(), "metrics") {
			t.Errorf("metrics for everybody need no %s %s", o.GetKind(), o.GetName())
		}
	}
	var role rbacv1.ClusterRole
	into(t, object(t, rendered(t, with(t, "controller: {extensions: false}")...), "ClusterRole", "kiln"), &role)
	for _, rule := range role.Rules {
		if slices.Contains(rule.APIGroups, "extensions.agents.x-k8s.io") {
			t.Errorf("sandboxes alone need no %v", rule)
		}
	}
	rights, err := stage.Rights()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rights {
		if r.Extensions != slices.Contains(r.Rule.APIGroups, "extensions.agents.x-k8s.io") {
			t.Errorf("%v is for extensions, or it is not", r.Rule)
		}
	}
}
