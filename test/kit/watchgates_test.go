package kit

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// says is a server that answers everything with a text.
func says(text string) http.RoundTripper {
	return trip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
	})
}

const pools = "http://server/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/n/sandboxwarmpools"

// ask sends a request through a transport; got is closed when all of the answer is
// there.
func ask(t *testing.T, through http.RoundTripper, method, url, body string) (got chan struct{}) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	got = make(chan struct{})
	go func() {
		defer close(got)
		answer, err := through.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := io.ReadAll(answer.Body); err != nil {
			t.Error(err)
		}
	}()
	return got
}

func TestAShutGateHoldsWhatTellsOfItsKindAndADelayedWatchItselfAlone(t *testing.T) {
	wire := newWire(func() {})
	reads, writes := wire.gates.wrap(says("{}")), wire.wrap(says("{}"))
	requests := map[string]func() chan struct{}{
		"a watch":               func() chan struct{} { return ask(t, reads, http.MethodGet, pools+"?watch=true", "") },
		"a list":                func() chan struct{} { return ask(t, reads, http.MethodGet, pools+"?resourceVersion=0", "") },
		"a list of the quorum":  func() chan struct{} { return ask(t, reads, http.MethodGet, pools, "") },
		"the answer to a write": func() chan struct{} { return ask(t, writes, http.MethodPatch, pools+"/p/status", "{}") },
		"a read by name":        func() chan struct{} { return ask(t, reads, http.MethodGet, pools+"/p", "") },
	}
	for _, row := range []struct {
		name string
		hold func(...string)
		held []string
	}{
		{"shut", wire.gates.Shut, []string{"a watch", "a list", "the answer to a write"}},
		{"delayed", wire.gates.Delay, []string{"a watch", "a list"}},
	} {
		row.hold("sandboxwarmpools")
		held := map[string]chan struct{}{}
		for _, what := range row.held {
			held[what] = requests[what]()
		}
		for what, request := range requests {
			if _, ok := held[what]; !ok {
				<-request()
			}
		}
		for what, got := range held {
			select {
			case <-got:
				t.Errorf("%s: %s got through", row.name, what)
			default:
			}
		}
		wire.gates.Open()
		for _, got := range held {
			<-got
		}
	}
	if leaks := wire.gates.leaks(); len(leaks) > 0 {
		t.Errorf("nothing leaked, and it says %q", leaks)
	}
}

func TestWhatGetsThroughAShutGateIsNotedUnlessItWasThereBefore(t *testing.T) {
	gates := newWire(func() {}).gates
	before := logicalClock.Add(1)
	gates.Shut("pods")
	gates.through("pods", "an event", false, before)
	gates.through("sandboxes", "an event", false, logicalClock.Add(1))
	if leaks := gates.leaks(); len(leaks) > 0 {
		t.Errorf("nothing leaked, and it says %q", leaks)
	}
	gates.through("pods", "an event", false, logicalClock.Add(1))
	if leaks := gates.leaks(); len(leaks) != 1 {
		t.Errorf("an event leaked, and it says %q", leaks)
	}
}
