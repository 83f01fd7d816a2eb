package main

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// A proxy stands between the replicas and the API server, and does to requests and
// answers what a bad network and a busy server do. It ends TLS with a certificate of its
// own, which the replicas' kubeconfig trusts, and passes their tokens on.
type proxy struct {
	server *httptest.Server
	to     *url.URL
	under  http.RoundTripper
	pass   *httputil.ReverseProxy
	did    func(what string)

	writes atomic.Int64
	bad    atomic.Bool // the weather
	mu     sync.Mutex
	rnd    *rand.Rand
}

// inBadWeather is the share of requests that something happens to.
const inBadWeather = 0.2

func newProxy(cfg *rest.Config, seed uint64, did func(string)) (*proxy, error) {
	to, err := url.Parse(cfg.Host)
	if err != nil {
		return nil, err
	}
	under, err := rest.TransportFor(rest.AnonymousClientConfig(cfg))
	if err != nil {
		return nil, err
	}
	p := &proxy{to: to, under: under, did: did, rnd: rand.New(rand.NewPCG(seed, 3))}
	p.pass = &httputil.ReverseProxy{
		Transport: under, FlushInterval: -1, ErrorLog: quiet,
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.EnableHTTP2 = true
	p.server.Config.ErrorLog = quiet
	p.server.StartTLS()
	return p, nil
}

// ServeHTTP passes a request on, or does not.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		p.writes.Add(1)
	}
	if r.URL.Query().Get("watch") == "" && p.bad.Load() && p.chance() < inBadWeather {
		p.happen(w, r)
		return
	}
	p.pass.ServeHTTP(w, r)
}

// happen is what goes wrong with a request.
func (p *proxy) happen(w http.ResponseWriter, r *http.Request) {
	switch n := p.chance(); {
	case n < 0.2:
		p.did("request lost")
		panic(http.ErrAbortHandler)
	case n < 0.5:
		p.did("answer lost")
		p.loseAnswer(r)
		panic(http.ErrAbortHandler)
	case n < 0.6:
		p.did("429")
		w.Header().Set("Retry-After", "1")
		http.Error(w, "a fault", http.StatusTooManyRequests)
	case n < 0.7:
		p.did("500")
		http.Error(w, "a fault", http.StatusInternalServerError)
	case n < 0.8:
		p.did("504")
		http.Error(w, "a fault", http.StatusGatewayTimeout)
	default:
		p.did("delay")
		select {
		case <-time.After(time.Duration(p.chance() * float64(2*time.Second))):
			p.pass.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}
}

// loseAnswer has the server do what is asked, and tells nobody.
func (p *proxy) loseAnswer(r *http.Request) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = p.to.Scheme, p.to.Host, "", ""
	answer, err := p.under.RoundTrip(out)
	if err != nil {
		return // the server is away: the answer is lost all the same
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
}

// close ends the proxy, and what goes through it.
func (p *proxy) close() {
	p.reset()
	p.server.Close()
}

// reset breaks all connections.
func (p *proxy) reset() { p.server.CloseClientConnections() }

func (p *proxy) chance() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rnd.Float64()
}
