package apply

import (
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
)

// A recorded is the request that came to a transport.
type recorded struct{ request *http.Request }

func (t *recorded) RoundTrip(r *http.Request) (*http.Response, error) {
	t.request = r
	return httptest.NewRecorder().Result(), nil
}

func TestAServerLooksForNoUnknownFieldsInWhatIsApplied(t *testing.T) {
	for media, want := range map[string]string{
		"application/apply-patch+yaml":        "/x?fieldManager=kiln-pod&fieldValidation=Ignore",
		"application/merge-patch+json":        "/x?fieldManager=kiln-pod",
		"application/vnd.kubernetes.protobuf": "/x?fieldManager=kiln-pod",
	} {
		t.Run(media, func(t *testing.T) {
			g := NewWithT(t)
			var server recorded
			r := httptest.NewRequest(http.MethodPatch, "/x?fieldManager=kiln-pod", nil)
			r.Header.Set("Content-Type", media)
			answer, err := Options{Wrap: func(http.RoundTripper) http.RoundTripper { return &server }}.transport(nil).RoundTrip(r)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Body.Close()).To(Succeed())
			g.Expect(server.request.URL.String()).To(Equal(want))
			g.Expect(r.URL.String()).To(Equal("/x?fieldManager=kiln-pod"), "the caller's request stays as it is")
		})
	}
}
