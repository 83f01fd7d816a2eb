package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"
)

// healthy returns when url answers 200; an empty one is taken for granted.
func (p *Process) healthy(ctx context.Context, url string) error {
	if url == "" {
		return nil
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not healthy within %s", startTimeout))
	defer cancel()
	for tick := time.NewTicker(25 * time.Millisecond); ; {
		select {
		case <-p.done:
			return fmt.Errorf("ended before it was healthy: %s", p.cmd.ProcessState)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if answer, err := client.Get(url); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
}
