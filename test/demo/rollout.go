package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A rollout is one way to follow a template.
type rollout struct {
	strategy extensions.UpdateStrategyType
	expects  string // what a reader will see
	strict   bool   // a claim made after the change never gets an older sandbox
	least    int    // how many sandboxes stay ready, but for what claims take
	most     int    // how many there are at most
}

// The pool of this story, and how many claims arrive while it changes.
const (
	members  = 10
	arriving = 12
)

// The share of a rolling update is 25% unless the pool says otherwise: of 10,
// that is 2 that may be missing and 3 that may be too many.
var rollouts = []rollout{
	{extensions.OnReplenish, "The old sandboxes stay, and claims take them as what they are; only what replaces them is new.", false, 0, members},
	{extensions.Recreate, "All old sandboxes are dropped at once and replaced at the same time; claims wait for new ones.", true, 0, 2 * members},
	{extensions.Rolling, "Old sandboxes go as new ones become ready: 8 stay ready, 13 is the most there are; claims get new ones only.", true, 8, 13},
}

// rollOut tells how a pool follows its template and returns the last line.
func (s *story) rollOut(ctx context.Context) (string, error) {
	for _, r := range rollouts {
		if err := s.change(ctx, r); err != nil {
			return "", fmt.Errorf("%s: %w", r.strategy, err)
		}
	}
	if err := s.verdict(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("demo: rollout: %d strategies, %d claims bound, 0 of an older template where that is promised, 0 conflicts", len(rollouts), s.bound), nil
}

// change changes the template of a full pool while claims arrive, shows what
// that looked like, and judges it.
func (s *story) change(ctx context.Context, r rollout) error {
	heading(fmt.Sprintf("%s: a pool of %d from image python:1, which becomes python:2", r.strategy, members))
	fmt.Println(r.expects)
	if err := s.stock(ctx, r); err != nil {
		return err
	}
	var from int
	var old string
	s.Look(func(now *world.Snapshot) { from, old = now.Changes, now.Pools[pool].Status.CurrentRevision })
	if err := s.kubectl(ctx, "patch", "sandboxtemplate", pool, "--type=json",
		`--patch=[{"op":"replace","path":"/spec/podTemplate/spec/containers/0/image","value":"python:2"}]`); err != nil {
		return err
	}
	claims, err := s.arrive(ctx, r)
	if err != nil {
		return err
	}
	s.bound += len(claims)
	log := s.log(from, old)
	fmt.Println()
	log.print()
	said, err := log.verdict(r, claims)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n", said)
	return s.sweep(ctx, claims)
}

// stock makes the template and a full pool. Its pods take a moment to start, as
// real ones do.
func (s *story) stock(ctx context.Context, r rollout) error {
	template := &extensions.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Name: pool}}
	template.Spec.PodTemplate = agents.PodTemplate{
		ObjectMeta: agents.PodMetadata{Annotations: map[string]string{"kwok.x-k8s.io/ready-after": "300ms"}},
		Spec:       runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"python","image":"python:1"}]}`)},
	}
	if _, err := s.clients.Templates(namespace).Create(ctx, template, metav1.CreateOptions{}); err != nil {
		return err
	}
	warm := &extensions.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Name: pool}}
	warm.Spec.Replicas = new(int32(members))
	warm.Spec.TemplateRef.Name = pool
	warm.Spec.UpdateStrategy.Type = r.strategy
	if _, err := s.clients.Pools(namespace).Create(ctx, warm, metav1.CreateOptions{}); err != nil {
		return err
	}
	return s.await(ctx, full)
}

// arrive makes a claim whenever a little has happened, and waits until all have
// their sandbox and the pool is as it should be.
func (s *story) arrive(ctx context.Context, r rollout) ([]string, error) {
	var claims []string
	for i := range arriving {
		claims = append(claims, fmt.Sprintf("c%d", i+1))
		var seen int
		s.Look(func(now *world.Snapshot) { seen = now.Changes })
		if _, err := s.create(ctx, claims[i], pool); err != nil {
			return nil, err
		}
		if err := s.await(ctx, happened(seen+pace)); err != nil {
			return nil, err
		}
	}
	return claims, s.await(ctx, world.Told(claims...), full, r.followed)
}

// pace is how much happens between two claims: less than one claim brings about.
const pace = 8

// happened holds when so many things have happened.
func happened(n int) world.Condition {
	return func(now *world.Snapshot) error {
		if now.Changes < n {
			return fmt.Errorf("%d things happened, and not yet %d", now.Changes, n)
		}
		return nil
	}
}

// followed holds when a pool has gone as far with its template as it will.
func (r rollout) followed(now *world.Snapshot) error {
	if p := now.Pools[pool]; p != nil && r.strict && (p.Status.UpdatedReadyReplicas != members || p.Status.StaleReplicas > 0) {
		return fmt.Errorf("%d members are new and ready, %d have not gone", p.Status.UpdatedReadyReplicas, p.Status.StaleReplicas)
	}
	return nil
}

// sweep takes everything away that a strategy has left.
func (s *story) sweep(ctx context.Context, claims []string) error {
	for _, c := range claims {
		if err := s.clients.Claims(namespace).Delete(ctx, c, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	if err := s.clients.Pools(namespace).Delete(ctx, pool, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := s.clients.Templates(namespace).Delete(ctx, pool, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.await(ctx, world.Empty)
}
