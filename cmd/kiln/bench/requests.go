package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Requests is how often the API server was asked one thing, for each claim.
type Requests struct {
	Verb     string  `json:"verb"`
	Resource string  `json:"resource"`
	Code     string  `json:"code"`
	PerClaim float64 `json:"per_claim"`
}

// asked is a thing that the API server counts.
type asked struct{ verb, resource, code string }

// counts reads how often the server was asked what, since it started. Of several
// servers behind one address it is one's own count.
func (s *server) counts(ctx context.Context) (map[asked]float64, error) {
	text, err := s.get(ctx, "/metrics")
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	return parseCounts(string(text)), nil
}

const requestsTotal = "apiserver_request_total{"

// parseCounts adds up the API server's requests by verb, resource and code. Watches
// count when they end, and are left out.
func parseCounts(text string) map[asked]float64 {
	all := map[asked]float64{}
	for line := range strings.Lines(text) {
		labels, ours := strings.CutPrefix(line, requestsTotal)
		if !ours {
			continue
		}
		end := strings.LastIndexByte(labels, '}')
		if end < 0 {
			continue
		}
		n, err := strconv.ParseFloat(strings.Fields(labels[end+1:] + " ")[0], 64)
		if err != nil {
			continue
		}
		of := parseLabels(labels[:end])
		if of["verb"] == "WATCH" || of["verb"] == "CONNECT" {
			continue
		}
		resource := cmp.Or(of["resource"], "other")
		if sub := of["subresource"]; sub != "" {
			resource += "/" + strings.TrimPrefix(sub, "/")
		}
		all[asked{of["verb"], resource, of["code"]}] += n
	}
	return all
}

// parseLabels reads labels as a metric's line has them. No value that is needed here
// has a quote in it.
func parseLabels(text string) map[string]string {
	labels := map[string]string{}
	for text != "" {
		name, rest, found := strings.Cut(text, `="`)
		if !found {
			break
		}
		value, rest, found := strings.Cut(rest, `"`)
		if !found {
			break
		}
		labels[name], text = value, strings.TrimPrefix(rest, ",")
	}
	return labels
}

// perClaim is what was asked between two readings, the most frequent first.
func perClaim(before, after map[asked]float64, claims int) (all []Requests) {
	for a, n := range after {
		if d := n - before[a]; d > 0 && claims > 0 {
			all = append(all, Requests{Verb: a.verb, Resource: a.resource, Code: a.code, PerClaim: d / float64(claims)})
		}
	}
	slices.SortFunc(all, func(a, b Requests) int {
		return cmp.Or(cmp.Compare(b.PerClaim, a.PerClaim), cmp.Compare(a.Verb+a.Resource+a.Code, b.Verb+b.Resource+b.Code))
	})
	return all
}
