package main

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
)

// described is a metric as it describes itself; row a line of the table in docs/operations.md.
var (
	described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	row       = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram) \\| ([a-z_, `-]*) \\|")
)

// Every metric is in the table of docs/operations.md with its labels, and nothing else is.
func TestTheTableOfMetricsIsTheMetrics(t *testing.T) {
	g := NewWithT(t)
	s, err := parse(nil)
	g.Expect(err).NotTo(HaveOccurred())
	_, registry, err := build(s, &rest.Config{Host: "http://localhost"}, nil, slog.New(slog.DiscardHandler))
	g.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile("../../docs/operations.md")
	g.Expect(err).NotTo(HaveOccurred())

	documented := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(m[3], "`", ""), " ", ""), "-", "")
	}
	registered := map[string]string{}
	all := make(chan *prometheus.Desc, 1000)
	registry.Describe(all)
	close(all)
	for d := range all {
		m := described.FindStringSubmatch(d.String())
		g.Expect(m).NotTo(BeNil(), d.String())
		if !strings.HasPrefix(m[1], "go_") && !strings.HasPrefix(m[1], "process_") {
			registered[m[1]] = m[2]
		}
	}
	g.Expect(documented).To(Equal(registered))
}
