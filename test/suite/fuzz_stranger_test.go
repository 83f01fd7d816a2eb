package suite

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A stranger in a namespace of its own makes and changes everything there. In
// somebody else's it makes pods and claims, and no more.

// trick is the next thing that a stranger does.
func (f *fuzz) trick(w *kit.World) {
	guest := w == f.a
	switch n := f.rnd.IntN(20); {
	case n < 9:
		f.posePod(w)
	case n < 11:
		f.poseClaim(w)
	case guest:
		f.usurp()
	case n < 14:
		f.poseSandbox(w)
	case n < 15:
		f.posePool(w)
	case n < 18:
		f.flip(w)
	default:
		f.strike(w)
	}
}

// target is an object of a that a stranger has heard of, or of its own namespace.
func (f *fuzz) target(kinds ...string) metav1.Object {
	from := f.a
	if f.rnd.IntN(4) == 0 {
		from = f.b
	}
	var all []metav1.Object
	from.Recorder.Look(func(s *world.Snapshot) { all = s.All(kinds[f.rnd.IntN(len(kinds))]) })
	return pick(f, byName(all))
}

// pick is a random one of several, the same for a seed and a state of things.
func pick[T metav1.Object](f *fuzz, of []T) (one T) {
	if len(of) == 0 {
		return one
	}
	return of[f.rnd.IntN(len(of))]
}

func (f *fuzz) name() string {
	f.made++
	return fmt.Sprintf("%s%d-%d", stranged, f.seed, f.made)
}

// dress gives an object random marks: an owner, labels, annotations, a finalizer.
func (f *fuzz) dress(o, owner metav1.Object) {
	if owner != nil && f.rnd.IntN(5) > 0 {
		controlledBy(o, owner)
	}
	labels, annotations := map[string]string{}, map[string]string{}
	if owner != nil {
		labels[apply.LabelNameHash] = apply.Hash(owner.GetName())
	}
	for _, key := range ours {
		if f.rnd.IntN(3) == 0 {
			labels[key] = f.value(key)
		}
	}
	for _, key := range []string{apply.AnnotationPoolUID, apply.AnnotationPodName, apply.AnnotationSandboxName, apply.AnnotationTemplate} {
		if f.rnd.IntN(2) == 0 {
			annotations[key] = f.value(key)
		}
	}
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	if f.rnd.IntN(3) == 0 {
		o.SetFinalizers([]string{keep})
	}
}

// value is something that a mark may say, true of an object of a or of nothing.
func (f *fuzz) value(key string) string {
	uid, name := "nobody", "nothing"
	of := map[string]string{apply.LabelClaimUID: "claim", apply.AnnotationPoolUID: "pool", apply.LabelPool: "pool"}[key]
	if of == "" {
		of = "sandbox"
	}
	if o := f.target(of); o != nil {
		uid, name = string(o.GetUID()), o.GetName()
	}
	switch key {
	case apply.LabelState:
		return []string{"warming", "ready", "binding", "bound", "stale", "nonsense"}[f.rnd.IntN(6)]
	case apply.LabelNameHash, apply.LabelPool:
		return apply.Hash(name)
	case apply.LabelTemplate:
		return apply.Hash("t")
	case apply.LabelClaimUID, apply.AnnotationPoolUID:
		return uid
	case apply.LabelLaunch:
		return []string{apply.LaunchWarm, apply.LaunchCold}[f.rnd.IntN(2)]
	case apply.AnnotationPodName, apply.AnnotationSandboxName:
		return name
	}
	return "true"
}

func (f *fuzz) where(w *kit.World) string {
	if w == f.a {
		return "a"
	}
	return "b"
}

// posePod makes a pod that says that it belongs to a sandbox, or to whatever else.
func (f *fuzz) posePod(w *kit.World) {
	owner := f.target("sandbox", "sandbox", "sandbox", "claim", "pool")
	p := world.Pod(f.name())
	f.dress(p, owner)
	if p.Labels[apply.LabelState] == "" && owner != nil {
		p.Labels[apply.LabelState] = "warming"
	}
	made, err := w.Pods().Create(w.Context(), p, metav1.CreateOptions{FieldManager: "stranger"})
	f.note(err, "%s: pod %s posing as %s", f.where(w), p.Name, marksOf(p))
	if err == nil {
		w.Await(world.Seen(made))
	}
}

