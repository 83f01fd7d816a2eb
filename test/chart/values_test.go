package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kiln-sandbox/kiln/test/stage"
)

// changed are other values than the defaults, where a default does not tell what another
// one could be. Lists and maps are values as a whole.
var changed = map[string]string{
	"podSecurityContext":                             `{fsGroup: 7}`,
	"containerSecurityContext":                       `{privileged: true}`,
	"livenessProbe":                                  `{periodSeconds: 7}`,
	"readinessProbe":                                 `{periodSeconds: 7}`,
	"nameOverride":                                   `other`,
	"namespace.create":                               `true`,
	"namespace.name":                                 `other`,
	"image.tag":                                      `v9`,
	"image.digest":                                   `sha256:` + strings.Repeat("0", 64),
	"image.pullPolicy":                               `Always`,
	"imagePullSecrets":                               `[{name: secret}]`,
	"watchNamespaces":                                `[a, b]`,
	"allowedLabelDomains":                            `[other.example.com]`,
	"controller.leaderElectionNamespace":             `other`,
	"controller.leaderElectLeaseDuration":            `15s`,
	"controller.leaderElectRenewDeadline":            `10s`,
	"controller.leaderElectRetryPeriod":              `2s`,
	"controller.metricsBindAddress":                  `":9090"`,
	"controller.healthProbeBindAddress":              `":9091"`,
	"controller.kubeApiQps":                          `12.5`,
	"controller.claimMaxWait":                        `1m30s`,
	"controller.clusterDomain":                       `corp.local`,
	"controller.allowedLabelDomainsFile":             `/etc/other`,
	"controller.kubeconfig":                          `/etc/kubeconfig`,
	"controller.zapLogLevel":                         `debug`,
	"controller.zapEncoder":                          `console`,
	"controller.extraArgs":                           `[--api-connections=2]`,
	"controller.sandboxWarmPoolReadinessGracePeriod": `10m`,
	"serviceAccount.name":                            `other`,
	"serviceAccount.annotations":                     `{a: b}`,
	"podLabels":                                      `{a: b}`,
	"podAnnotations":                                 `{a: b}`,
	"resources":                                      `{requests: {cpu: "2"}}`,
	"extraEnv":                                       `[{name: GOMEMLIMIT, value: 1GiB}]`,
	"extraVolumes":                                   `[{name: more, emptyDir: {}}]`,
	"extraVolumeMounts":                              `[{name: more, mountPath: /more}]`,
	"priorityClassName":                              `system-cluster-critical`,
	"nodeSelector":                                   `{a: b}`,
	"tolerations":                                    `[{key: a, operator: Exists}]`,
	"affinity":                                       `{nodeAffinity: {}}`,
	"topologySpreadConstraints":                      `[]`,
	"podDisruptionBudget.maxUnavailable":             `"50%"`,
	"service.annotations":                            `{a: b}`,
	"networkPolicy.metricsFrom":                      `[{podSelector: {}}]`,
	"networkPolicy.egress":                           `[{ports: [{port: 6443}]}]`,
	"metrics.serviceMonitor.additionalLabels":        `{a: b}`,
	"metrics.serviceMonitor.interval":                `10s`,
	"metrics.serviceMonitor.scrapeTimeout":           `5s`,
	"metrics.serviceMonitor.tlsConfig":               `{serverName: other}`,
	"metrics.prometheusRule.additionalLabels":        `{a: b}`,
	"metrics.prometheusRule.additionalGroups":        `[{name: more, rules: []}]`,
	"metrics.prometheusRule.alertLabels":             `{team: a}`,
	"metrics.prometheusRule.writeFailures":           `0.5`,
	"metrics.prometheusRule.poolEmptyFor":            `10m`,
	"metrics.dashboard.labels":                       `{a: b}`,
	"metrics.dashboard.annotations":                  `{grafana_folder: Kiln}`,
	"tracing.endpoint":                               `http://collector:4317`,
	"admissionPolicies.actions":                      `[Audit]`,
}

