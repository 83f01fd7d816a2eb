package suite

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
)

// fewest is how many manifests of each kind there are at least.
const fewest = 60

// tables are the files of manifests, by kind, and what a manifest says that does not
// say otherwise.
var tables = []struct {
	file     string
	resource schema.GroupVersionResource
	kind     string
	spec     map[string]any
}{
	{"schema_sandbox.txt", agents.Resource, agents.KindSandbox, map[string]any{"podTemplate": podTemplate(nil)}},
	{"schema_template.txt", ext.TemplateResource, ext.KindTemplate, map[string]any{"podTemplate": podTemplate(nil)}},
	{"schema_claim.txt", ext.ClaimResource, ext.KindClaim, map[string]any{"warmPoolRef": map[string]any{"name": "p"}}},
	{"schema_pool.txt", ext.PoolResource, ext.KindPool, map[string]any{"sandboxTemplateRef": map[string]any{"name": "t"}}},
}

// existing is the object of each kind that a manifest may change. Of those that hold
// storage it has some.
const existing = "existing"

// What the server says to manifests as kubectl applies them for a try: a new one is
// posted, one of an object that exists is a patch.
func TestTheServerAcceptsAndRefusesWhatTheContractSays(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	for _, table := range tables {
		t.Run(table.kind, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata", table.file))
			if err != nil {
				t.Fatal(err)
			}
			d := door{w.Admin().CoreV1().RESTClient(), table.resource, table.kind, w.Namespace, table.spec}
			d.prepare(t)
			rows := parseRows(t, string(raw))
			if len(rows) < fewest {
				t.Errorf("%d manifests, and %d is the least", len(rows), fewest)
			}
			met := map[string]bool{}
			for _, row := range rows {
				if met[row.name] {
					t.Errorf("two rows are named %q", row.name)
				}
				met[row.name] = true
				t.Run(row.name, func(t *testing.T) { d.judge(t, row) })
			}
		})
	}
}

// A row is a manifest, in the short form of the tables: a name and the part that
// matters. The verdict is good, bad or warn; says is a part of what the server says to
// one that is not good.
type row struct {
	verdict, name, says string
	body                short
}

// A short form is one of: what differs in the spec; what differs in the spec of the
// pod, of its one container, or of the one claim for storage; or, bare, all there is
// beside the kind and the name.
type short struct {
	Name      string         `json:"name"`
	Bare      map[string]any `json:"bare"`
	Spec      map[string]any `json:"spec"`
	Pod       map[string]any `json:"pod"`
	Container map[string]any `json:"container"`
	Claim     map[string]any `json:"claim"`
}

// parseRows reads a table: a line with the verdict, the name and what the server says,
// and below it the short form in YAML.
func parseRows(t *testing.T, text string) (rows []row) {
	t.Helper()
	var body []string
	end := func() {
		if len(rows) > 0 {
			last := &rows[len(rows)-1]
			if err := yaml.UnmarshalStrict([]byte(strings.Join(body, "\n")), &last.body); err != nil {
				t.Fatalf("%s: %v", last.name, err)
			}
		}
		body = nil
	}
	for line := range strings.Lines(text) {
		verdict, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch verdict {
		case "#":
		case "good":
			end()
			rows = append(rows, row{verdict: verdict, name: rest})
		case "bad", "warn":
			end()
			name, says, ok := strings.Cut(rest, ": ")
			if !ok {
				t.Fatalf("%s: what does the server say?", line)
			}
			rows = append(rows, row{verdict: verdict, name: name, says: says})
		default:
			body = append(body, line)
		}
	}
	end()
	return rows
}

func podTemplate(pod map[string]any) map[string]any {
	all := map[string]any{"containers": []any{container(nil)}}
	maps.Copy(all, pod)
	return map[string]any{"spec": all}
}

func container(with map[string]any) map[string]any {
	all := map[string]any{"name": "main", "image": "image"}
	maps.Copy(all, with)
	return all
}

// A door is where one kind comes in.
type door struct {
	client    rest.Interface
	resource  schema.GroupVersionResource
	kind      string
	namespace string
	spec      map[string]any
}

// manifest is the long form of a short one.
func (d door) manifest(s short) map[string]any {
	o := map[string]any{}
	maps.Copy(o, s.Bare)
	if s.Bare == nil {
		spec := maps.Clone(d.spec)
		switch {
		case s.Pod != nil:
			spec["podTemplate"] = podTemplate(s.Pod)
		case s.Container != nil:
			spec["podTemplate"] = podTemplate(map[string]any{"containers": []any{container(s.Container)}})
		case s.Claim != nil:
			spec["volumeClaimTemplates"] = []any{map[string]any{"metadata": map[string]any{"name": "data"}, "spec": s.Claim}}
		}
		maps.Copy(spec, s.Spec)
		o["spec"] = spec
	}
	meta, _ := o["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["name"] = s.Name
	if s.Name == "" {
		meta["name"] = "new"
	}
	o["apiVersion"], o["kind"], o["metadata"] = d.resource.GroupVersion().String(), d.kind, meta
	return o
}

// prepare makes the object that exists.
func (d door) prepare(t *testing.T) {
	t.Helper()
	s := short{Name: existing}
	if d.kind == agents.KindSandbox {
		s.Claim = map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}
	}
	if _, err := d.send(t, s, nil); err != nil {
		t.Fatal(err)
	}
}

