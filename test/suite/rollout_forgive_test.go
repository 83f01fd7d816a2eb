package suite

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
)

// A loss is a free member that a claim took, or whose pod died.
type loss struct {
	known int64 // the moment at which the controller surely knew of it
}

// never is the moment of what was never answered.
const never = math.MaxInt64

// heard is the moment at which the controller surely knew what a change says: its
// own write that says the same, or that follows from it, was answered.
func (j *rolloutJudge) heard(c kit.Change) int64 {
	switch o := c.Object.(type) {
	case *agents.Sandbox:
		return j.answered("sandbox", "adopt", func(w kit.Write) bool { return w.UID == o.UID })
	case *corev1.Pod:
		if !c.Gone {
			return j.answered("pod", "warming", func(w kit.Write) bool { return w.UID == o.UID })
		}
		life := 0 // it knew of the death when it had made the next pod
		return j.answered("pod", "create", func(w kit.Write) bool {
			if w.Name == o.Name {
				life++
			}
			return w.Name == o.Name && life > j.lives[o.Name]
		})
	}
	return never
}

// answered is the moment at which the first such write was answered well.
func (j *rolloutJudge) answered(kind, verb string, such func(kit.Write) bool) int64 {
	for _, w := range j.writes {
		if w.Is(kind, verb) && went(w) && such(w) {
			return w.Ended
		}
	}
	return never
}

func went(w kit.Write) bool { return w.Code/100 == 2 }

// forgive tells of how many losses the controller may not have known when it
// decided to give up a member, and whether it may not have known that this one
// had become ready at all.
//
// A pool is looked at anew after all that the last look led to: it gives up
// members, then makes members, then writes the pool's status, and waits for each.
// So the look at which a member was given up came after every creation and every
// status that had been answered before. Whatever the controller knew when it sent
// the last of those is known at that look, and is not forgiven.
func (j *rolloutJudge) forgive(given *agents.Sandbox) (losses int, newborn bool) {
	begun, look := int64(never), int64(0)
	for _, w := range j.writes {
		if w.Is("sandbox", "retire") && w.UID == given.UID && went(w) {
			begun = w.Begun
		}
	}
	for _, w := range j.writes {
		made := w.Is("sandbox", "create") && w.Owner != nil && w.Owner.UID == j.pool.UID
		told := w.Is("poolstatus", "report") && w.UID == j.pool.UID
		if (made || told) && w.Ended > 0 && w.Ended < begun {
			look = max(look, w.Begun)
		}
	}
	for _, l := range j.losses {
		if l.known >= look {
			losses++
		}
	}
	pod := j.pods[given.Name]
	ready := j.answered("pod", "ready", func(w kit.Write) bool { return pod != nil && w.UID == pod.UID && w.Ended > look })
	return losses, ready != never
}
