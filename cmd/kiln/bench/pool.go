package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// revise makes the template, or makes it another revision.
func (s *session) revise(ctx context.Context) error {
	t, err := s.template.revised(s.revision + 1)
	if err != nil {
		return err
	}
	_, err = s.server.apply(ctx, s.path("sandboxtemplates")+"/"+bench, marshal(map[string]any{
		"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxTemplate",
		"metadata": map[string]any{"name": bench}, "spec": t.spec,
	}))
	if err != nil {
		return fmt.Errorf("write the template: %w", err)
	}
	s.revision++
	return nil
}

// ensure has the pool be of a size and a strategy, and returns when it is full and
// nothing else is there.
func (s *session) ensure(ctx context.Context, size int, strategy string) error {
	if s.revision == 0 {
		if err := s.revise(ctx); err != nil {
			return err
		}
	}
	o, err := s.server.apply(ctx, s.path("sandboxwarmpools")+"/"+bench, marshal(map[string]any{
		"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool",
		"metadata": map[string]any{"name": bench},
		"spec": map[string]any{
			"replicas": size, "sandboxTemplateRef": map[string]any{"name": bench},
			"updateStrategy": map[string]any{"type": strategy},
		},
	}))
	if err != nil {
		return fmt.Errorf("write the pool: %w", err)
	}
	added, begun, cpu := size-s.size, time.Now(), s.processes.used(procDir)
	s.size, s.fill = size, nil
	observed := func(now status) bool { return now.ObservedGeneration >= o.Metadata.Generation }
	if err := s.await(ctx, observed); err != nil {
		return err
	}
	if err := s.settle(ctx, nil); err != nil || added <= 0 {
		return err
	}
	s.fill = &Fill{Members: added, Seconds: time.Since(begun).Seconds(), CPU: between(cpu, s.processes.used(procDir), added)}
	s.progress.say("round %d: the pool has %d more after %s s", s.round, added, figure(s.fill.Seconds))
	return nil
}

// A Fill is what it took to have more warm sandboxes, before a scenario began.
type Fill struct {
	Members int     `json:"members"`
	Seconds float64 `json:"seconds"`
	// CPU is for each of them.
	CPU *CPU `json:"cpu_ms_per_member,omitempty"`
}

// patient is how long the cluster may make no progress, whatever claims may wait.
const patient = 2 * time.Minute

func (s *session) patience() time.Duration { return max(s.Timeout, patient) }

// await waits for the pool.
func (s *session) await(ctx context.Context, done func(status) bool) error {
	err := s.pool.await(ctx, s.patience(), func(now status) bool {
		s.progress.update("round %d: pool: %d of %d ready", s.round, now.ReadyReplicas, s.size)
		return done(now)
	})
	if errors.Is(err, errStill) {
		now, _ := s.pool.read()
		return fmt.Errorf("the pool has %d of %d ready, and nothing changed for %v: %s", now.ReadyReplicas, s.size, s.patience(), now.because())
	}
	return err
}

// settle returns when everything is as before a load: the pool is full, and the pods of
// the sandboxes that were used, by their names, are gone.
func (s *session) settle(ctx context.Context, used map[string]bool) error {
	if s.size > 0 {
		if err := s.await(ctx, func(now status) bool { return now.ReadyReplicas == s.size }); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := time.AfterFunc(s.patience(), func() { cancel(errStill) })
	defer patience.Stop()
	pods := 0
	err := s.server.names(ctx, s.pods(), func(there map[string]bool) bool {
		patience.Reset(s.patience())
		pods = len(there)
		s.progress.update("round %d: settling: %d pods, %d in the pool", s.round, pods, s.size)
		return pods == s.size && !anyOf(used, there)
	})
	if errors.Is(err, errStill) {
		return fmt.Errorf("there are %d pods, not %d as the pool has, and nothing changed for %v", pods, s.size, s.patience())
	}
	return err
}

func anyOf(used, there map[string]bool) bool {
	for pod := range used {
		if there[pod] {
			return true
		}
	}
	return false
}
