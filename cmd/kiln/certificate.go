package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/util/cert"
)

// A certificate is what the metrics are served with. Its files are read at each
// handshake, which costs less than the handshake: a mounted Secret changes by a link that
// is swapped, and the content tells that more surely than any watch of files.
type certificate struct {
	dir string
	log *slog.Logger

	mu sync.Mutex
	// chain and key are the files as they were read last, and now what they gave.
	chain, key []byte
	now        *tls.Certificate
	// wrong is what was wrong with them since, as it was logged.
	wrong string
}

// ownMaxAge is longer than any process lives: nobody would renew the certificate.
const ownMaxAge = 10 * 365 * 24 * time.Hour

// serving is how TLS is spoken with a certificate from a directory, or without one with a
// certificate that signs itself and lives as long as the process.
func serving(dir string, log *slog.Logger) (*tls.Config, error) {
	// HTTP/2 has nothing to offer to who asks once in half a minute.
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if dir != "" {
		c := &certificate{dir: dir, log: log}
		if err := c.read(); err != nil {
			return nil, err
		}
		config.GetCertificate = c.get
		return config, nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = component
	}
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: host, MaxAge: ownMaxAge})
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	own, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	config.Certificates = []tls.Certificate{own}
	return config, nil
}

// get returns the certificate as its files are now. What cannot be read, as in the middle
// of a change, changes nothing, and is logged once.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch err := c.read(); {
	case err == nil:
		c.wrong = ""
	case err.Error() != c.wrong:
		c.wrong = err.Error()
		c.log.Warn("the certificate of the metrics stays as it was; mend its files", "err", err)
	}
	return c.now, nil
}

// read reads the files, and takes in what they say if it is new.
func (c *certificate) read() error {
	chain, err := os.ReadFile(filepath.Join(c.dir, "tls.crt"))
	if err != nil {
		return fmt.Errorf("read the certificate of the metrics: %w", err)
	}
	key, err := os.ReadFile(filepath.Join(c.dir, "tls.key"))
	if err != nil {
		return fmt.Errorf("read the certificate of the metrics: %w", err)
	}
	if c.now != nil && bytes.Equal(chain, c.chain) && bytes.Equal(key, c.key) {
		return nil
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("read the certificate of the metrics: %s: %w", c.dir, err)
	}
	if c.now != nil {
		c.log.Info("the certificate of the metrics has changed", "dir", c.dir)
	}
	c.chain, c.key, c.now = chain, key, &pair
	return nil
}
