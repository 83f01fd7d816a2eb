package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/util/cert"
)

// certified writes a new certificate into a directory and returns its name.
func certified(g *WithT, dir, host string) string {
	chain, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), chain, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)).To(Succeed())
	return host
}

// shown is for whom the certificate is that a config shows to the next who comes.
func shown(g *WithT, config *tls.Config) string {
	ours, theirs := net.Pipe()
	answers := make(chan error, 1)
	go func() { answers <- tls.Server(ours, config).Handshake() }()
	c := tls.Client(theirs, &tls.Config{InsecureSkipVerify: true})
	g.Expect(c.Handshake()).To(Succeed())
	g.Expect(<-answers).To(Succeed())
	return c.ConnectionState().PeerCertificates[0].DNSNames[0]
}

func TestACertificateIsServedAsItsFilesAreNow(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	var log bytes.Buffer
	_, err := serving(dir, slog.Default())
	g.Expect(err).To(MatchError(ContainSubstring("tls.crt")), "what is not there at the start is an error")
	first := certified(g, dir, "first.example")
	config, err := serving(dir, slog.New(slog.NewTextHandler(&log, nil)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(shown(g, config)).To(Equal(first))

	other := t.TempDir()
	certified(g, other, "second.example")
	half, err := os.ReadFile(filepath.Join(other, "tls.crt"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), half, 0o600)).To(Succeed())
	for range 2 {
		g.Expect(shown(g, config)).To(Equal(first), "the key is still the old one")
	}
	g.Expect(bytes.Count(log.Bytes(), []byte("stays as it was"))).To(Equal(1), log.String())

	second := certified(g, dir, "second.example")
	g.Expect(shown(g, config)).To(Equal(second))
	g.Expect(os.Remove(filepath.Join(dir, "tls.key"))).To(Succeed())
	g.Expect(shown(g, config)).To(Equal(second))
}

func TestWithoutACertificateOneIsMadeAndNothingIsServedInTheClear(t *testing.T) {
	g := NewWithT(t)
	config, err := serving("", slog.Default())
	g.Expect(err).NotTo(HaveOccurred())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	addr := l.Addr().String()
	g.Expect(l.Close()).To(Succeed())
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "figures") })
	g.Expect(endpoint{addr: addr, handler: h, tls: config, log: slog.New(slog.DiscardHandler)}.serve(t.Context())).To(Succeed())
	read := func(url string) (string, error) {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
		answer, err := c.Get(url)
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(answer.Body)
		return string(text), errors.Join(err, answer.Body.Close())
	}
	text, err := read("https://" + addr)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(text).To(Equal("figures"))
	text, _ = read("http://" + addr) // the connection may be reset before its answer is read
	g.Expect(text).NotTo(ContainSubstring("figures"))
}
