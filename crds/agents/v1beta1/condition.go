//go:build !crd

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A Condition is one thing that is so or not, and since when.
type Condition = metav1.Condition
