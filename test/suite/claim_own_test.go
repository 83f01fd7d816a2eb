package suite

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// withEnv has a claim add an environment variable.
func withEnv(name, value, container string) func(*ext.SandboxClaim) {
	return func(c *ext.SandboxClaim) {
		c.Spec.Env = append(c.Spec.Env, ext.EnvVar{Name: name, Value: value, ContainerName: container})
	}
}

// withStorage has a claim add storage.
func withStorage(name string) func(*ext.SandboxClaim) {
	return func(c *ext.SandboxClaim) {
		c.Spec.VolumeClaimTemplates = append(c.Spec.VolumeClaimTemplates, agents.PersistentVolumeClaimTemplate{
			ObjectMeta: agents.VolumeMetadata{Name: name},
			Spec:       runtime.RawExtension{Raw: []byte(`{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`)},
		})
	}
}

// lenientTemplate is the template t with variables of its own, an init container, a
// container with envFrom, and what it lets a claim do.
func lenientTemplate(env ext.EnvVarsInjectionPolicy, volumes ext.VolumeClaimTemplatesPolicy) *ext.SandboxTemplate {
	t := world.Template("t")
	t.Spec.PodTemplate.Spec = runtime.RawExtension{Raw: []byte(`{
		"containers":[{"name":"main","image":"image","env":[{"name":"A","value":"a"}]},
			{"name":"side","image":"image","envFrom":[{"configMapRef":{"name":"c","optional":true}}]}],
		"initContainers":[{"name":"init","image":"image"}],
		"volumes":[{"name":"config","configMap":{"name":"c","optional":true}}]}`)}
	t.Spec.EnvVarsInjectionPolicy, t.Spec.VolumeClaimTemplatesPolicy = env, volumes
	return t
}

// envOf are the variables of a pod's containers, by the container.
func envOf(t *testing.T, w *kit.World, pod string) map[string][]corev1.EnvVar {
	t.Helper()
	p, err := w.Pods().Get(w.Context(), pod, metav1.GetOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	all := map[string][]corev1.EnvVar{}
	for _, c := range append(p.Spec.Containers, p.Spec.InitContainers...) {
		all[c.Name] = c.Env
	}
	return all
}

func TestAClaimWithVariablesGetsASandboxOfItsOwnWithThem(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := kit.New(t)
	w.Controller()
	w.Create(lenientTemplate(ext.EnvVarsOverrides, ""), world.Pool("p", 1))
	w.Await(world.Full("p", 1))
	w.Create(world.Claim("a", "p", withEnv("A", "z", ""), withEnv("B", "b", "side"), withEnv("C", "", "init")))
	w.Await(world.Bound("a"), world.Launched(apply.LaunchCold, "a"), world.Full("p", 1))
	g.Expect(envOf(t, w, "a")).To(Equal(map[string][]corev1.EnvVar{
		"main": {{Name: "A", Value: "z"}}, "side": {{Name: "B", Value: "b"}}, "init": {{Name: "C"}},
	}))
}

// What a template does not allow is said in the contract's words, of a claim that has
// taken nothing; and the claim is served when the template or the claim is mended.
func TestAClaimThatTheTemplateDoesNotAllowSaysSoAndTakesNothing(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		env  ext.EnvVarsInjectionPolicy
		vols ext.VolumeClaimTemplatesPolicy
		asks func(*ext.SandboxClaim)
		says string
	}{
		{"variables that are not allowed", "", "", withEnv("B", "b", ""),
			`False EnvVarsInjectionRejected spec.env: template "t" does not allow environment variables; set its envVarsInjectionPolicy to Allowed or Overrides, or remove spec.env`},
		{"a variable that is there", ext.EnvVarsAllowed, "", withEnv("A", "z", ""),
			`False ReconcilerError Error seen: environment variable override is not allowed by the template policy for variable "A"`},
		{"a variable beside envFrom", ext.EnvVarsAllowed, "", withEnv("B", "b", "side"),
			`False EnvVarsInjectionRejected spec.env: container "side" of template "t" has envFrom, so nobody can tell whether "B" would override something; ` +
				`set envVarsInjectionPolicy of the template to Overrides, or remove the variable`},
		{"a container that is not there", ext.EnvVarsOverrides, "", withEnv("B", "b", "no"),
			`False ReconcilerError Error seen: target container "no" not found in template for environment variable "B"`},
		{"storage that is not allowed", "", "", withStorage("data"),
			`False VolumeClaimTemplatesError failed to merge volume claim templates: volume claim templates are disallowed by the template; ` +
				`set volumeClaimTemplatesPolicy of template "t" to Allowed or Overrides, or remove spec.volumeClaimTemplates`},
		{"storage in the place of a volume", "", ext.VolumeClaimTemplatesAllowed, withStorage("config"),
			`False VolumeClaimTemplatesError failed to merge volume claim templates: overriding volume claim templates is forbidden by the template: ` +
				`spec.volumeClaimTemplates[0].metadata.name is "config", and the pod of template "t" has a volume of that name; give it another name, or set volumeClaimTemplatesPolicy to Overrides`},
		{"storage without a name", "", ext.VolumeClaimTemplatesAllowed, withStorage(""),
			`False VolumeClaimTemplatesError failed to merge volume claim templates: invalid volume claim templates: spec.volumeClaimTemplates[0].metadata.name is empty; give it a name`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			w := kit.New(t)
			c := w.Controller()
			w.Create(lenientTemplate(row.env, row.vols), world.Pool("p", 1))
			w.Await(resting(c, 1))
			w.Create(world.Claim("a", "p", row.asks))
			w.Await(func(s *world.Snapshot) error {
				if len(s.Claims["a"].Status.Conditions) == 0 {
					return errWaits
				}
				return nil
			})
			g.Expect(readyOf(w, "a")).To(Equal(row.says))
			g.Expect(c.Wire.Count("sandbox", "adopt") + c.Wire.Count("sandbox", "cold")).To(BeZero())
			patchClaim(t, w, "a", `{"spec":{"env":null,"volumeClaimTemplates":null}}`)
			w.Await(world.Converged("p", 1, "a"))
		})
	}
}

