package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const probeUsage = `kiln probe asks a URL until it answers 200. helm test runs it beside the controller.

Usage:
  kiln probe [flags] URL

Flags:
  --insecure-skip-tls-verify    take any certificate
  --status code                 the status of the answer that it waits for (default 200)
  --timeout duration            longest to wait for that answer (default 30s)
`

// probe carries out kiln probe.
func probe(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("kiln probe", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	timeout := f.Duration("timeout", 30*time.Second, "")
	status := f.Int("status", http.StatusOK, "")
	insecure := f.Bool("insecure-skip-tls-verify", false, "")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, probeUsage)
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", errUsage, err)
	case f.NArg() != 1:
		return fmt.Errorf("%w: say kiln probe URL", errUsage)
	case *timeout <= 0:
		return fmt.Errorf("%w: --timeout is %v; give a time above 0", errUsage, *timeout)
	case http.StatusText(*status) == "":
		return fmt.Errorf("%w: --status is %d; give the code of a status, such as 200", errUsage, *status)
	}
	at, err := url.Parse(f.Arg(0))
	if err != nil || at.Scheme != "http" && at.Scheme != "https" {
		return fmt.Errorf("%w: %q is not a URL; give one such as http://localhost:8081/readyz", errUsage, f.Arg(0))
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = impatient(t.DialContext)
	if *insecure { // who answers is not what it asks
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	}
	q := inquiry{at: at.String(), status: *status, client: http.Client{Transport: t}}
	if err := q.answered(ctx); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	fmt.Fprintf(out, "%s answers\n", at)
	return nil
}

// probePause is how long to wait before asking again: an endpoint that is not there
// yet tells nobody when it comes.
const probePause = time.Second

// connectLimit is the longest to wait for a connection. A Service sends one to a pod that has just
// gone, and goes on sending it there however often it is tried. Only a new connection finds
// another pod, or none.
const connectLimit = 2 * time.Second

// A dial makes a connection.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// impatient is a dial that gives up after connectLimit.
func impatient(d dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, connectLimit, fmt.Errorf("nobody answers at %s for %s", address, connectLimit))
		defer cancel()
		c, err := d(ctx, network, address)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return c, err
	}
}

// An inquiry is what is asked and the status that answers it.
type inquiry struct {
	at     string
	status int
	client http.Client
}

// answered returns when the answer is there, or says what was answered last.
func (q *inquiry) answered(ctx context.Context) error {
	last := errors.New("no answer")
	for {
		one, err := q.ask(ctx)
		switch {
		case err == nil && one == q.status:
			return nil
		case err == nil:
			last = fmt.Errorf("it answers %d %s", one, http.StatusText(one))
		case ctx.Err() == nil:
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(probePause):
		}
	}
}

func (q *inquiry) ask(ctx context.Context) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, q.at, nil)
	if err != nil {
		return 0, err
	}
	answer, err := q.client.Do(r)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}
