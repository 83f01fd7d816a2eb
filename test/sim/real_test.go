package sim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/sim"
)

// simulated is a server in memory, by its configuration.
func simulated(t *testing.T) *rest.Config {
	t.Helper()
	s, err := sim.New()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	listening := httptest.NewServer(s)
	t.Cleanup(func() { listening.CloseClientConnections(); listening.Close() })
	return &rest.Config{Host: listening.URL, QPS: -1}
}

// A caller sends requests to a server. What it has learnt of objects can be named in the
// requests that follow: {uid:KEY} and {version:KEY}.
type caller struct {
	t      *testing.T
	host   string
	http   *http.Client
	learnt map[string]string
}

func newCaller(t *testing.T, cfg *rest.Config) *caller {
	t.Helper()
	h, err := rest.HTTPClientFor(cfg)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return &caller{t, strings.TrimSuffix(cfg.Host, "/"), h, map[string]string{}}
}

// A line is one request, and the name by which later ones know what came of it.
type line struct {
	name, verb, path, body string
	as                     string // who applies; f: by force
	accept                 string
}

// groups are the beginnings of paths.
var groups = strings.NewReplacer(
	"core:", "/api/v1/namespaces/same/", "net:", "/apis/networking.k8s.io/v1/namespaces/same/",
	"events:", "/apis/events.k8s.io/v1/namespaces/same/",
	"agents:", "/apis/agents.x-k8s.io/v1beta1/namespaces/same/", "ext:", "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/same/",
)

var media = map[string]string{
	"apply": "application/apply-patch+yaml", "merge": "application/merge-patch+json", "json": "application/json-patch+json",
	"strategic": "application/strategic-merge-patch+json",
}

