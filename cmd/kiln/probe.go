package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
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
	q := inquiry{at: at.String(), status: *status}
	if *insecure { // who answers is not what it asks
		q.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	}
	if err := q.answered(ctx); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	fmt.Fprintf(out, "%s answers\n", at)
	return nil
}

// probePause is how long to wait before asking again: an endpoint that is not there
// yet tells nobody when it comes.
const probePause = time.Second

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