// usurp makes a pod in a that says that it is the one of a sandbox whose own pod goes.
func (f *fuzz) usurp() {
	s := pick(f, f.all(f.a, func(o metav1.Object) bool { return world.KindOf(o) == "sandbox" && o.GetDeletionTimestamp() == nil }))
	if s == nil {
		return
	}
	p := posing(f.name(), s)
	made, err := f.a.Pods().Create(f.a.Context(), p, metav1.CreateOptions{FieldManager: "stranger"})
	f.note(err, "a: pod %s in the place of the pod of sandbox %s, which goes", p.Name, s.GetName())
	if err == nil {
		f.a.Await(world.Seen(made), world.Either(isUp(p.Name), world.Deleted(made)))
		f.a.Delete(f.a.Pods(), s.GetName())
	}
}

// poseSandbox makes a sandbox that says that it is a pool's, or a claim's.
func (f *fuzz) poseSandbox(w *kit.World) {
	s := world.Sandbox(f.name())
	f.dress(s, f.target("claim", "claim", "pool", "sandbox"))
	made, err := w.Sandboxes().Create(w.Context(), s, metav1.CreateOptions{FieldManager: "stranger"})
	f.note(err, "%s: sandbox %s posing as %s", f.where(w), s.Name, marksOf(s))
	if err == nil {
		w.Await(world.Seen(made))
	}
}

// poseClaim makes a claim on a pool of the same name in a, with marks that are not
// its to have.
func (f *fuzz) poseClaim(w *kit.World) {
	c := world.Claim(f.name(), "p0")
	f.dress(c, f.target("claim", "pool"))
	if f.rnd.IntN(2) == 0 {
		world.WithLabel(apply.LabelState, "ready")(c)
		world.WithLabel(apply.LabelNameHash, f.value(apply.LabelNameHash))(c)
	}
	if f.rnd.IntN(3) == 0 {
		c.Spec.Env = []ext.EnvVar{{Name: "A", Value: "b"}}
	}
	made, err := w.Claims().Create(w.Context(), c, metav1.CreateOptions{FieldManager: "stranger"})
	f.note(err, "%s: claim %s posing as %s", f.where(w), c.Name, marksOf(c))
	if err == nil {
		w.Await(world.Seen(made))
	}
}

// posePool makes a pool that says that it belongs to something of a.
func (f *fuzz) posePool(w *kit.World) {
	p := world.Pool(f.name(), f.rnd.Int32N(2))
	f.dress(p, f.target("pool", "sandbox"))
	made, err := w.Pools().Create(w.Context(), p, metav1.CreateOptions{FieldManager: "stranger"})
	f.note(err, "%s: pool %s posing as %s", f.where(w), p.Name, marksOf(p))
	if err == nil {
		w.Await(world.Seen(made))
	}
}

// flip changes a mark of an object by hand.
func (f *fuzz) flip(w *kit.World) {
	kind := []string{"pod", "sandbox", "claim", "pool"}[f.rnd.IntN(4)]
	key := ours[f.rnd.IntN(len(ours))]
	o := pick(f, f.all(w, func(o metav1.Object) bool { return world.KindOf(o) == kind }))
	if o == nil {
		return
	}
	to := f.value(key)
	err := f.patch(w, o, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, to))
	f.note(err, "%s: %s %s gets %s=%s", f.where(w), kind, o.GetName(), key, to)
}

// strike deletes something.
func (f *fuzz) strike(w *kit.World) {
	o := pick(f, f.all(w, func(o metav1.Object) bool {
		return world.KindOf(o) != "template" && !strings.HasPrefix(o.GetName(), "settled")
	}))
	if o == nil {
		return
	}
	f.remove(w, o)
	f.note(nil, "%s: %s %s deleted", f.where(w), world.KindOf(o), o.GetName())
}

// marksOf are an object's, in a line.
func marksOf(o metav1.Object) string {
	owner := "nobody's"
	if ref := metav1.GetControllerOf(o); ref != nil {
		owner = ref.Kind + " " + ref.Name + "'s"
	}
	return fmt.Sprintf("%s %v %v %v", owner, o.GetLabels(), o.GetAnnotations(), o.GetFinalizers())
}

// ipsOf are the addresses that an object gives as its own.
func ipsOf(o metav1.Object) (ips []string) {
	switch o := o.(type) {
	case *corev1.Pod:
		for _, ip := range o.Status.PodIPs {
			ips = append(ips, ip.IP)
		}
	case *agents.Sandbox:
		return o.Status.PodIPs
	case *ext.SandboxClaim:
		return o.Status.SandboxStatus.PodIPs
	}
	return ips
}
