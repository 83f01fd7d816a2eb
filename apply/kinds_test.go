package apply

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

func TestAnObjectsKindIsTheOneOfItsGoType(t *testing.T) {
	for _, o := range []Regarding{&agents.Sandbox{}, &ext.SandboxClaim{}, &ext.SandboxWarmPool{}, &ext.SandboxTemplate{}} {
		g := NewWithT(t)
		known, _, err := client.Scheme.ObjectKinds(o)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(known).To(ConsistOf(gvkOf(o)))
	}
}

// owned is a pod with one owner reference.
func owned(apiVersion, kind string, controller bool) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: apiVersion, Kind: kind, Name: "o", UID: "owner-uid", Controller: &controller},
	}}}
}

func TestAnOwnerIsKnownByGroupAndKindWhateverItsVersion(t *testing.T) {
	for _, row := range []struct {
		name, apiVersion, kind string
		is                     states.OwnerKind
	}{
		{"a pool", "extensions.agents.x-k8s.io/v1beta1", "SandboxWarmPool", states.OwnerPool},
		{"a pool of an older version", "extensions.agents.x-k8s.io/v1alpha1", "SandboxWarmPool", states.OwnerPool},
		{"a claim", "extensions.agents.x-k8s.io/v1beta1", "SandboxClaim", states.OwnerClaim},
		{"a pool of another group", "example.com/v1beta1", "SandboxWarmPool", states.OwnerOther},
		{"a kind of no group", "v1", "SandboxClaim", states.OwnerOther},
		{"a sandbox", "agents.x-k8s.io/v1beta1", "Sandbox", states.OwnerSandbox},
	} {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(OwnerOf(owned(row.apiVersion, row.kind, true))).To(Equal(states.Owner{Kind: row.is, Name: "o", UID: "owner-uid"}))
		})
	}
	NewWithT(t).Expect(OwnerOf(owned("extensions.agents.x-k8s.io/v1beta1", "SandboxClaim", false))).To(BeZero(), "it is no controller")
}

func TestAControllerIsKnownByItsUID(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ControlledBy("owner-uid", owned("v1", "Any", true))).To(BeTrue())
	g.Expect(ControlledBy("another", owned("v1", "Any", true))).To(BeFalse())
	g.Expect(ControlledBy("owner-uid", owned("v1", "Any", false))).To(BeFalse())
	g.Expect(ControlledBy("", &corev1.Pod{})).To(BeFalse())
}
