package crds_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

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

func TestTheSandboxIsSlimAndItsContainersAreNamed(t *testing.T) {
	g := NewWithT(t)
	g.Expect(len(crds.Manifests()[1])).To(BeNumerically("<", 20<<10))
	pod := dig(read(t)[crds.Sandboxes], spec+"podTemplate/properties/spec")
	g.Expect(dig(pod, "x-kubernetes-preserve-unknown-fields")).To(BeTrue())
	g.Expect(dig(pod, "required")).To(ConsistOf("containers"))
	g.Expect(dig(pod, "properties")).To(HaveLen(1))
	containers := dig(pod, "properties/containers")
	g.Expect(dig(containers, "minItems")).To(Equal(1.0))
	g.Expect(dig(containers, "x-kubernetes-list-type")).To(Equal("map"))
	g.Expect(dig(containers, "x-kubernetes-list-map-keys")).To(ConsistOf("name"))
	g.Expect(dig(containers, "items/x-kubernetes-preserve-unknown-fields")).To(BeTrue())
	g.Expect(dig(containers, "items/required")).To(ConsistOf("name"))
	g.Expect(dig(containers, "items/properties/name/minLength")).To(Equal(1.0))
}

func TestTheTemplateIsCheckedInFull(t *testing.T) {
	g := NewWithT(t)
	pod := dig(read(t)[crds.SandboxTemplates], spec+"podTemplate/properties/spec")
	g.Expect(dig(pod, "x-kubernetes-preserve-unknown-fields")).To(BeNil())
	g.Expect(len(dig(pod, "properties").(map[string]any))).To(BeNumerically(">", 35))
	g.Expect(dig(pod, "properties/containers/items/properties/ports/items/properties/protocol/default")).To(Equal("TCP"))
}
