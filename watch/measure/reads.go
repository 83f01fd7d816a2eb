package measure

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// Reads count the reads that prove how new the stores are.
type Reads struct {
	metadata.Interface
	total *prometheus.CounterVec
}

// NewReads counts what is read through a client; with nil it is not registered.
func NewReads(r prometheus.Registerer, of metadata.Interface) *Reads {
	c := &Reads{Interface: of, total: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kiln_freshness_reads_total",
		Help: "Reads that prove how new the view of a pool and its template is, by resource and result (ok, missing, error).",
	}, []string{"resource", "result"})}
	if r != nil {
		r.MustRegister(c.total)
	}
	return c
}

// Resource is the client of one resource, whose reads are counted.
func (c *Reads) Resource(of schema.GroupVersionResource) metadata.Getter {
	return getter{Getter: c.Interface.Resource(of), resource: of.Resource, total: c.total}
}

type getter struct {
	metadata.Getter
	resource string
	total    *prometheus.CounterVec
}

// Namespace is the client in a namespace.
func (g getter) Namespace(ns string) metadata.ResourceInterface {
	return reader{ResourceInterface: g.Getter.Namespace(ns), getter: g}
}

type reader struct {
	metadata.ResourceInterface
	getter getter
}

// Get reads and counts.
func (r reader) Get(ctx context.Context, name string, o metav1.GetOptions, subresources ...string) (*metav1.PartialObjectMetadata, error) {
	got, err := r.ResourceInterface.Get(ctx, name, o, subresources...)
	result := "ok"
	switch {
	case apierrors.IsNotFound(err):
		result = "missing"
	case err != nil:
		result = "error"
	}
	r.getter.total.WithLabelValues(r.getter.resource, result).Inc()
	return got, err
}
