package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// reportPause is how long a changed count waits before it is written. A claim
// takes a member and the refill replaces it within this time, and nothing has
// changed; a burst is told in a few writes.
const reportPause = 250 * time.Millisecond

// pools steps pools.
type pools struct {
	*world
	memory *poolMemory
}

// poolMemory is what pools remember between steps. Nothing in it is needed to be
// right: it only saves requests.
type poolMemory struct {
	mu sync.Mutex
	// names are those asked for without an answer. They are used again, so that
	// a lost response does not make a member too many.
	names map[types.UID][]string
	// due is since when a pool's status has been out of date.
	due map[types.UID]time.Time
	// refusal is what the server said to the last creation, if it refused.
	refusal map[types.UID]string
}

func newPoolMemory() *poolMemory {
	return &poolMemory{names: map[types.UID][]string{}, due: map[types.UID]time.Time{}, refusal: map[types.UID]string{}}
}

// poolSight is what one look at a pool shows.
type poolSight struct {
	facts     states.PoolFacts
	pool      *ext.SandboxWarmPool
	members   map[string]*agents.Sandbox
	blueprint apply.Blueprint
	// fault is why the template can not be used.
	fault string
}

// step brings a pool's members to the number it wants, then its status.
func (l pools) step(ctx context.Context, key Key) (time.Duration, error) {
	sight, ok, err := l.see(ctx, key)
	if !ok || err != nil {
		return 0, err
	}
	plan := states.PlanPool(sight.facts)
	if len(plan.Retire) > 0 || plan.Create > 0 {
		err = errors.Join(l.retire(ctx, sight, plan.Retire), l.create(ctx, sight, plan.Create))
		if sight, ok, _ = l.see(ctx, key); !ok {
			return 0, err
		}
	}
	after, reported := l.report(ctx, sight)
	return after, errors.Join(err, reported)
}

func (l pools) see(ctx context.Context, key Key) (poolSight, bool, error) {
	pool, ok := l.stores.pools.get(key)
	if !ok {
		return poolSight{}, false, nil
	}
	sight := poolSight{pool: pool, members: map[string]*agents.Sandbox{}}
	f := states.PoolFacts{
		Deleting: pool.DeletionTimestamp != nil,
		Replicas: replicas(pool),
		Batch:    l.opts.Batch,
	}
	template, ok := l.stores.templates.get(templateOf(pool))
	f.Template = presence(ok, states.Unseen)
	if !ok && !f.Deleting {
		p, err := ask(ctx, l.stores.templates, l.reads.kiln.Templates(pool.Namespace), templateOf(pool))
		if err != nil {
			return poolSight{}, false, err
		}
		f.Template = p
		template, _ = l.stores.templates.get(templateOf(pool))
	}
	if template != nil {
		var err error
		if sight.blueprint, err = l.blueprints.of(template); err != nil {
			sight.fault, f.Template = err.Error(), states.Unseen
		}
	}
	for _, s := range l.stores.sandboxes.by(byOwner, uidOf(pool)) {
		sight.members[s.Name] = s
		f.Members = append(f.Members, l.member(s, sight.blueprint))
	}
	sight.facts = f
	return sight, true, nil
}

func replicas(p *ext.SandboxWarmPool) int {
	if p.Spec.Replicas == nil {
		return 1
	}
	return int(*p.Spec.Replicas)
}

func (l pools) member(s *agents.Sandbox, b apply.Blueprint) states.Member {
	m := states.Member{
		Name: s.Name, Word: states.Pod.Initial, Current: madeFrom(s, b), Refused: refused(s),
		Leaving: retired(s) || s.DeletionTimestamp != nil, Born: s.CreationTimestamp.Time,
	}
	if pod, ok := l.stores.pods.get(keyOf(s)); ok && controls(s.UID, pod) {
		m.Word = word(pod)
	}
	return m
}

// madeFrom reports whether a sandbox was made from a blueprint as it is now. The
// template's name counts too: pointing a pool at another template is a change,
// also when both say the same.
func madeFrom(s *agents.Sandbox, b apply.Blueprint) bool {
	return s.Labels[apply.LabelRevision] == b.Revision && s.Annotations[apply.NoteTemplate] == b.Template
}

