package cluster_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/crds/client"
	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/world"
)

func TestAPlaneThatWasKilledComesBackWithWhatItHadAndARecorderGoesOn(t *testing.T) {
	temp := ownTemp(t)
	c, err := cluster.Start(t.Context(), cluster.Options{CRDs: true, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	defer nothingLeft(t, temp)
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	h, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	clients := world.Clients{Core: kubernetes.NewForConfigOrDie(c.Config)}
	if clients.Kiln, err = client.New(c.Config, h); err != nil {
		t.Fatal(err)
	}
	r := world.NewRecorder()
	r.Endure()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	ended, err := r.Watch(ctx, clients, metav1.NamespaceAll)
	if err != nil {
		t.Fatal(err)
	}
	defer ended()
	defer cancel()

	claims := clients.Kiln.Claims("default")
	for _, name := range []string{"stays", "goes"} {
		if _, err := claims.Create(ctx, world.Claim(name, "p"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	two := func(s *world.Snapshot) error { return have(s, "default/stays", "default/goes") }
	if err := r.Wait(ctx, two); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-apiserver", "etcd"} {
		if err := c.Crash(ctx, name); err != nil {
			t.Fatal(err)
		}
		if err := c.Revive(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := claims.Delete(ctx, "goes", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := claims.Create(ctx, world.Claim("new", "p"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	other := func(s *world.Snapshot) error { return have(s, "default/stays", "default/new") }
	if err := r.Wait(ctx, other); err != nil {
		t.Error(err)
	}
	select {
	case err := <-c.Broken():
		t.Error("it was on purpose:", err)
	default:
	}
}

var errNotThose = errors.New("the claims are others")

func have(s *world.Snapshot, claims ...string) error {
	for _, name := range claims {
		if _, ok := s.Claims[name]; !ok || len(s.Claims) != len(claims) {
			return errNotThose
		}
	}
	return nil
}
