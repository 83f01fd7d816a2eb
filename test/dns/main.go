// Command dns is CoreDNS with what a cluster needs of it: names of Services and of their pods. It
// is a module of its own because nothing else needs CoreDNS, and not CoreDNS's own command
// because that has the clients of every cloud in it.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() { coremain.Run() }