// current reports whether a member was made from its pool's template as it is
// now; the shelf hands out such members first.
func (w *world) current(s *agents.Sandbox) bool {
	pool, ok := w.stores.pools.get(ownerKey(s, metav1.GetControllerOfNoCopy(s)))
	if !ok {
		return false
	}
	template, ok := w.stores.templates.get(templateOf(pool))
	if !ok {
		return false
	}
	b, err := w.blueprints.of(template)
	return err == nil && madeFrom(s, b)
}

// retire marks members as never to be handed out. It asks the shelf first, so
// that a claim that is just taking one is not raced; the guard on the sandbox is
// what makes it safe.
func (l pools) retire(ctx context.Context, sight poolSight, leaves []states.Leave) error {
	return each(leaves, func(leave states.Leave) error {
		s := sight.members[leave.Name]
		if !l.shelves.withdraw(keyOf(s)) {
			return nil // a claim has it; the next look counts without it
		}
		got, err := l.apply.Retire(ctx, s, leave.Reason)
		err = l.settleSandbox(ctx, s, got, err)
		l.shelves.sync(keyOf(s))
		l.sandboxes.wake(keyOf(s))
		return err
	})
}

// create makes members. While the server refuses them, one is tried at a time.
func (l pools) create(ctx context.Context, sight poolSight, n int) error {
	if n > 1 && l.memory.said(sight.pool.UID) != "" {
		n = 1
	}
	err := each(l.memory.take(sight.pool, n), func(name string) error {
		got, err := l.apply.CreateMember(ctx, sight.pool, name, sight.blueprint)
		switch {
		case errors.Is(err, apply.ErrLost):
			_, err := ask(ctx, l.stores.sandboxes, l.reads.kiln.Sandboxes(sight.pool.Namespace), Key{Namespace: sight.pool.Namespace, Name: name})
			return err
		case errors.Is(err, apply.ErrRefused):
			return err
		case err != nil:
			l.memory.keep(sight.pool.UID, name)
			return err
		}
		if err := take(l.stores.sandboxes, got); err != nil {
			return err
		}
		l.shelves.sync(keyOf(got))
		l.sandboxes.wake(keyOf(got))
		return nil
	})
	l.memory.hear(sight.pool.UID, err)
	if err == nil && n > 0 {
		l.pools.wake(keyOf(sight.pool)) // after a refusal ends there are more to make
	}
	return err
}

// each does something to many at once; the lane is what bounds it. It returns
// the first error.
func each[T any](all []T, do func(T) error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() { errs[i] = do(one) })
	}
	wg.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}

// report writes the status once it has been out of date for a pause.
func (l pools) report(ctx context.Context, sight poolSight) (time.Duration, error) {
	want := l.status(sight)
	if apply.SamePoolStatus(sight.pool.Status, want) {
		l.memory.settle(sight.pool.UID)
		return 0, nil
	}
	if left := l.memory.pause(sight.pool.UID, l.now()); left > 0 {
		return left, nil
	}
	got, err := l.apply.ReportPool(ctx, sight.pool, want)
	if err == nil {
		l.memory.settle(sight.pool.UID)
	}
	return 0, settle(ctx, l.stores.pools, l.reads.kiln.Pools(sight.pool.Namespace), sight.pool, got, err)
}

func (l pools) status(sight poolSight) ext.SandboxWarmPoolStatus {
	n := states.CountPool(sight.facts)
	want := ext.SandboxWarmPoolStatus{
		Replicas: int32(n.Replicas), ReadyReplicas: int32(n.Ready),
		UpdatedReplicas: int32(n.Updated), UpdatedReadyReplicas: int32(n.UpdatedReady),
		WarmingReplicas: int32(n.Warming), StaleReplicas: int32(n.Leaving),
		CurrentRevision:    sight.blueprint.Revision,
		Selector:           apply.LabelPool + "=" + apply.Hash(sight.pool.Name),
		ObservedGeneration: sight.pool.Generation,
	}
	now := metav1.NewTime(l.now().Truncate(time.Second))
	for _, c := range l.conditions(sight, n) {
		c.ObservedGeneration = sight.pool.Generation
		want.Conditions = append(want.Conditions, since(sight.pool.Status.Conditions, c, now))
	}
	return want
}

