package cluster

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

const loopback = "127.0.0.1"

// Ports are taken from below the range from which systems serve outgoing
// connections, so that none of those can slip in before a component listens.
const (
	lowestPort = 15000
	ports      = 15000
)

var given sync.Map

// FreePort returns a loopback port on which nothing listens. It returns no port
// twice.
func FreePort() string {
	for {
		port := strconv.Itoa(lowestPort + rand.IntN(ports))
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, port))
		if err != nil {
			continue
		}
		listener.Close()
		if _, twice := given.LoadOrStore(port, true); !twice {
			return port
		}
	}
}

// FreeAddress returns a FreePort with the loopback host before it.
func FreeAddress() string { return net.JoinHostPort(loopback, FreePort()) }
