package apply

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestEveryAnswerOfTheServerHasItsKind(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	kind := schema.GroupKind{Kind: "Pod"}
	invalid := func(path string) error {
		return apierrors.NewInvalid(kind, "p", field.ErrorList{field.Invalid(field.NewPath("metadata", path), "x", "no")})
	}
	for _, row := range []struct {
		name   string
		err    error
		is     error
		result string
	}{
		{"a conflict is a race lost", apierrors.NewConflict(pods, "p", errors.New("moved")), ErrLost, "lost"},
		{"a taken name is a race lost", apierrors.NewAlreadyExists(pods, "p"), ErrLost, "lost"},
		{"a missing object is gone", apierrors.NewNotFound(pods, "p"), ErrGone, "gone"},
		{"another object of the name means that it is gone", invalid("uid"), ErrGone, "gone"},
		{"a namespace that ends takes what is in it with it", namespaceEnds(), ErrGone, "gone"},
		{"an invalid field is refused", invalid("name"), ErrRefused, "refused"},
		{"a quota refuses", apierrors.NewForbidden(pods, "p", errors.New("quota")), ErrRefused, "refused"},
		{"an admission webhook refuses", apierrors.NewBadRequest("no"), ErrRefused, "refused"},
		{"a field that the server does not know is refused", internal("failed to create typed patch object (a/p; /v1, Kind=Pod): .spec.new: field not declared in schema"), ErrRefused, "refused"},
		{"a server that fails is worth another try", internal("etcdserver: request timed out"), nil, "retry"},
		{"a full server is worth another try", apierrors.NewTooManyRequests("later", 1), nil, "retry"},
		{"a broken connection is worth another try", errors.New("connection reset"), nil, "retry"},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			err := classify(write{kind: "pod", edge: "create"}, row.err)
			for _, kind := range []error{ErrLost, ErrGone, ErrRefused} {
				g.Expect(errors.Is(err, kind)).To(Equal(errors.Is(row.is, kind)), "%v", kind)
			}
			g.Expect(result(err)).To(Equal(row.result))
			g.Expect(errors.Is(err, row.err)).To(BeTrue(), "the server's own error stays inside")
		})
	}
	NewWithT(t).Expect(classify(write{}, nil)).To(Succeed())
}

// internal is what the server says of an error that has no kind.
func internal(text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: text}}
}

// namespaceEnds is what the server says to whoever makes something in a namespace that is
// being deleted.
func namespaceEnds() error {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"}}
	return err
}

func TestTheServersMessageComesWithoutOurOwnWords(t *testing.T) {
	g := NewWithT(t)
	err := classify(write{kind: "pod", edge: "create"}, apierrors.NewBadRequest("exceeded quota: pods"))
	g.Expect(Message(err)).To(Equal("exceeded quota: pods"))
	g.Expect(Message(errors.New("plain"))).To(Equal("plain"))
}

func TestTheCauseOfARefusalDoesNotNameTheObject(t *testing.T) {
	g := NewWithT(t)
	invalid := func(name string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Sandbox"}, name, field.ErrorList{field.Invalid(field.NewPath("metadata", "ownerReferences"), name, "no")})
	}
	g.Expect(Cause(classify(write{}, invalid("a")))).To(And(Equal(Cause(invalid("b"))), Equal("Invalid metadata.ownerReferences")))
	g.Expect(Cause(apierrors.NewBadRequest("a webhook says no"))).To(Equal("a webhook says no"))
	g.Expect(Cause(errors.New("reset"))).To(Equal("reset"))
}