// conditions say in a person's words how a pool is.
func (l pools) conditions(sight poolSight, n states.PoolCount) []metav1.Condition {
	desired := sight.facts.Replicas
	have := fmt.Sprintf("%d of %d members are ready", n.Ready, desired)
	degraded := l.degraded(sight, n)
	ready := condition(condReady, metav1.ConditionTrue, "MembersReady", have)
	progress := condition("Progressing", metav1.ConditionFalse, "Complete", have)
	if n.Ready < desired {
		ready = condition(condReady, metav1.ConditionFalse, "MembersNotReady", have)
		progress = condition("Progressing", metav1.ConditionTrue, "Warming", have)
	}
	if n.Replicas > desired || n.Leaving > 0 {
		progress = condition("Progressing", metav1.ConditionTrue, "ScalingDown", fmt.Sprintf("%d members are leaving", max(n.Replicas-desired, n.Leaving)))
	}
	if degraded.Status == metav1.ConditionTrue && n.Ready < desired {
		ready.Reason, ready.Message = degraded.Reason, degraded.Message
		progress = condition("Progressing", metav1.ConditionFalse, degraded.Reason, degraded.Message)
	}
	return []metav1.Condition{degraded, progress, ready}
}

// degraded says what keeps a pool from being what it should be, and what helps.
func (l pools) degraded(sight poolSight, n states.PoolCount) metav1.Condition {
	yes := func(reason, message string) metav1.Condition {
		return condition("Degraded", metav1.ConditionTrue, reason, message)
	}
	name := sight.pool.Spec.TemplateRef.Name
	switch {
	case sight.fault != "":
		return yes("InvalidTemplate", sight.fault)
	case sight.facts.Template == states.Missing:
		return yes(reasonNoTemplate, fmt.Sprintf("SandboxTemplate %q not found; create it in namespace %s, or change spec.sandboxTemplateRef.name", name, sight.pool.Namespace))
	case l.memory.said(sight.pool.UID) != "":
		return yes("SandboxRefused", "the API server refuses to create sandboxes: "+l.memory.said(sight.pool.UID))
	case n.Refused > 0:
		return yes("PodRefused", fmt.Sprintf("%d pods cannot be created: %s", n.Refused, refusalIn(sight)))
	}
	return condition("Degraded", metav1.ConditionFalse, "AsExpected", "nothing is in the way")
}

// refusalIn is what the first refused member by name says.
func refusalIn(sight poolSight) string {
	var first *agents.Sandbox
	for _, s := range sight.members {
		if refused(s) && !retired(s) && (first == nil || s.Name < first.Name) {
			first = s
		}
	}
	if first == nil {
		return ""
	}
	return strings.TrimPrefix(meta.FindStatusCondition(first.Status.Conditions, condReady).Message, errorSeen)
}

// memberName is a new member's name: the pool's, cut to what a name may have,
// and five random characters.
func memberName(pool string) string {
	const most = 253 - 6
	if len(pool) > most {
		pool = pool[:most]
	}
	return pool + "-" + rand.String(5)
}

// take returns names for new members, those without an answer first.
func (m *poolMemory) take(pool *ext.SandboxWarmPool, n int) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.names[pool.UID]
	names := slices.Clone(kept[:min(n, len(kept))])
	m.names[pool.UID] = slices.Clone(kept[len(names):])
	for len(names) < n {
		names = append(names, memberName(pool.Name))
	}
	return names
}

func (m *poolMemory) keep(pool types.UID, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names[pool] = append(m.names[pool], name)
}

// hear remembers whether the server refused the last creations.
func (m *poolMemory) hear(pool types.UID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, apply.ErrRefused):
		m.refusal[pool] = apply.Words(err)
	case err == nil:
		delete(m.refusal, pool)
	}
}

func (m *poolMemory) said(pool types.UID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refusal[pool]
}

// pause returns how long a status that is out of date still waits.
func (m *poolMemory) pause(pool types.UID, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.due[pool]; !ok {
		m.due[pool] = now
	}
	return reportPause - now.Sub(m.due[pool])
}

func (m *poolMemory) settle(pool types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.due, pool)
}

// forget drops what is remembered of a pool that is gone.
func (m *poolMemory) forget(pool types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, pool)
	delete(m.due, pool)
	delete(m.refusal, pool)
}
