package suite

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kiln-sandbox/kiln/test/kit"
)

// event is the next thing that happens to a rollout.
func (r *rollout) event() {
	switch n := r.rnd.IntN(22); {
	case n < 4:
		r.retemplate()
	case n < 10:
		r.made++
		r.claims = append(r.claims, fmt.Sprintf("%s-%d", r.pool, r.made))
		r.Create(kit.Claim(r.claims[len(r.claims)-1], r.pool))
	case n < 12:
		if claim := r.one(r.claims); claim != "" {
			r.drop(claim)
			r.Delete(r.Claims(), claim)
		}
	case n < 15:
		r.size = r.some(1)
		r.Scale(r.pool, r.size)
	case n < 17:
		r.paused = !r.paused
		r.Pause(r.pool, r.paused)
	case n < 19:
		if pod := r.one(r.warm()); pod != "" {
			r.Kubelet.Blink(pod, false)
		}
	case n < 21:
		if r.lingers = !r.lingers; r.lingers {
			r.Kubelet.Linger()
		} else {
			r.Kubelet.LetGo()
		}
	default:
		if pod := r.one(r.warm()); pod != "" {
			r.Delete(r.Pods(), pod)
		}
	}
}

// retemplate changes the template; now and then to one that does not work.
func (r *rollout) retemplate() {
	r.image++
	image := fmt.Sprint("image:", r.image)
	if r.rnd.IntN(5) == 0 {
		image = fmt.Sprint("spoilt:", r.image)
		r.Kubelet.Spoil(image)
	}
	r.Retemplate(r.pool, image)
}

// warm are the free members of the pool.
func (r *rollout) warm() (pods []string) {
	r.Look(func(s *kit.Sight) { pods = s.Free(r.pool) })
	return pods
}

// some is a random size up to 6, more often a small one.
func (r *rollout) some(least int32) int32 {
	return least + min(r.rnd.Int32N(7-least), r.rnd.Int32N(7-least))
}

// share is a random part of a budget: a number, or a percentage.
func (r *rollout) share() intstr.IntOrString {
	if r.rnd.IntN(2) == 0 {
		return intstr.FromInt32(r.rnd.Int32N(4))
	}
	return intstr.FromString(fmt.Sprintf("%d%%", r.rnd.IntN(101)))
}

// one is a random one of several, or nothing.
func (r *rollout) one(of []string) string {
	if len(of) == 0 {
		return ""
	}
	return of[r.rnd.IntN(len(of))]
}

func (r *rollout) drop(claim string) {
	r.claims = slices.DeleteFunc(r.claims, func(c string) bool { return c == claim })
}