// beside are values without which a value has no effect, or no right to be.
var beside = map[string]string{
	"namespace.create":       "crds: {install: false}",
	"controller.leaderElect": "replicaCount: 1",
}

// leaves are the values, by their paths: what is no map, or is one that users fill.
func leaves(values map[string]any, schema map[string]any, path string, visit func(path string, value any)) {
	properties := schema["properties"].(map[string]any)
	for key, value := range values {
		one, ok := properties[key].(map[string]any)
		at := strings.TrimPrefix(path+"."+key, ".")
		if ok && one["properties"] != nil {
			leaves(value.(map[string]any), one, at, visit)
			continue
		}
		visit(at, value)
	}
}

// read reads a YAML or JSON file of the chart.
func read(t *testing.T, file string) (all map[string]any) {
	t.Helper()
	text, err := os.ReadFile(at("helm", "kiln", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// another is the value that a test gives in the place of a default.
func another(t *testing.T, path string, is any) any {
	t.Helper()
	if text, ok := changed[path]; ok {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	switch is := is.(type) {
	case bool:
		return !is
	case float64:
		return is + 1
	case string:
		return is + "x"
	case nil:
		schema := read(t, "values.schema.json")
		for part := range strings.SplitSeq(path, ".") {
			schema = schema["properties"].(map[string]any)[part].(map[string]any)
		}
		switch kinds := schema["type"].([]any); kinds[0] {
		case "boolean":
			return true
		case "integer":
			return 7
		}
	}
	t.Fatalf("say in this test what else %s could be than %v", path, is)
	return nil
}

// nested is a document that sets one value.
func nested(path string, value any) map[string]any {
	first, rest, deeper := strings.Cut(path, ".")
	if deeper {
		value = nested(rest, value)
	}
	return map[string]any{first: value}
}

func TestEveryValueChangesTheManifest(t *testing.T) {
	var paths []string
	defaults := map[string]any{}
	leaves(read(t, "values.yaml"), read(t, "values.schema.json"), "", func(path string, value any) {
		paths = append(paths, path)
		defaults[path] = value
	})
	for _, path := range paths {
		if strings.HasSuffix(path, ".enabled") || path == "metrics.secure" {
			defaults[path] = true // all of it is switched on here
		}
	}
	slices.Sort(paths)
	for path := range changed {
		if !slices.Contains(paths, path) {
			t.Errorf("there is no value %s any more", path)
		}
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			base := append(everything(), with(t, beside[path])...)
			before := rendered(t, base...)
			value, err := yaml.Marshal(nested(path, another(t, path, defaults[path])))
			if err != nil {
				t.Fatal(err)
			}
			if rendered(t, append(base, with(t, string(value))...)...) == before {
				t.Errorf("the manifest is the same with\n%s", value)
			}
		})
	}
}

// Every value has a line that says what it is, above it or above the map that it is in.
func TestEveryValueIsDocumented(t *testing.T) {
	text, err := os.ReadFile(at("helm", "kiln", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile(`^ *#`)
	key := regexp.MustCompile(`^( *)([a-zA-Z]+):(.*)$`)
	schema := read(t, "values.schema.json")["properties"].(map[string]any)
	documented, free := false, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		m := key.FindStringSubmatch(line)
		switch {
		case section.MatchString(line):
			documented = true
		case line == "":
			documented, free = false, false
		case m == nil || free && m[1] != "":
		default:
			one, _ := schema[m[2]].(map[string]any)
			free = m[1] == "" && one["properties"] == nil // users fill it, and know what is in it
			if !documented && (m[3] != "" || free) {
				t.Errorf("nothing is said about %q", line)
			}
			documented = m[1] == "" && documented // a comment may be about several keys in a row
		}
	}
}

func TestWhatTheSchemaRefuses(t *testing.T) {
	for values, reason := range map[string]string{
		"replicaCoun: 3":                                "replicaCoun",
		"replicaCount: many":                            "replicaCount",
		"controller: {sandboxWorkers: 3}":               "sandboxWorkers",
		"controller: {claimMaxWait: 10}":                "claimMaxWait",
		"controller: {kubeApiBurst: 0}":                 "kubeApiBurst",
		"image: {pullPolicy: Sometimes}":                "pullPolicy",
		"image: {digest: v1}":                           "digest",
		"watchNamespaces: [Upper]":                      "watchNamespaces",
		"admissionPolicies: {actions: [Refuse]}":        "actions",
		"tracing: {endpoint: \"collector:4317\"}":       "endpoint",
		"flowControl: {shares: {claims: 0}}":            "claims",
		"networkPolicy: {egress: []}":                   "egress",
		"metrics: {prometheusRule: {writeFailures: 2}}": "writeFailures",
		"controller: {leaderElect: false}":              "controller.leaderElect=false with replicaCount=2",
	} {
		if _, err := template(with(t, values)...); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: helm said %v", values, err)
		}
	}
}

// incumbents are all values of the agent-sandbox controller's chart: those that its own values.yaml has, and those
// that its templates ask for as well.
const incumbents = `
namespace: {create: true, name: agent-sandbox-system}
image: {repository: registry.k8s.io/agent-sandbox/agent-sandbox-controller, tag: v1.0.12, pullPolicy: IfNotPresent}
imagePullSecrets: []
replicaCount: 1
podAnnotations: {}
podLabels: {}
resources: {}
nodeSelector: {}
tolerations: []
affinity: {}
podSecurityContext: null
containerSecurityContext: null
webhookServiceName: agent-sandbox-webhook-service
service: {name: agent-sandbox-controller}
metrics:
  serviceMonitor: {enabled: false, additionalLabels: {}, interval: 30s, scrapeTimeout: ""}
  prometheusRule: {enabled: false, additionalLabels: {}, additionalGroups: []}
controller:
  leaderElect: true
  extensions: true
  clusterDomain: cluster.local
  leaderElectionNamespace: agent-sandbox-system
  enableTracing: false
  enablePprof: false
  enablePprofDebug: false
  pprofBlockProfileRate: 1000000
  pprofMutexProfileFraction: 10
  kubeApiQps: -1
  kubeApiBurst: 10
  sandboxConcurrentWorkers: 100
  sandboxClaimConcurrentWorkers: 50
  sandboxWarmPoolConcurrentWorkers: 1
  sandboxTemplateConcurrentWorkers: 1
  sandboxWarmPoolMaxBatchSize: 300
  sandboxWarmPoolReadinessGracePeriod: 5m
  sandboxWarmPoolUnschedulableRecheckInterval: 1m
  enableWarmPoolEviction: true
  extraArgs: []
`

// Who comes from the agent-sandbox controller gives Kiln's chart the values that they have, and is told which of
// them do nothing.
func TestTheValuesOfTheAgentSandboxControllersChartAreTaken(t *testing.T) {
	manifest := rendered(t, with(t, incumbents)...)
	var d deployment
	into(t, object(t, manifest, "Deployment", "kiln"), &d)
	c := d.Spec.Template.Spec.Containers[0]
	if !strings.HasPrefix(c.Image, "ghcr.io/kiln-sandbox/kiln:") || *d.Spec.Replicas != 1 || !slices.Contains(c.Args, "--sandbox-warm-pool-concurrent-workers=1") {
		t.Errorf("%d of %s with %v", *d.Spec.Replicas, c.Image, c.Args)
	}
	object(t, manifest, "Service", "kiln")
	told := notes(t, with(t, incumbents)...)
	for _, key := range []string{
		"webhookServiceName:", "controller.sandboxWarmPoolUnschedulableRecheckInterval:", "namespace.create:", "image.repository, image.tag, image.digest:", "service.name:",
	} {
		if !strings.Contains(told, "\n  "+key) {
			t.Errorf("it is not told that %s has no effect:\n%s", key, told)
		}
	}
	if told := notes(t); strings.Contains(told, "no effect") {
		t.Errorf("without values it is told\n%s", told)
	}
	manifest = rendered(t, with(t, "{nameOverride: agent-sandbox-controller, service: {name: agent-sandbox-controller}}")...)
	object(t, manifest, "Service", "agent-sandbox-controller")
}

// notes is what helm tells at the end of an installation.
func notes(t *testing.T, args ...string) string {
	t.Helper()
	said, err := tool(setup.helm, append([]string{"install", "kiln", at("helm", "kiln"), "-n", stage.Home, "--dry-run=client"}, args...)...)
	if err != nil {
		t.Fatal(err, said)
	}
	_, told, _ := strings.Cut(said, "\nNOTES:")
	return told
}

// An option is a flag of the controller as its help prints it.
type option struct{ name, fallback string }

// options are the flags of the controller that have a purpose.
func options(t *testing.T) (all []option) {
	t.Helper()
	out, err := exec.Command(setup.kiln, "controller", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(out), "\nAccepted,")
	for _, m := range regexp.MustCompile(`(?m)^  --([a-z-]+).*\n +(.*)$`).FindAllStringSubmatch(before, -1) {
		one := option{name: m[1]}
		if d := regexp.MustCompile(`\(default (.*)\)$`).FindStringSubmatch(m[2]); d != nil {
			one.fallback = d[1]
		}
		all = append(all, one)
	}
	return all
}

// beyond are flags that are no values of the section controller.
var beyond = map[string]string{
	"version":          "it prints the version and ends",
	"watch-namespaces": "watchNamespaces says it, for the roles, too",
	"metrics-secure":   "metrics.secure says it, for the roles and the ServiceMonitor, too",
	"metrics-cert-dir": "metrics.certSecret says it, and is mounted",
}

// Every flag is a value, which says of its default what the flag says, and no value is none.
func TestEveryFlagIsAValue(t *testing.T) {
	text, err := os.ReadFile(at("helm", "kiln", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := read(t, "values.yaml")["controller"].(map[string]any)
	delete(values, "extraArgs")
	for _, f := range options(t) {
		if beyond[f.name] != "" {
			continue
		}
		key := regexp.MustCompile(`-.`).ReplaceAllStringFunc(f.name, func(s string) string { return strings.ToUpper(s[1:]) })
		if _, ok := values[key]; !ok {
			t.Errorf("--%s is no value", f.name)
			continue
		}
		delete(values, key)
		m := regexp.MustCompile(`(?m)^  # (.*)\n  ` + key + `:`).FindStringSubmatch(string(text))
		if m == nil {
			t.Errorf("nothing is said about %s", key)
			continue
		}
		if want := fmt.Sprintf("(default %s)", f.fallback); f.fallback != "" && !strings.HasSuffix(m[1], want) {
			t.Errorf("%s: %q, and the controller says %s", key, m[1], want)
		}
	}
	for key := range values {
		t.Errorf("%s is no flag", key)
	}
}

// What the chart tells the controller, the controller understands.
func TestTheControllerTakesWhatTheChartGivesIt(t *testing.T) {
	all := map[string]any{}
	values := read(t, "values.yaml")["controller"].(map[string]any)
	for key, value := range values {
		all[key] = another(t, "controller."+key, value)
	}
	all["kubeconfig"] = "/nowhere"
	text, err := json.Marshal(map[string]any{"controller": all, "replicaCount": 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range map[string]string{"by default": "controller: {kubeconfig: /nowhere}", "when it is told everything": string(text)} {
		t.Run(name, func(t *testing.T) {
			command := exec.CommandContext(setup.ctx, setup.kiln, arguments(t, with(t, values)...)...)
			var said bytes.Buffer
			command.Stderr = &said
			if err := command.Run(); err == nil || command.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "load the kubeconfig") {
				t.Errorf("%v: %s", err, said.String())
			}
		})
	}
}

// arguments are those that the chart gives the controller.
func arguments(t *testing.T, args ...string) []string {
	t.Helper()
	var d deployment
	into(t, object(t, rendered(t, args...), "Deployment", "kiln"), &d)
	return d.Spec.Template.Spec.Containers[0].Args
}
