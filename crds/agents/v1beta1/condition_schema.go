//go:build crd

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A Condition is one thing that is so or not, and since when.
type Condition struct {
	metav1.Condition `json:",inline"`

	// lastTransitionTime is the last time the condition changed its status.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}
