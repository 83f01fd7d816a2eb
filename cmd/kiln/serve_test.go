package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestEachProbeSaysWhatItIsAbout(t *testing.T) {
	g := NewWithT(t)
	var stuck, unready error
	h := healthHandler(func() error { return stuck }, func() error { return unready })
	says := func(path string) string {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return http.StatusText(answer.Code) + ": " + strings.TrimSpace(answer.Body.String())
	}
	all := func() []string { return []string{says("/healthz"), says("/livez"), says("/readyz")} }
	g.Expect(all()).To(Equal([]string{"OK: ok", "OK: ok", "OK: ok"}))
	stuck, unready = errors.New("loop sandbox is stuck"), errors.New("the informers have not synced yet")
	g.Expect(all()).To(Equal([]string{"OK: ok", "Service Unavailable: loop sandbox is stuck", "Service Unavailable: the informers have not synced yet"}))
}