func (c *caller) fill(text string) string {
	for name, value := range c.learnt {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

func (c *caller) send(ctx context.Context, l line) (code int, o map[string]any) {
	c.t.Helper()
	g := NewWithT(c.t)
	method := map[string]string{"get": "GET", "create": "POST", "update": "PUT", "delete": "DELETE"}[l.verb]
	if media[l.verb] != "" {
		method = "PATCH"
	}
	path := c.host + groups.Replace(l.path)
	join := "?"
	if strings.Contains(path, "?") {
		join = "&"
	}
	if l.as != "" {
		manager, force := strings.CutSuffix(l.as, " by force")
		path += join + "fieldManager=" + manager
		if force {
			path += "&force=true"
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.fill(path), strings.NewReader(c.fill(l.body)))
	g.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Content-Type", "application/json")
	if media[l.verb] != "" {
		r.Header.Set("Content-Type", media[l.verb])
	}
	r.Header.Set("User-Agent", "somebody/1")
	r.Header.Set("Accept", "application/json")
	if l.accept != "" {
		r.Header.Set("Accept", l.accept)
	}
	answer, err := c.http.Do(r)
	g.Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(json.Unmarshal(raw, &o)).To(Succeed(), string(raw))
	if metadata, ok := o["metadata"].(map[string]any); ok && l.name != "" {
		c.learnt["uid:"+l.name], c.learnt["version:"+l.name] = fmt.Sprint(metadata["uid"]), fmt.Sprint(metadata["resourceVersion"])
	}
	return answer.StatusCode, o
}

const (
	sandbox = `"apiVersion":"agents.x-k8s.io/v1beta1","kind":"Sandbox"`
	pool    = `"apiVersion":"extensions.agents.x-k8s.io/v1beta1","kind":"SandboxWarmPool"`
	claim   = `"apiVersion":"extensions.agents.x-k8s.io/v1beta1","kind":"SandboxClaim"`
	pod     = `"apiVersion":"v1","kind":"Pod"`
	policy  = `"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy"`
	event   = `"apiVersion":"events.k8s.io/v1","kind":"Event"`
	owner   = `"ownerReferences":[{"apiVersion":"v1","kind":"Thing","name":"x","uid":"u","controller":true,"blockOwnerDeletion":true}]`
	podSpec = `{"containers":[{"name":"main","image":"image","env":[{"name":"A","value":"1"}]}]}`
	// fullSpec leaves out nothing that has a default.
	fullSpec = `{"containers":[{"name":"main","image":"image","imagePullPolicy":"Always","resources":{},"terminationMessagePath":"/x","terminationMessagePolicy":"File"}],` +
		`"dnsPolicy":"ClusterFirst","enableServiceLinks":true,"restartPolicy":"Always","schedulerName":"s","securityContext":{},"terminationGracePeriodSeconds":3}`
	partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

// gone is the name of what ends with a request: of the last words only the code matters.
const gone = "gone"

// requests are sent to both servers, in this order.
var requests = []line{
	{"", "create", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"same"}}`, "", ""},

	// Applies, guarded and not, of one manager and of two.
	{"a", "apply", "agents:sandboxes/a", `{` + sandbox + `,"metadata":{"name":"a","resourceVersion":"1","labels":{"x":"1","y":"1"},` + owner + `},"spec":{"podTemplate":{"spec":` + podSpec + `}},"status":{"nodeName":"no"}}`, "one by force", ""},
	{"", "apply", "agents:sandboxes/a", `{` + sandbox + `,"metadata":{"name":"a","resourceVersion":"1"}}`, "one by force", ""},
	{"a", "apply", "agents:sandboxes/a", `{` + sandbox + `,"metadata":{"name":"a","uid":"{uid:a}","resourceVersion":"{version:a}","labels":{"x":"1","y":"1"},` + owner + `},"spec":{"podTemplate":{"spec":` + podSpec + `}}}`, "one by force", ""},
	{"", "apply", "agents:sandboxes/a", `{` + sandbox + `,"metadata":{"name":"a","uid":"other","labels":{"x":"1"}}}`, "one by force", ""},
	{"", "apply", "agents:sandboxes/none", `{` + sandbox + `,"metadata":{"name":"none","uid":"other"}}`, "one by force", ""},
	{"", "apply", "agents:sandboxes/none/status", `{` + sandbox + `,"metadata":{"name":"none"},"status":{"nodeName":"n"}}`, "one by force", ""},
	{"", "apply", "agents:sandboxes/a", `{` + sandbox + `,"metadata":{"name":"a","labels":{"x":"2"}}}`, "two", ""},
	{"", "apply", "agents:sandboxes/a", `{` + sandbox + `,"metadata":{"name":"a","labels":{"x":"1"}}}`, "two", ""},
	{"", "apply", "agents:sandboxes/a", `{` + sandbox + `,"metadata":{"name":"a","labels":{"x":"3"},"finalizers":["a.b/c"]}}`, "two by force", ""},
	{"", "apply", "agents:sandboxes/a", `{` + sandbox + `,"metadata":{"name":"a"},"spec":{"podTemplate":{"spec":{"containers":[{"name":"main","image":"image"}]}}}}`, "one by force", ""},
	{"", "apply", "agents:sandboxes/a", `{` + sandbox + `,"metadata":{"name":"a"}}`, "", ""},
	{"", "apply", "agents:sandboxes/a", `{` + sandbox + `,"metadata":{"name":"a"},"spec":{"unknown":1}}`, "one by force", ""},
	{"a", "apply", "agents:sandboxes/a/status", `{` + sandbox + `,"metadata":{"name":"a","labels":{"z":"1"}},"status":{"nodeName":"n","podIPs":["10.0.0.1"],"conditions":[{"type":"Ready","status":"True","reason":"R","message":"m","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`, "reports by force", ""},
	{"", "apply", "agents:sandboxes/a/status", `{` + sandbox + `,"metadata":{"name":"a","resourceVersion":"2"},"status":{"nodeName":"m"}}`, "reports by force", ""},
	{"a", "apply", "agents:sandboxes/a/status", `{` + sandbox + `,"metadata":{"name":"a","uid":"other","resourceVersion":"{version:a}"},"status":{"nodeName":"m"}}`, "reports by force", ""},
	{"", "get", "agents:sandboxes/a", "", "", partial},

	// Other writes.
	{"c", "create", "ext:sandboxclaims", `{` + claim + `,"metadata":{"name":"c","labels":{"l":"1"}},"spec":{"warmPoolRef":{"name":"p"}},"status":{"state":"bound"}}`, "", ""},
	{"", "create", "ext:sandboxclaims", `{` + claim + `,"metadata":{"name":"c"},"spec":{"warmPoolRef":{"name":"p"}}}`, "", ""},
	{"c", "merge", "ext:sandboxclaims/c", `{"metadata":{"labels":{"l":null,"m":"1"},"annotations":{"n":"1"}}}`, "", ""},
	{"", "merge", "ext:sandboxclaims/c", `{"metadata":{"resourceVersion":"3"}}`, "", ""},
	{"c", "merge", "ext:sandboxclaims/c", `{"metadata":{"labels":{"m":"1"}}}`, "", ""},
	{"c", "json", "ext:sandboxclaims/c", `[{"op":"replace","path":"/metadata/resourceVersion","value":"{version:c}"},{"op":"replace","path":"/metadata/managedFields","value":[{"manager":"taken","operation":"Apply","apiVersion":"extensions.agents.x-k8s.io/v1beta1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{"f:m":{}}}}}]}]`, "taker", ""},
	{"", "json", "ext:sandboxclaims/c", `[{"op":"replace","path":"/metadata/resourceVersion","value":"4"}]`, "taker", ""},
	{"", "merge", "ext:sandboxclaims/c/status", `{"metadata":{"labels":{"q":"1"}},"status":{"state":"binding"}}`, "told", ""},
	{"", "update", "ext:sandboxclaims/c", `{` + claim + `,"metadata":{"name":"c"},"spec":{"warmPoolRef":{"name":"p"}}}`, "", ""},
	{"", "update", "ext:sandboxclaims/c", `{` + claim + `,"metadata":{"name":"c","resourceVersion":"5"},"spec":{"warmPoolRef":{"name":"p"}}}`, "", ""},
	{"c", "get", "ext:sandboxclaims/c", "", "", ""},
	{"c", "update", "ext:sandboxclaims/c", `{` + claim + `,"metadata":{"name":"c","resourceVersion":"{version:c}","labels":{"u":"1"}},"spec":{"warmPoolRef":{"name":"p"},"lifecycle":{"ttlSecondsAfterFinished":5}}}`, "", ""},
	{"", "update", "ext:sandboxclaims/c", `{` + claim + `,"metadata":{"name":"c","uid":"other","resourceVersion":"{version:c}"},"spec":{"warmPoolRef":{"name":"p"}}}`, "", ""},
	{"", "update", "ext:sandboxclaims/none", `{` + claim + `,"metadata":{"name":"none","resourceVersion":"5"},"spec":{"warmPoolRef":{"name":"p"}}}`, "", ""},
	{"", "create", "ext:sandboxclaims?dryRun=All", `{` + claim + `,"metadata":{"name":"dry"},"spec":{"warmPoolRef":{"name":"p"}}}`, "", ""},
	{"", "get", "ext:sandboxclaims/dry", "", "", ""},
	{"", "create", "ext:sandboxtemplates", `{"apiVersion":"extensions.agents.x-k8s.io/v1beta1","kind":"SandboxTemplate","metadata":{"name":"t"},"spec":{"podTemplate":{"spec":` + podSpec + `}}}`, "", ""},
	{"", "merge", "ext:sandboxtemplates/t", `{"spec":{"podTemplate":{"metadata":{"labels":{"a":"b"}}}}}`, "", ""},
	{"p", "create", "ext:sandboxwarmpools", `{` + pool + `,"metadata":{"name":"p"},"spec":{"replicas":2,"sandboxTemplateRef":{"name":"t"},"updateStrategy":{"type":"RollingUpdate"}}}`, "", ""},
	{"", "get", "ext:sandboxwarmpools/p/scale", "", "", ""},
	{"", "merge", "ext:sandboxwarmpools/p/scale", `{"spec":{"replicas":5}}`, "", ""},
	{"", "get", "ext:sandboxwarmpools/p", "", "", ""},

	// The built-in kinds.
	{"o", "apply", "core:pods/o", `{` + pod + `,"metadata":{"name":"o","resourceVersion":"1","labels":{"state":"warming"},` + owner + `},"spec":` + podSpec + `}`, "born by force", ""},
	{"", "apply", "core:pods/o", `{` + pod + `,"metadata":{"name":"o","labels":{"state":"ready"}}}`, "states", ""},
	{"", "apply", "core:pods/o", `{` + pod + `,"metadata":{"name":"o","labels":{"state":"ready"}}}`, "states by force", ""},
	{"", "create", "core:pods/o/binding", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"o","uid":"{uid:o}"},"target":{"kind":"Node","name":"node"}}`, "", ""},
	{"", "create", "core:pods/o/binding", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"o"},"target":{"kind":"Node","name":"node"}}`, "", ""},
	{"o", "apply", "core:pods/o/status", `{` + pod + `,"metadata":{"name":"o","uid":"{uid:o}"},"status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`, "kubelet by force", ""},
	{"", "strategic", "core:pods/o", `{"metadata":{"labels":{"hand":"1"}}}`, "hand", ""},
	{"", "delete", "core:pods/o", `{"preconditions":{"uid":"other"}}`, "", ""},
	{"", "delete", "core:pods/o", `{"preconditions":{"uid":"{uid:o}"}}`, "", ""},
	{"", "delete", "core:pods/o", "", "", ""},
	{"", "get", "core:pods/o", "", "", ""},
	{gone, "delete", "core:pods/o", `{"gracePeriodSeconds":0,"preconditions":{"uid":"{uid:o}"}}`, "", ""},
	{"", "get", "core:pods/o", "", "", ""},
	{"", "create", "core:pods", `{` + pod + `,"metadata":{"name":"u"},"spec":` + fullSpec + `}`, "", ""},
	{gone, "delete", "core:pods/u", "", "", ""},
	{"", "get", "core:pods/u", "", "", ""},
	{"", "apply", "net:networkpolicies/n", `{` + policy + `,"metadata":{"name":"n","labels":{"a":"1"}},"spec":{"podSelector":{"matchLabels":{"a":"1"}},"policyTypes":["Ingress"],"ingress":[{"from":[{"podSelector":{"matchLabels":{"b":"1"}}}]}]}}`, "rules by force", ""},
	{"", "apply", "net:networkpolicies/n", `{` + policy + `,"metadata":{"name":"n"},"spec":{"podSelector":{},"policyTypes":["Ingress"]}}`, "rules by force", ""},
	{"", "delete", "net:networkpolicies/n", "", "", ""},
	{"", "create", "events:events", `{` + event + `,"metadata":{"name":"e"},"eventTime":"2020-01-01T00:00:00.000000Z","reportingController":"k","reportingInstance":"i","action":"A","reason":"R","type":"Normal","note":"n","regarding":{"kind":"Pod","namespace":"same","name":"o"}}`, "", ""},

	// The ends.
	{"a", "get", "agents:sandboxes/a", "", "", ""},
	{"", "delete", "agents:sandboxes/a", `{"preconditions":{"resourceVersion":"6"}}`, "", ""},
	{"a", "delete", "agents:sandboxes/a", `{"preconditions":{"uid":"{uid:a}","resourceVersion":"{version:a}"}}`, "", ""},
	{"", "get", "agents:sandboxes/a", "", "", ""},
	{gone, "merge", "agents:sandboxes/a", `{"metadata":{"finalizers":null}}`, "", ""},
	{"", "get", "agents:sandboxes/a", "", "", ""},
	{"", "delete", "ext:sandboxwarmpools/p", `{"propagationPolicy":"Foreground"}`, "", ""},
	{"", "get", "ext:sandboxwarmpools/p", "", "", ""},
	{"", "delete", "ext:sandboxclaims/c", "", "", ""},
	{"", "delete", "ext:sandboxclaims/c", "", "", ""},
}

func TestTheSameRequestsHaveTheSameAnswersOnTheRealServer(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{CRDs: true})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(c.Stop()).To(Succeed()) })
	real, here := newCaller(t, c.Config), newCaller(t, simulated(t))
	for _, l := range requests {
		t.Run(l.verb+" "+l.path+" "+l.as, func(t *testing.T) {
			real.t, here.t = t, t
			code, want := real.send(t.Context(), l)
			got, is := here.send(t.Context(), l)
			if got != code {
				t.Errorf("%s\n%d, and the real server says %d:\n%s\n%s", l.body, got, code, text(is), text(want))
			}
			if l.name != gone && differs(is, want) {
				t.Errorf("%s\n%s\nand on the real server:\n%s", l.body, text(comparable(is)), text(comparable(want)))
			}
		})
	}
}

func text(o any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	_ = e.Encode(o) // it came from JSON
	return b.String()
}

// differs compares two answers. Of a refusal only the reason matters; of a built-in kind,
// that the real server says no less: it fills in what is left out.
func differs(is, want map[string]any) bool {
	if want["kind"] == "Status" {
		return want["reason"] != is["reason"]
	}
	a, b := comparable(is), comparable(want)
	builtIn := !strings.Contains(fmt.Sprint(want["apiVersion"]), "agents.x-k8s.io") && want["kind"] != "Scale"
	if builtIn {
		metadata := text(a["metadata"]) == text(b["metadata"])
		delete(a, "metadata")
		return !metadata || !within(a, b)
	}
	return text(a) != text(b)
}

// comparable is an object without what no two servers say alike.
func comparable(o map[string]any) map[string]any {
	var copied map[string]any
	if err := json.Unmarshal([]byte(text(o)), &copied); err != nil {
		panic(err)
	}
	metadata, ok := copied["metadata"].(map[string]any)
	if !ok || metadata == nil {
		return copied
	}
	for _, field := range []string{"uid", "creationTimestamp", "deletionTimestamp", "resourceVersion"} {
		if metadata[field] != nil {
			metadata[field] = "some"
		}
	}
	if copied["kind"] == "Namespace" {
		delete(metadata, "labels")
	}
	entries, _ := metadata["managedFields"].([]any)
	for _, e := range entries {
		delete(e.(map[string]any), "time")
	}
	slices.SortFunc(entries, func(x, y any) int { return strings.Compare(text(x), text(y)) })
	if copied["kind"] == "Namespace" { // its one label is the admission's
		delete(metadata, "managedFields")
		delete(copied, "spec")
	}
	return copied
}

// within reports whether all that one value says is said by another one.
func within(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		for name, v := range a {
			ok = ok && within(v, b[name])
		}
		return ok
	case []any:
		b, ok := b.([]any)
		ok = ok && len(a) == len(b)
		for i := range a {
			ok = ok && slices.ContainsFunc(b, func(one any) bool { return within(a[i], one) })
		}
		return ok
	}
	return text(a) == text(b) || strings.HasSuffix(fmt.Sprint(a), "Z") && strings.HasSuffix(fmt.Sprint(b), "Z")
}
