package view

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// Replicas is how many members a pool shall have.
func Replicas(p *ext.SandboxWarmPool) int {
	if p.Spec.Replicas == nil {
		return 1
	}
	return int(*p.Spec.Replicas)
}

// lossesFree is how many losses beyond its number of members a pool is not held up
// for.
const lossesFree = 3

// LossesFree is how many members a pool may lose before the next is made more slowly.
func LossesFree(p *ext.SandboxWarmPool) int { return Replicas(p) + lossesFree }

// UpdatePolicy is what a pool's spec says about old members.
func UpdatePolicy(p *ext.SandboxWarmPool) states.UpdatePolicy {
	switch p.Spec.UpdateStrategy.Type {
	case ext.Recreate:
		return states.UpdatePolicy{Strategy: states.Recreate}
	case ext.Rolling:
		u := states.UpdatePolicy{Strategy: states.Rolling}
		if r := p.Spec.UpdateStrategy.RollingUpdate; r != nil {
			u.ClaimsTakeAny, u.Paused = r.ClaimPolicy == ext.ClaimAny, r.Paused
			u.MaxUnavailable, u.MaxSurge = share(r.MaxUnavailable), share(r.MaxSurge)
		}
		return u
	case ext.OnReplenish:
	}
	return states.UpdatePolicy{}
}

// share reads a number or a percentage. The API server lets nothing pass that is
// neither; should it, the default counts.
func share(of *intstr.IntOrString) *states.Share {
	switch {
	case of == nil:
		return nil
	case of.Type == intstr.Int:
		return &states.Share{N: of.IntValue()}
	}
	text, percent := strings.CutSuffix(of.StrVal, "%")
	n, err := strconv.Atoi(text)
	if err != nil || !percent {
		return nil
	}
	return &states.Share{N: n, Percent: true}
}

// progressDeadline is the default of a rolling update.
const progressDeadline = 600 * time.Second

// Deadline is how long a pool's rollout may go without progress.
func Deadline(p *ext.SandboxWarmPool) time.Duration {
	r := p.Spec.UpdateStrategy.RollingUpdate
	if r == nil || r.ProgressDeadlineSeconds == nil {
		return progressDeadline
	}
	return time.Duration(*r.ProgressDeadlineSeconds) * time.Second
}

// Grace is how long a pool's member may be unready: what the pool says, or otherwise.
func Grace(p *ext.SandboxWarmPool, otherwise time.Duration) time.Duration {
	if p.Spec.ReadinessGracePeriodSeconds == nil {
		return otherwise
	}
	return time.Duration(*p.Spec.ReadinessGracePeriodSeconds) * time.Second
}

// Progress is how far a pool's rollout had come when its status was written. It is
// what a new leader knows of it.
func Progress(p *ext.SandboxWarmPool) states.Progress {
	r := p.Status.Rollout
	at := states.Progress{
		Phase: states.ParsePhase(r.Phase), Revision: p.Status.CurrentRevision,
		UpdatedReady: int(p.Status.UpdatedReadyReplicas), Arrived: r.CompletedRevision,
	}
	if r.LastProgressTime != nil {
		at.Since = r.LastProgressTime.Time
	}
	return at
}
