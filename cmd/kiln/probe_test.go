package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProbeWaitsForTheAnswerThatItIsFor(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	var said strings.Builder
	if err := probe(t.Context(), []string{s.URL + "/readyz"}, &said); err != nil {
		t.Fatal(err)
	}
	if asked != 2 || said.String() != s.URL+"/readyz answers\n" {
		t.Errorf("it asked %d times and said %q", asked, said.String())
	}
}

// A connection that a Service has sent to a pod that is gone stays without an answer.
func TestProbeTriesANewConnectionWhereOneGetsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialed := 0
		d := func(ctx context.Context, _, _ string) (net.Conn, error) {
			if dialed++; dialed == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			ours, theirs := net.Pipe()
			go func() {
				defer func() { _ = theirs.Close() }()
				if _, err := http.ReadRequest(bufio.NewReader(theirs)); err == nil {
					_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			}()
			return ours, nil
		}
		client := http.Client{Transport: &http.Transport{DialContext: impatient(d)}}
		defer client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		q := inquiry{at: "http://kiln:8080/metrics", status: http.StatusOK, client: client}
		if err := q.answered(ctx); err != nil || dialed != 2 {
			t.Errorf("after %d connections it says %v", dialed, err)
		}
	})
}

func TestProbeSaysWhatWasAnsweredLast(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	err := probe(t.Context(), []string{"--timeout=100ms", s.URL}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "it answers 404 Not Found") {
		t.Errorf("it said %v", err)
	}
}

func TestProbeIsToldWhatToAsk(t *testing.T) {
	for _, args := range []string{"", "localhost:8080", "--timeout=0s http://localhost", "--status=7 http://localhost", "http://a http://b", "--what"} {
		if err := probe(t.Context(), strings.Fields(args), io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestProbeTakesTheStatusAndTheCertificateThatItIsToldToTake(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "who are you", http.StatusUnauthorized)
	}))
	defer s.Close()
	if err := probe(t.Context(), []string{"--insecure-skip-tls-verify", "--status=401", s.URL}, io.Discard); err != nil {
		t.Error(err)
	}
	for _, flag := range []string{"--insecure-skip-tls-verify", "--status=401"} {
		if err := probe(t.Context(), []string{"--timeout=100ms", flag, s.URL}, io.Discard); err == nil {
			t.Errorf("%s alone is not enough", flag)
		}
	}
}
