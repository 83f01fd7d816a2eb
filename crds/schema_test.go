package crds_test

import (
	"math"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kiln-sandbox/kiln/crds"
)

func TestEnumsAndDefaults(t *testing.T) {
	docs := read(t)
	rolling := spec + "updateStrategy/properties/rollingUpdate/properties/"
	for _, c := range []struct {
		crd, field, enum string
		value            any
	}{
		{crds.Sandboxes, spec + "shutdownPolicy", "Delete Retain", "Retain"},
		{crds.Sandboxes, spec + "operatingMode", "Running Suspended", "Running"},
		{crds.SandboxClaims, spec + "lifecycle/properties/shutdownPolicy", "Delete DeleteForeground Retain", "Retain"},
		{crds.SandboxClaims, status + "state", "warming binding bound stale", nil},
		{crds.SandboxTemplates, spec + "networkPolicyManagement", "Managed Unmanaged", "Managed"},
		{crds.SandboxTemplates, spec + "envVarsInjectionPolicy", "Allowed Overrides Disallowed", "Disallowed"},
		{crds.SandboxTemplates, spec + "volumeClaimTemplatesPolicy", "Disallowed Allowed Overrides", "Disallowed"},
		{crds.SandboxWarmPools, spec + "replicas", "", 1.0},
		{crds.SandboxWarmPools, spec + "updateStrategy/properties/type", "Recreate OnReplenish RollingUpdate", "OnReplenish"},
		{crds.SandboxWarmPools, rolling + "maxUnavailable", "", "25%"},
		{crds.SandboxWarmPools, rolling + "maxSurge", "", "25%"},
		{crds.SandboxWarmPools, rolling + "claimPolicy", "Fresh Any", "Fresh"},
		{crds.SandboxWarmPools, rolling + "progressDeadlineSeconds", "", 600.0},
	} {
		t.Run(c.field[strings.LastIndex(c.field, "/")+1:], func(t *testing.T) {
			g := NewWithT(t)
			field := dig(docs[c.crd], c.field)
			g.Expect(field).NotTo(BeNil())
			var enum []string
			words, _ := dig(field, "enum").([]any)
			for _, word := range words {
				enum = append(enum, word.(string))
			}
			g.Expect(strings.Join(enum, " ")).To(Equal(c.enum))
			if c.value == nil {
				g.Expect(dig(field, "default")).To(BeNil())
				return
			}
			g.Expect(dig(field, "default")).To(Equal(c.value))
		})
	}
}

func TestConditionsAreMergedByType(t *testing.T) {
	docs := read(t)
	for _, name := range []string{crds.Sandboxes, crds.SandboxClaims, crds.SandboxWarmPools} {
		g := NewWithT(t)
		g.Expect(dig(docs[name], status+"conditions/x-kubernetes-list-type")).To(Equal("map"))
		g.Expect(dig(docs[name], status+"conditions/x-kubernetes-list-map-keys")).To(ConsistOf("type"))
	}
}

func TestTheStateOfAClaimIsExplained(t *testing.T) {
	text := dig(read(t)[crds.SandboxClaims], status+"state/description")
	for _, word := range []string{"warming", "binding", "bound", "stale"} {
		NewWithT(t).Expect(text).To(ContainSubstring(word + ", "))
	}
}

func TestTheVolumesOfASandboxAreImmutable(t *testing.T) {
	rules := dig(read(t)[crds.Sandboxes], fields+"spec/x-kubernetes-validations")
	g := NewWithT(t)
	g.Expect(rules).To(HaveLen(1))
	g.Expect(dig(rules, "0/message")).To(Equal("volumeClaimTemplates is immutable"))
}

// Typed, so that the server refuses what no typed client can read; atomic, so that one
// entry in managedFields stands for the pod; and without manuals, for the size.
func TestThePodOfASandboxIsCheckedInFullAndOwnedAsAWhole(t *testing.T) {
	g := NewWithT(t)
	g.Expect(len(crds.Manifests()[1])).To(BeNumerically("<", 220<<10))
	pod := dig(read(t)[crds.Sandboxes], spec+"podTemplate/properties/spec")
	g.Expect(dig(pod, "x-kubernetes-map-type")).To(Equal("atomic"))
	g.Expect(dig(pod, "required")).To(ConsistOf("containers"))
	g.Expect(len(dig(pod, "properties").(map[string]any))).To(BeNumerically(">", 35))
	g.Expect(dig(pod, "properties/containers/items/properties/ports/items/properties/protocol/default")).To(Equal("TCP"))
	g.Expect(dig(pod, "description")).NotTo(BeEmpty(), "our own words stay")
	for _, borrowed := range []node{dig(pod, "properties"), dig(read(t)[crds.Sandboxes], spec+"volumeClaimTemplates/items/properties/spec/properties")} {
		each(borrowed, "", func(path string, schema map[string]any) {
			g.Expect(schema).NotTo(HaveKey("x-kubernetes-preserve-unknown-fields"), path)
			if _, text := schema["description"].(string); text {
				t.Errorf("%s has a description", path)
			}
		})
	}
}

// The schemas of others let pass the quantity 1e1.5 and a port beyond int32. One such
// object would stop every typed client's list.
func TestNoNumberIsWiderThanItsGoType(t *testing.T) {
	g := NewWithT(t)
	met := map[bool]int{}
	for _, name := range crds.Names() {
		each(dig(read(t)[name], version+"schema"), name, func(path string, schema map[string]any) {
			if schema["format"] == "int32" {
				// A server before 1.36 does not enforce the format.
				met[false]++
				g.Expect(schema).To(And(HaveKeyWithValue("maximum", BeNumerically("<=", math.MaxInt32)), HaveKeyWithValue("minimum", BeNumerically(">=", math.MinInt32))), path)
				return
			}
			if schema["x-kubernetes-int-or-string"] != true || schema["x-kubernetes-validations"] != nil {
				return
			}
			pattern, quantity := schema["pattern"].(string)
			met[quantity]++
			if !quantity {
				g.Expect(schema).To(And(HaveKeyWithValue("maximum", BeNumerically("==", math.MaxInt32)), HaveKeyWithValue("minimum", BeNumerically("==", math.MinInt32))), path)
				return
			}
			for text, reads := range map[string]bool{
				"1": true, "0.5": true, ".5": true, "5.": true, "100m": true, "1Gi": true, "1E": true, "1e3": true, "1E-3": true, "+2k": true,
				"1e1.5": false, "abc": false, "": false, "1 Gi": false, "1e": false, "--1": false,
			} {
				_, err := resource.ParseQuantity(text)
				g.Expect(err == nil).To(Equal(reads), "Go: %q", text)
				g.Expect(regexp.MustCompile(pattern).MatchString(text)).To(Equal(reads), "%s: %q", path, text)
			}
		})
	}
	g.Expect(met).To(And(HaveKey(true), HaveKey(false)))
}

func TestTheTemplateIsCheckedInFull(t *testing.T) {
	g := NewWithT(t)
	pod := dig(read(t)[crds.SandboxTemplates], spec+"podTemplate/properties/spec")
	g.Expect(dig(pod, "x-kubernetes-preserve-unknown-fields")).To(BeNil())
	g.Expect(len(dig(pod, "properties").(map[string]any))).To(BeNumerically(">", 35))
	g.Expect(dig(pod, "properties/containers/items/properties/ports/items/properties/protocol/default")).To(Equal("TCP"))
}