// Where the template lets a claim override, a volume of the pod gives way, and where it lets
// a claim add, a new one comes beside it.
func TestStorageOfAClaimReplacesAVolumeOfThePodOnlyWhereTheTemplateLetsItOverride(t *testing.T) {
	t.Parallel()
	for policy, name := range map[ext.VolumeClaimTemplatesPolicy]string{ext.VolumeClaimTemplatesOverrides: "config", ext.VolumeClaimTemplatesAllowed: "more"} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			w.Controller()
			w.Create(lenientTemplate("", policy), world.Pool("p", 0), world.Claim("a", "p", withStorage(name)))
			w.Await(world.Bound("a"))
			pod, err := w.Pods().Get(w.Context(), "a", metav1.GetOptions{})
			g := NewWithT(t)
			g.Expect(err).NotTo(HaveOccurred())
			is := map[string]bool{}
			for _, v := range pod.Spec.Volumes {
				is[v.Name] = v.PersistentVolumeClaim != nil
			}
			want := map[string]bool{"config": false, name: true}
			g.Expect(is).To(Equal(want))
		})
	}
}

func TestAClaimIsServedWhenItsTemplateAllowsWhatItAsks(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	w.Create(lenientTemplate("", ""), world.Pool("p", 0), world.Claim("a", "p", withEnv("B", "b", "")))
	w.Await(world.HasReason("a", "EnvVarsInjectionRejected"))
	w.PatchTemplate("t", `{"envVarsInjectionPolicy":"Allowed"}`)
	w.Await(world.Converged("p", 0, "a"))
}

func TestAClaimsStorageIsInItsOwnSandbox(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := kit.New(t)
	w.Controller()
	template := lenientTemplate("", ext.VolumeClaimTemplatesAllowed)
	template.Spec.VolumeClaimTemplates = world.Claim("x", "p", withStorage("data")).Spec.VolumeClaimTemplates
	w.Create(template, world.Pool("p", 0), world.Claim("a", "p", withStorage("more")))
	w.Await(owns("a"))
	var names []string
	for _, v := range w.Sandbox("a").Spec.VolumeClaimTemplates {
		names = append(names, v.ObjectMeta.Name)
	}
	g.Expect(names).To(Equal([]string{"data", "more"}))
}

// The own sandbox of a claim was made from a template that makes no pod. It is the
// same sandbox that gets its pod when the template is mended.
func TestAClaimWhoseOwnSandboxWasRefusedAPodHealsWhenTheTemplateIsMended(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := kit.New(t)
	w.Controller()
	broken := world.Template("t")
	broken.Spec.PodTemplate.Spec = runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"UPPER","image":"image"}]}`)}
	w.Create(broken, world.Pool("p", 0), world.Claim("a", "p"))
	w.Await(owns("a"), func(s *world.Snapshot) error {
		for _, c := range s.Claims["a"].Status.Conditions {
			if strings.Contains(c.Message, "UPPER") {
				return nil
			}
		}
		return errWaits
	})
	uid := w.Sandbox("a").UID
	w.PatchTemplate("t", `{"podTemplate":{"spec":{"containers":[{"name":"main","image":"image"}]}}}`)
	w.Await(world.Converged("p", 0, "a"))
	g.Expect(w.Sandbox("a").UID).To(Equal(uid))
	g.Expect(w.Claim("a").Status.SandboxStatus.UID).To(Equal(uid))
}
