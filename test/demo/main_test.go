package main

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
)

func TestAControlPlaneThatDoesNotStopIsSaidInOneLine(t *testing.T) {
	err := errors.Join(errors.New("kwok: did not end within 15s, killed"), errors.New("timeout waiting for process kube-apiserver to stop"))
	NewWithT(t).Expect(overdue(err)).To(Equal(
		"demo: the control plane did not stop in time: kwok: did not end within 15s, killed; timeout waiting for process kube-apiserver to stop"))
}