// send sends a manifest, with parameters, and returns the warnings.
func (d door) send(t *testing.T, s short, parameters map[string]string) (warnings []string, err error) {
	t.Helper()
	raw, err := json.Marshal(d.manifest(s))
	if s.Name == existing && s.Spec != nil { // nothing but that changes
		raw, err = json.Marshal(map[string]any{"spec": s.Spec})
	}
	if err != nil {
		t.Fatal(err)
	}
	r := d.post(raw)
	if s.Name == existing && parameters != nil {
		r = d.client.Patch(types.MergePatchType).AbsPath(append(d.path(), existing)...).Body(raw)
	}
	for name, value := range parameters {
		r = r.Param(name, value)
	}
	result := r.WarningHandler(rest.NoWarnings{}).SetHeader("Accept", "application/json").Do(t.Context())
	for _, w := range result.Warnings() {
		warnings = append(warnings, w.Text)
	}
	return warnings, result.Error()
}

func (d door) path() []string {
	return []string{"/apis", d.resource.Group, d.resource.Version, "namespaces", d.namespace, d.resource.Resource}
}

// post posts a manifest.
func (d door) post(raw []byte) *rest.Request {
	return d.client.Post().AbsPath(d.path()...).SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(raw)
}

// judge compares what the server says to a row with what the row says.
func (d door) judge(t *testing.T, r row) {
	t.Helper()
	validation := metav1.FieldValidationStrict // as kubectl asks for
	if r.verdict == "warn" {
		validation = metav1.FieldValidationWarn
	}
	warnings, err := d.send(t, r.body, map[string]string{"dryRun": metav1.DryRunAll, "fieldValidation": validation})
	switch text := fmt.Sprint(err, warnings); {
	case r.verdict == "bad" && err == nil:
		t.Errorf("it is accepted, and should be refused: %s", r.says)
	case r.verdict != "bad" && err != nil:
		t.Errorf("it is refused: %v", err)
	case !strings.Contains(text, r.says):
		t.Errorf("the server says %q, which does not contain %q", text, r.says)
	case r.verdict == "good" && len(warnings) > 0:
		t.Errorf("the server warns: %q", warnings)
	}
}

// What the server adds to a manifest, and what it leaves out.
func TestTheServerFillsInDefaultsAndLeavesOutWhatNobodyKnows(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	for _, one := range []struct {
		table int
		body  short
		want  map[string]any
	}{
		{0, short{Container: map[string]any{"ports": []any{map[string]any{"containerPort": 80}}, "unknown": true}}, map[string]any{
			"shutdownPolicy": "Retain", "operatingMode": "Running",
			"podTemplate": podTemplate(map[string]any{"containers": []any{container(map[string]any{
				"ports": []any{map[string]any{"containerPort": 80, "protocol": "TCP"}},
			})}}),
		}},
		{1, short{Spec: map[string]any{"unknown": true}}, map[string]any{
			"networkPolicyManagement": "Managed", "envVarsInjectionPolicy": "Disallowed", "volumeClaimTemplatesPolicy": "Disallowed",
			"podTemplate": podTemplate(nil),
		}},
		{2, short{Spec: map[string]any{"lifecycle": map[string]any{}}}, map[string]any{
			"warmPoolRef": map[string]any{"name": "p"}, "lifecycle": map[string]any{"shutdownPolicy": "Retain"},
		}},
		{2, short{}, map[string]any{"warmPoolRef": map[string]any{"name": "p"}}},
		{3, short{Spec: map[string]any{"updateStrategy": map[string]any{}}}, map[string]any{
			"replicas": 1, "sandboxTemplateRef": map[string]any{"name": "t"}, "updateStrategy": map[string]any{"type": "OnReplenish"},
		}},
	} {
		table := tables[one.table]
		d := door{w.Admin().CoreV1().RESTClient(), table.resource, table.kind, w.Namespace, table.spec}
		raw, err := json.Marshal(d.manifest(one.body))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]any{}
		answer, err := d.post(raw).Param("dryRun", metav1.DryRunAll).WarningHandler(rest.NoWarnings{}).Do(t.Context()).Raw()
		if err == nil {
			err = json.Unmarshal(answer, &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		want, _ := json.Marshal(one.want)
		NewWithT(t).Expect(json.Marshal(got["spec"])).To(MatchJSON(want), table.kind)
	}
}
