package suite

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
)

// A rolloutJudge walks through the life of a pool, event by event, and notes each
// that breaks its budget: a free member given up although too few would be left, a
// member made although there were too many. A member is there until the last of it
// is gone: the sandbox, and then the pod.
//
// The controller acts on what it knows. A spec counts from the moment it stands
// on the server until the pool's status says that a later one was observed: what
// comes after such a status in the one order of the server was decided with the
// later one. Between the two, either may have been acted on, and the milder one
// judges. Losses that are not the rollout's are dealt with in forgive.
type rolloutJudge struct {
	pool    *ext.SandboxWarmPool
	budget  func(*ext.SandboxWarmPool) (unavailable, surge int)
	writes  []kit.Write
	members map[types.UID]*agents.Sandbox // the pool's, those on their way out included
	former  map[types.UID]bool            // sandboxes that were the pool's to their end
	pods    map[string]*corev1.Pod
	lives   map[string]int         // how many pods have had a name
	specs   []*ext.SandboxWarmPool // those that may be acted on
	losses  []loss
	wrongs  []string
	// gaveUp and made count what was judged, strictly what was judged without
	// forgiving anything.
	gaveUp, made, strictly int
}

// judgeRollout judges the life of a pool.
func judgeRollout(history []kit.Change, writes []kit.Write, pool *ext.SandboxWarmPool, budget func(*ext.SandboxWarmPool) (int, int)) *rolloutJudge {
	j := &rolloutJudge{
		pool: pool, budget: budget, writes: writes,
		members: map[types.UID]*agents.Sandbox{}, former: map[types.UID]bool{},
		pods: map[string]*corev1.Pod{}, lives: map[string]int{},
	}
	for _, c := range history {
		free := j.free()
		switch o := c.Object.(type) {
		case *ext.SandboxWarmPool:
			j.spec(o)
		case *corev1.Pod:
			j.pod(o, c.Gone)
		case *agents.Sandbox:
			j.sandbox(o, c)
		}
		for uid, s := range free {
			if !j.isFree(j.members[uid]) {
				j.lost(c, s)
			}
		}
	}
	return j
}

func (j *rolloutJudge) spec(p *ext.SandboxWarmPool) {
	if p.UID != j.pool.UID {
		return
	}
	j.specs = append(slices.DeleteFunc(j.specs, func(old *ext.SandboxWarmPool) bool {
		return old.Generation == p.Generation || old.Generation < p.Status.ObservedGeneration
	}), p)
}

func (j *rolloutJudge) pod(p *corev1.Pod, gone bool) {
	was := j.pods[p.Name]
	j.pods[p.Name] = p
	if was == nil || was.UID != p.UID {
		j.lives[p.Name]++
		if j.left(p) { // it comes after its sandbox has gone
			j.count(kit.Change{Object: p})
		}
	}
	if gone {
		delete(j.pods, p.Name)
	}
}

func (j *rolloutJudge) sandbox(s *agents.Sandbox, c kit.Change) {
	was := j.members[s.UID]
	if by := metav1.GetControllerOf(s); by == nil || by.UID != j.pool.UID || c.Gone {
		j.former[s.UID] = was != nil && c.Gone
		delete(j.members, s.UID)
		return
	}
	j.members[s.UID] = s
	if was != nil {
		return
	}
	j.made++
	j.count(c)
}

// left reports whether a pod is all that there is of a former member.
func (j *rolloutJudge) left(p *corev1.Pod) bool {
	by := metav1.GetControllerOf(p)
	return by != nil && j.former[by.UID]
}

// count counts the members and the pods of former ones, when another is made.
func (j *rolloutJudge) count(made kit.Change) {
	going := 0
	for _, p := range j.pods {
		if j.left(p) {
			going++
		}
	}
	if most := j.most(); len(j.members)+going > most {
		j.wrong(made, "the pool has %d members, and %d pods of former ones; it may have %d", len(j.members), going, most)
	}
}

// lost notes that a member is free no more.
func (j *rolloutJudge) lost(c kit.Change, was *agents.Sandbox) {
	now, still := j.members[was.UID]
	if !still || now.Annotations[apply.NoteRetired] == "" {
		j.losses = append(j.losses, loss{known: j.heard(c)})
		return
	}
	excuses, newborn := j.forgive(was)
	if newborn {
		return
	}
	j.gaveUp++
	if excuses == 0 {
		j.strictly++
	}
	if left, least := len(j.free()), j.least(); left < least-excuses {
		j.wrong(c, "it leaves %d free, and %d is the least, of which %d may have been lost unseen", left, least, excuses)
	}
}

func (j *rolloutJudge) wrong(c kit.Change, format string, args ...any) {
	j.wrongs = append(j.wrongs, fmt.Sprintf("%s\n    %s", fmt.Sprintf(format, args...), c))
}

// free are the members that a claim may take.
func (j *rolloutJudge) free() map[types.UID]*agents.Sandbox {
	free := maps.Clone(j.members)
	maps.DeleteFunc(free, func(_ types.UID, s *agents.Sandbox) bool { return !j.isFree(s) })
	return free
}

func (j *rolloutJudge) isFree(s *agents.Sandbox) bool {
	if s == nil || s.Annotations[apply.NoteRetired] != "" {
		return false
	}
	pod := j.pods[s.Name]
	return pod != nil && metav1.IsControlledBy(pod, s) && pod.Labels[apply.LabelState] == string(states.Ready)
}
