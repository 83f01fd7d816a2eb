package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// claims steps claims.
type claims struct{ *world }

// claimSight is what one look at a claim shows.
type claimSight struct {
	facts   states.ClaimFacts
	claim   *ext.SandboxClaim
	pool    *ext.SandboxWarmPool
	sandbox *agents.Sandbox // what it holds
	offered Key             // what the shelf offers
	fault   fault           // why its spec can not be served
	clash   string          // why its own sandbox can not be made
	status  ext.SandboxClaimStatus
}

// inquiry is what a step of a claim learnt from the API server itself; it holds
// for that step only.
type inquiry struct {
	sandbox, pool, template states.Presence
	// clash is why its own sandbox could not be made; again says that trying
	// once more may help, which no event would tell.
	clash string
	again bool
}

// step advances a claim until it rests.
func (l claims) step(ctx context.Context, key Key) (time.Duration, error) {
	var known inquiry
	for range maxMoves {
		sight, ok := l.see(key, known)
		if !ok {
			l.shelves.giveBack(key) // it may have asked after its deletion was seen
			return 0, nil
		}
		d := states.StepClaim(sight.facts)
		if d.Rests() && known.again {
			return 0, apply.ErrRefused
		}
		if d.Rests() {
			return d.After, nil
		}
		if err := l.act(ctx, sight, d, &known); err != nil {
			return 0, err
		}
	}
	return 0, errRestless
}

func (l claims) see(key Key, known inquiry) (claimSight, bool) {
	c, ok := l.stores.claims.get(key)
	if !ok {
		return claimSight{}, false
	}
	sight := claimSight{claim: c, sandbox: l.held(c), clash: known.clash}
	f := states.ClaimFacts{
		State:    states.Claim.Parse(string(c.Status.State)),
		Deleting: c.DeletionTimestamp != nil,
		Told:     c.Status.SandboxStatus.Name != "",
		Holds:    holding(sight.sandbox),
		Sandbox:  known.sandbox,
		Own:      len(c.Spec.Env) > 0 || len(c.Spec.VolumeClaimTemplates) > 0,
		Patience: l.opts.Patience,
	}
	pool, hasPool := l.stores.pools.get(poolOf(c))
	f.Pool = presence(hasPool, known.pool)
	if hasPool {
		sight.pool = pool
		template, ok := l.stores.templates.get(templateOf(pool))
		f.Template = presence(ok, known.template)
		sight.fault = l.check(c, template)
		f.Invalid = sight.fault.reason != "" || known.clash != ""
	}
	l.consult(&sight, &f)
	sight.facts = f
	sight.status = l.wants(sight)
	sight.facts.Due = !apply.SameClaimStatus(c.Status, sight.status)
	return sight, true
}

// consult asks the shelf, if the claim needs it, and otherwise ends the claim's
// business there.
func (l claims) consult(sight *claimSight, f *states.ClaimFacts) {
	key := keyOf(sight.claim)
	switch {
	case f.Asks():
		member, offer, since := l.shelves.take(sight.pool, sight.claim, l.now())
		f.Offer = offer
		sight.offered = Key{Namespace: sight.claim.Namespace, Name: member}
		if offer == states.InLine {
			f.Waited = l.now().Sub(since)
		}
	case f.Holds != states.HoldsNone:
		l.shelves.done(key, sight.sandbox.Name)
	default:
		l.shelves.giveBack(key)
	}
}

// held finds the sandbox a claim holds: the one it was told of, if it owns that,
// and otherwise the first by name of those it owns, so that two controllers who
// look at the same sandboxes mean the same one.
func (l claims) held(c *ext.SandboxClaim) *agents.Sandbox {
	owned := l.stores.sandboxes.by(byOwner, uidOf(c))
	owned = slices.DeleteFunc(owned, func(s *agents.Sandbox) bool {
		told := c.Status.SandboxStatus.Name
		return s.DeletionTimestamp != nil || retired(s) || told != "" && s.Name != told
	})
	if len(owned) == 0 {
		return nil
	}
	return slices.MinFunc(owned, func(a, b *agents.Sandbox) int { return strings.Compare(a.Name, b.Name) })
}

func holding(s *agents.Sandbox) states.Holding {
	switch {
	case s == nil:
		return states.HoldsNone
	case s.Labels[apply.LabelLaunch] == apply.Warm:
		return states.HoldsWarm
	case isReady(s):
		return states.HoldsReady
	}
	return states.HoldsStarting
}

// presence joins what the store shows and what the API server said.
func presence(shown bool, said states.Presence) states.Presence {
	if shown {
		return states.Present
	}
	if said == states.Present {
		return states.Hidden // it was there a moment ago, and the store says not any more
	}
	return said
}

