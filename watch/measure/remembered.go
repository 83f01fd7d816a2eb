package measure

import "github.com/prometheus/client_golang/prometheus"

// Remembered is how much the process remembers beside its informers, by what it is.
// All of it ends with the objects that it is about: what stays when they are gone, or
// grows while they are as many as before, is a leak. A standby tells, too.
type Remembered func() map[string]int

var remembered = prometheus.NewDesc("kiln_remembered",
	"Entries that the process keeps beside its informers, by what they are; each ends with the object that it is about.",
	[]string{"what"}, nil)

var _ prometheus.Collector = (Remembered)(nil)

// Describe names what Collect tells.
func (r Remembered) Describe(to chan<- *prometheus.Desc) { to <- remembered }

// Collect tells how much there is.
func (r Remembered) Collect(to chan<- prometheus.Metric) {
	for what, n := range r() {
		to <- prometheus.MustNewConstMetric(remembered, prometheus.GaugeValue, float64(n), what)
	}
}
