package main

import (
	"log/slog"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

func TestOneControllerForEachNamespaceThatIsWatched(t *testing.T) {
	for args, want := range map[string]int{"": 1, "--watch-namespaces=a": 1, "--watch-namespaces=a,b": 2, "--watch-namespaces=a,b --watch-namespaces=b,c": 3} {
		g := NewWithT(t)
		s, err := parse(strings.Fields(args))
		g.Expect(err).NotTo(HaveOccurred())
		all, registry, err := build(s, &rest.Config{Host: "http://localhost"}, nil, slog.New(slog.DiscardHandler))
		g.Expect(err).NotTo(HaveOccurred(), args)
		g.Expect(all).To(HaveLen(want), args)
		told, err := registry.Gather()
		g.Expect(err).NotTo(HaveOccurred())
		depths := map[string]bool{}
		for _, f := range told {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "watched" {
						depths[l.GetValue()] = true
					}
				}
			}
		}
		if want == 1 {
			want = 0 // the series have the labels that they always had
		}
		g.Expect(depths).To(HaveLen(want), args)
	}
}

func TestANamespaceThatIsNoneIsRefused(t *testing.T) {
	for _, list := range []string{"", "a,", "A", "a b"} {
		_, err := parse([]string{"--watch-namespaces=" + list})
		NewWithT(t).Expect(err).To(MatchError(errUsage), list)
	}
}