// act makes the one write that a decision asks for.
func (l claims) act(ctx context.Context, sight claimSight, d states.Decision, known *inquiry) error {
	switch d.Act {
	case states.Adopt:
		return l.adopt(ctx, sight)
	case states.Create:
		return l.create(ctx, sight, known)
	case states.Move:
		got, err := l.apply.MoveClaim(ctx, sight.claim, d.Event, l.told(sight, d.Event))
		return l.moved(ctx, sight, d.Event, got, err)
	case states.Report:
		got, err := l.apply.ReportClaim(ctx, sight.claim, sight.status)
		return l.settleClaim(ctx, sight.claim, got, err)
	case states.Check:
		return l.inquire(ctx, sight, known)
	case states.Rest, states.Retire, states.Delete: // not a claim's
	}
	return nil
}

// adopt takes the offered sandbox. The note on the claim is written beside it;
// the status follows, with the resource version the note left.
func (l claims) adopt(ctx context.Context, sight claimSight) error {
	member, ok := l.stores.sandboxes.get(sight.offered)
	if !ok || !isPool(metav1.GetControllerOfNoCopy(member)) || retired(member) {
		l.shelves.sync(sight.offered) // it left in this moment; the shelf offers another
		return nil
	}
	var record sync.WaitGroup
	if l.opts.Annotate {
		record.Go(func() { l.record(ctx, sight.claim, member.Name) })
	}
	got, err := l.apply.Adopt(ctx, member, sight.claim)
	record.Wait()
	if err == nil {
		l.shelves.done(keyOf(sight.claim), got.Name)
		l.metrics.created(sight.claim, got, isReady(got))
		l.note(ctx, sight.claim, claimKind, apply.Note{
			Type: corev1.EventTypeNormal, Reason: "SandboxAdopted", Action: "Adoption",
			Text: fmt.Sprintf("Adopted warm pool Sandbox %q", got.Name),
		})
	}
	err = l.settleSandbox(ctx, member, got, err)
	l.shelves.sync(sight.offered)
	l.pools.wake(poolOf(sight.claim))
	return err
}

// record notes the sandbox's name and the first sight on the claim. It is for
// others to read; when it fails the claim is served all the same.
func (l claims) record(ctx context.Context, c *ext.SandboxClaim, sandbox string) {
	got, err := l.apply.RecordClaim(ctx, c, sandbox, l.metrics.firstSight(c, l.now()))
	if err := l.settleClaim(ctx, c, got, err); err != nil {
		l.log.Debug("record", "claim", keyOf(c).String(), "err", err)
	}
}

// create makes the claim its own sandbox: a cold start.
func (l claims) create(ctx context.Context, sight claimSight, known *inquiry) error {
	template, ok := l.stores.templates.get(templateOf(sight.pool))
	if !ok {
		return nil // it went in this moment; the next look says so
	}
	blueprint, err := apply.BlueprintOf(template)
	if err != nil {
		known.clash = err.Error()
		return nil
	}
	l.shelves.giveBack(keyOf(sight.claim))
	got, err := l.apply.CreateOwn(ctx, sight.claim, blueprint)
	switch {
	case errors.Is(err, apply.ErrLost):
		return l.collide(ctx, sight.claim, known)
	case errors.Is(err, apply.ErrRefused):
		known.clash, known.again = apply.Words(err), true
		return nil
	case err != nil:
		return err
	}
	l.metrics.created(sight.claim, got, false)
	l.note(ctx, sight.claim, claimKind, apply.Note{
		Type: corev1.EventTypeNormal, Reason: "SandboxProvisioned", Action: "Provisioning",
		Text: fmt.Sprintf("Created Sandbox %q", got.Name),
	})
	if l.opts.Annotate {
		l.record(ctx, sight.claim, got.Name)
	}
	if err := take(l.stores.sandboxes, got); err != nil {
		return err
	}
	l.sandboxes.wake(keyOf(got))
	return nil
}

// collide looks at the sandbox that has the claim's name already: the claim's
// own, after a lost answer, or somebody else's.
func (l claims) collide(ctx context.Context, c *ext.SandboxClaim, known *inquiry) error {
	if _, err := ask(ctx, l.stores.sandboxes, l.reads.kiln.Sandboxes(c.Namespace), keyOf(c)); err != nil {
		return err
	}
	if s, ok := l.stores.sandboxes.get(keyOf(c)); ok && !controls(c.UID, s) {
		known.clash = fmt.Sprintf("sandbox %q exists and is owned by %s; delete it, or give the claim another name", s.Name, ownerWords(s))
	}
	return nil
}

// moved takes in the answer to an edge, and wakes the sandbox whose pod's word
// follows it.
func (l claims) moved(ctx context.Context, sight claimSight, event states.Event, got *ext.SandboxClaim, err error) error {
	if err == nil && event == states.ClaimBound {
		l.metrics.bound(got, sight.sandbox, l.now())
	}
	if err == nil && event == states.ClaimLost {
		l.note(ctx, sight.claim, claimKind, apply.Note{
			Type: corev1.EventTypeWarning, Reason: reasonLost, Action: "Losing",
			Text: lostWords(sight.claim),
		})
	}
	err = l.settleClaim(ctx, sight.claim, got, err)
	if sight.sandbox != nil {
		l.sandboxes.wake(keyOf(sight.sandbox))
	}
	return err
}

