package bench

import (
	"io"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// hangsUp closes the connection instead of answering.
func hangsUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

func TestAClaimWhoseAnswerIsLostIsDeletedToo(t *testing.T) {
	g := NewWithT(t)
	s, script := play(t, 1, hangsUp, says(200, `{"kind":"Status","apiVersion":"v1","status":"Success"}`))
	one := &trial{session: &session{Options: Options{Timeout: time.Minute}, server: s, progress: NewProgress(io.Discard, false)}, ledger: newLedger(), claims: "/claims", scenario: Burst}
	one.make = one.makeClaim
	life, served := one.ask(t.Context())
	g.Expect(served).To(BeFalse())
	one.drop(t.Context(), life)
	g.Expect(script.asked).To(Equal([]string{"POST /claims", "DELETE /claims/burst-0-1"}))
}

func TestANamespaceThatIsKeptKeepsNothingOutsideOfIt(t *testing.T) {
	g := NewWithT(t)
	s, script := play(t, 1, says(200, `{"kind":"Status","apiVersion":"v1","status":"Success"}`))
	of := &session{Options: Options{Keep: true, Namespace: "ns"}, server: s, floor: &floor{made: []string{"sandboxes.ns"}}}
	g.Expect(of.clean(t.Context(), nil)).To(Succeed())
	g.Expect(script.asked).To(Equal([]string{"DELETE " + definitions + "/sandboxes.ns"}))
}

func TestADefinitionWhoseAnswerIsLostIsDeletedToo(t *testing.T) {
	made := definitions + "/sandboxclaims.ns.bench.internal"
	for name, row := range map[string]struct {
		answer func(http.ResponseWriter)
		after  []string
	}{
		"lost":      {hangsUp, []string{"DELETE " + made}},
		"forbidden": {says(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, script := play(t, 1, says(200, `{"spec":{"names":{"plural":"sandboxclaims"},"versions":[{"name":"v1beta1"}]}}`), row.answer,
				says(200, `{"kind":"Status","apiVersion":"v1","status":"Success"}`))
			of := &session{Options: Options{Namespace: "ns", Keep: true}, server: s, progress: NewProgress(io.Discard, false)}
			_ = of.prepareFloor(t.Context()) // the other tests say what it returns
			g.Expect(of.clean(t.Context(), nil)).To(Succeed())
			g.Expect(script.asked).To(Equal(append([]string{"GET " + definitions + "/" + copied[0], "POST " + definitions}, row.after...)))
		})
	}
}
