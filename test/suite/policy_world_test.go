package suite

import (
	"errors"
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

const policyOfT = "t-network-policy"

// policyAsWanted holds when a template has the policy that it wants, or none if it
// wants none.
func policyAsWanted(template string) world.Condition {
	return func(s *world.Snapshot) error {
		t, ok := s.Templates[template]
		if !ok {
			return fmt.Errorf("there is no template %s", template)
		}
		is, has := s.Policies[apply.PolicyName(template)]
		if !apply.ManagesPolicy(t) {
			if has {
				return fmt.Errorf("template %s has a policy, and wants none", template)
			}
			return nil
		}
		want, err := apply.PolicyOf(t)
		if err != nil {
			return err
		}
		if !has || !want.Matches(is) {
			return fmt.Errorf("template %s has not the policy that it wants", template)
		}
		return nil
	}
}

// noPolicy holds when there is none of the template t.
func noPolicy(s *world.Snapshot) error {
	if _, ok := s.Policies[policyOfT]; ok {
		return errors.New("the policy is still there")
	}
	return nil
}

// policyNow is the policy of the template t as it was last seen.
func policyNow(t *testing.T, w *kit.World) (p *networkingv1.NetworkPolicy) {
	t.Helper()
	w.Look(func(s *world.Snapshot) { p = s.Policies[policyOfT] })
	if p == nil {
		t.Fatal("there is no policy")
	}
	return p
}

// withRules gives a template rules of its own, in JSON.
func withRules(t *ext.SandboxTemplate, ingress, egress string) *ext.SandboxTemplate {
	t.Spec.NetworkPolicy = &ext.NetworkPolicySpec{}
	for to, raw := range map[*[]runtime.RawExtension]string{&t.Spec.NetworkPolicy.Ingress: ingress, &t.Spec.NetworkPolicy.Egress: egress} {
		if raw != "" {
			*to = []runtime.RawExtension{{Raw: []byte(raw)}}
		}
	}
	return t
}

func unmanagedTemplate(name string) *ext.SandboxTemplate {
	t := world.Template(name)
	t.Spec.NetworkPolicyManagement = ext.NetworkPolicyUnmanaged
	return t
}

// somebodys is a policy of the name of the template t's that a user made.
func somebodys() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policyOfT},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}
}

// changePolicy changes the policy of the template t as a hand would.
func changePolicy(t *testing.T, w *kit.World, patch string) {
	t.Helper()
	got, err := w.Policies().Patch(w.Context(), policyOfT, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "hand"})
	if err != nil {
		t.Fatal(err)
	}
	w.Await(world.Seen(got))
}