func (w *world) settleClaim(ctx context.Context, was, got *ext.SandboxClaim, err error) error {
	return settle(ctx, w.stores.claims, w.reads.kiln.Claims(was.Namespace), was, got, err)
}

// inquire asks the API server about the first thing the stores do not show.
func (l claims) inquire(ctx context.Context, sight claimSight, known *inquiry) (err error) {
	ns := sight.claim.Namespace
	switch {
	case sight.facts.Told, sight.facts.State != states.Binding:
		known.sandbox, err = l.fate(ctx, sight.claim)
	case sight.facts.Pool == states.Unseen:
		known.pool, err = ask(ctx, l.stores.pools, l.reads.kiln.Pools(ns), poolOf(sight.claim))
	default:
		known.template, err = ask(ctx, l.stores.templates, l.reads.kiln.Templates(ns), templateOf(sight.pool))
	}
	return err
}

// fate asks what became of the sandbox a claim was told of. One that exists and
// is not the claim's any more is as lost as one that does not.
func (l claims) fate(ctx context.Context, c *ext.SandboxClaim) (states.Presence, error) {
	key := Key{Namespace: c.Namespace, Name: c.Status.SandboxStatus.Name}
	if key.Name == "" {
		return states.Missing, nil // a hand emptied the status of a claim that was told
	}
	p, err := ask(ctx, l.stores.sandboxes, l.reads.kiln.Sandboxes(c.Namespace), key)
	if err != nil || p == states.Missing {
		return p, err
	}
	s, ok := l.stores.sandboxes.get(key)
	if !ok || !controls(c.UID, s) || retired(s) || s.DeletionTimestamp != nil {
		return states.Missing, nil
	}
	return p, nil
}

// told is the status that goes with an edge.
func (l claims) told(sight claimSight, event states.Event) ext.SandboxClaimStatus {
	if event != states.ClaimLost {
		return sight.status
	}
	want := ext.SandboxClaimStatus{}
	c := condition(condReady, metav1.ConditionFalse, reasonLost, lostWords(sight.claim))
	return l.with(sight.claim, want, c)
}

func lostWords(c *ext.SandboxClaim) string {
	return fmt.Sprintf("Sandbox %q of this claim is gone, and what was in it is lost; create a new claim to get another", c.Status.SandboxStatus.Name)
}

// wants is the status a claim should have as it stands.
func (l claims) wants(sight claimSight) ext.SandboxClaimStatus {
	c := sight.claim
	want := ext.SandboxClaimStatus{State: ext.State(sight.facts.State)}
	if s := sight.sandbox; s != nil {
		want.SandboxStatus = ext.SandboxStatus{Name: s.Name, PodIPs: s.Status.PodIPs}
		if done := meta.FindStatusCondition(s.Status.Conditions, condFinished); done != nil {
			want.Conditions = append(want.Conditions, *done)
		}
		r := meta.FindStatusCondition(s.Status.Conditions, condReady)
		if r == nil {
			return l.with(c, want, condition(condReady, metav1.ConditionFalse, reasonStarting, "Sandbox is not ready"))
		}
		ready := *r
		ready.ObservedGeneration = c.Generation
		want.Conditions = append(want.Conditions, ready)
		return want
	}
	if sight.facts.Told || sight.facts.State != states.Binding {
		return c.Status // it has lost its sandbox, or the watch is behind: an edge will say
	}
	reason, message := l.waits(sight)
	return l.with(c, want, condition(condReady, metav1.ConditionFalse, reason, message))
}

// waits says why a claim has no sandbox yet.
func (l claims) waits(sight claimSight) (reason, message string) {
	pool := sight.claim.Spec.WarmPoolRef.Name
	switch {
	case sight.facts.Pool == states.Missing:
		return reasonNoPool, fmt.Sprintf("SandboxWarmPool %q not found", pool)
	case sight.fault.reason != "":
		return sight.fault.reason, sight.fault.message
	case sight.clash != "":
		return reasonError, "Error seen: " + sight.clash
	case sight.facts.Template == states.Missing:
		return reasonNoTemplate, fmt.Sprintf("SandboxTemplate %q not found", sight.pool.Spec.TemplateRef.Name)
	}
	return reasonPending, fmt.Sprintf("waiting for a warm sandbox of pool %q; one is starting", pool)
}

// with adds the Ready condition of a claim.
func (l claims) with(c *ext.SandboxClaim, want ext.SandboxClaimStatus, ready metav1.Condition) ext.SandboxClaimStatus {
	ready.ObservedGeneration = c.Generation
	now := metav1.NewTime(l.now().Truncate(time.Second))
	want.Conditions = append(want.Conditions, since(c.Status.Conditions, ready, now))
	return want
}
