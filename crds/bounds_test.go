package crds_test

import (
	"reflect"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kiln-sandbox/kiln/crds"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// borrowed are the types of others that a kind may hold: the server or the
// schema answers for each.
var borrowed = map[reflect.Type]bool{
	reflect.TypeFor[metav1.TypeMeta]():      true,
	reflect.TypeFor[metav1.ObjectMeta]():    true,
	reflect.TypeFor[metav1.Time]():          true,
	reflect.TypeFor[metav1.MicroTime]():     true,
	reflect.TypeFor[intstr.IntOrString]():   true,
	reflect.TypeFor[runtime.RawExtension](): true,
}

// strangers names the fields of t whose types nobody answers for.
func strangers(t reflect.Type, path string) []string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return strangers(t.Elem(), path)
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		return nil
	case reflect.Struct:
		if borrowed[t] {
			return nil
		}
		own := t == reflect.TypeFor[metav1.Condition]() || strings.HasPrefix(t.PkgPath(), "github.com/kiln-sandbox/")
		if !own {
			break
		}
		var found []string
		for i := range t.NumField() {
			found = append(found, strangers(t.Field(i).Type, path+"."+t.Field(i).Name)...)
		}
		return found
	}
	return []string{path + " " + t.String()}
}

func TestNoFieldIsDecodedThatTheServerDoesNotBound(t *testing.T) {
	for _, kind := range []any{agents.Sandbox{}, extensions.SandboxClaim{}, extensions.SandboxTemplate{}, extensions.SandboxWarmPool{}} {
		of := reflect.TypeOf(kind)
		NewWithT(t).Expect(strangers(of, of.Name())).To(BeEmpty())
	}
}

// each visits every schema under n.
func each(n node, path string, visit func(path string, schema map[string]any)) {
	switch at := n.(type) {
	case map[string]any:
		visit(path, at)
		for key, below := range at {
			each(below, path+"/"+key, visit)
		}
	case []any:
		for _, below := range at {
			each(below, path, visit)
		}
	}
}

func TestATimeHasAPatternAndANumberHasASize(t *testing.T) {
	g := NewWithT(t)
	for _, name := range crds.Names() {
		each(dig(read(t)[name], version+"schema"), name, func(path string, schema map[string]any) {
			if schema["format"] == "date-time" {
				g.Expect(schema).To(HaveKey("pattern"), path)
			}
			if schema["type"] == "integer" && !strings.HasSuffix(path, "/anyOf") {
				g.Expect(schema["format"]).To(BeElementOf("int32", "int64"), path)
			}
		})
	}
}
