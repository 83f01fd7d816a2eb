package kit

import (
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestAddressesStayAddressesHoweverManyPodsThereWere(t *testing.T) {
	k := &Kubelet{network: 700}
	for range 200_000 {
		if _, err := netip.ParseAddr(k.address(&corev1.Pod{})); err != nil {
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
		}
	}
}
