package apply

import (
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// Connection copies a configuration so that clients made from the copy share no
// connection with any other: client-go caches transports by their settings, and
// a dial function of its own is what keeps two apart. Client-side rate limits
// are off unless cfg asks for one, which then holds for each copy.
func Connection(cfg *rest.Config) *rest.Config {
	own := rest.CopyConfig(cfg)
	if own.QPS == 0 {
		own.QPS = -1 // client-go takes zero for five a second
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	own.Dial = dialer.DialContext
	return own
}
