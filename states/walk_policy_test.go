package states

import (
	"fmt"
	"testing"
)

// A walk through the lives of one template, its policy and one sandbox made from it,
// driving the real decisions. The leader's view of each is brought up to date when
// the watch pleases; what it writes itself it sees at once, unless the answer is lost.

// What the template is: none, managed with one of two sets of rules, or unmanaged.
const (
	noTemplate = iota
	rulesOne
	rulesTwo
	wantsNone
)

// What has the name of its policy: nothing, ours with one of the two sets of rules, or
// somebody else's.
const (
	noPolicy = iota
	oursOne
	oursTwo
	theirs
)

// A house is what there is of the three: the sandbox remembers whether it was promised
// a policy, and its pod may outlive it. life counts the templates of the name, and the
// policy says for which of them it was written.
type house struct {
	template, life         int
	policy, written        int
	sandbox, promised, pod bool
}

// A policyWorld is the truth and the leader's view of it.
type policyWorld struct {
	truth, view house
	// same: the policy that the view shows is the object that there is.
	same bool
	// doomed: another leader, which saw the template gone and nothing made from it, is
	// deleting the policy as it was then. Whoever writes it is ahead of that.
	// It has deleted one: the leader's deletion may come too late.
	doomed, other bool
	// open: the pod was made when its template wanted no policy.
	open bool
	// told is what the leader remembers to have told.
	told Reason
	// hand: somebody else has deleted a policy. users is how much users still do.
	hand  bool
	users int
}

// A policyWalk goes from a world to those that may follow, and notes what is wrong.
type policyWalk struct {
	t    *testing.T
	seen map[policyWorld]string
	todo []policyWorld
	acts map[Act]int
}

func (k *policyWalk) to(from, w policyWorld, how string) {
	if _, ok := k.seen[w]; !ok {
		k.seen[w] = k.seen[from] + "\n" + how
		k.todo = append(k.todo, w)
	}
}

func (k *policyWalk) wrong(w policyWorld, how string) {
	k.t.Errorf("%s\n%s", how, k.seen[w])
}

func (h house) managed() bool { return h.template == rulesOne || h.template == rulesTwo }
func (h house) ours() bool    { return h.policy == oursOne || h.policy == oursTwo }

// wanted is the policy that a managed template wants.
func (h house) wanted() int { return oursOne + h.template - rulesOne }

func (h house) policyView() PolicyView {
	switch {
	case h.policy == noPolicy:
		return PolicyNone
	case h.policy == theirs:
		return PolicyForeign
	case h.template != noTemplate && h.written != h.life:
		return PolicyEarlier
	case h.managed() && h.policy != h.wanted():
		return PolicyDrifted
	}
	return PolicyCurrent
}

func (w policyWorld) templateFacts() TemplateFacts {
	f := TemplateFacts{
		Gone: w.view.template == noTemplate, Labelled: true, Managed: w.view.managed(),
		Policy: w.view.policyView(), Used: w.view.sandbox || w.view.pod,
	}
	f.Told = f.Problem() == w.told
	return f
}

// write has the policy be as the leader's template wants it.
func (w *policyWorld) write() {
	w.truth.policy, w.truth.written, w.doomed = w.view.wanted(), w.view.life, false
}

// showPolicy brings the leader's view of the policy up to date.
func (w *policyWorld) showPolicy() {
	w.view.policy, w.view.written, w.same = w.truth.policy, w.truth.written, true
}

// template is a step of the template.
func (k *policyWalk) template(w policyWorld) (moved bool) {
	d, next := StepTemplate(w.templateFacts()), w
	k.acts[d.Act]++
	how := fmt.Sprintf("the leader: %s %s", d.Act, d.Reason)
	switch d.Act {
	case Create:
		if w.truth.policy == noPolicy {
			next.write()
		}
		next.showPolicy() // what has the name is read
	case Sync:
		if w.same {
			next.write()
		}
		next.showPolicy()
	case Delete:
		if next.view.template, next.view.life = w.truth.template, w.truth.life; StepTemplate(next.templateFacts()) != d {
			break // the API server was asked
		}
		if w.truth.policy == noPolicy && !w.hand && !w.other {
			k.wrong(w, "a delete is sent of a policy that does not exist")
		}
		if d.Reason == ReasonPolicyUnused && w.same && w.truth.pod {
			k.wrong(w, "the policy is deleted from over a pod that runs")
		}
		if w.same {
			next.truth.policy, next.doomed = noPolicy, false
		}
		next.showPolicy()
	case Report:
		next.told = w.templateFacts().Problem()
	default:
		if w.view.template == noTemplate { // what was told is forgotten
			next.told = ""
		}
	}
	k.to(w, next, how)
	return next != w
}

// sandbox is a step of the sandbox: it may make its pod.
func (k *policyWalk) sandbox(w policyWorld) (moved bool) {
	if !w.view.sandbox || w.view.pod || !w.truth.sandbox {
		return false
	}
	protection := ProtectionFacts{
		Shown: w.view.template != noTemplate, Managed: w.view.managed(), Promised: w.view.promised,
		Refused: w.view.template != noTemplate && w.told != "", Policy: w.view.policyView(),
	}
	f := SandboxFacts{Holder: HolderPool, Unprotected: protection.Unprotected(), Readiness: ReasonPodMissing, Reported: ReasonPodMissing}
	if StepSandbox(f).Act != Create {
		return false
	}
	if w.view.promised && w.view.template != wantsNone && !w.truth.ours() && !w.hand { // also not by another leader
		k.wrong(w, "a pod is made without the policy that it was promised")
	}
	next := w
	next.truth.pod, next.view.pod, next.open = true, true, w.view.template == wantsNone
	k.to(w, next, "the leader makes the pod")
	return true
}

// leader is everything that the leader may do next.
func (k *policyWalk) leader(w policyWorld) (moved bool) {
	moved = k.template(w)
	moved = k.sandbox(w) || moved
	for _, watch := range []struct {
		name string
		do   func(*policyWorld)
	}{
		{"templates", func(w *policyWorld) { w.view.template, w.view.life = w.truth.template, w.truth.life }},
		{"policies", (*policyWorld).showPolicy},
		{"sandboxes", func(w *policyWorld) { w.view.sandbox, w.view.promised = w.truth.sandbox, w.truth.promised }},
		{"pods", func(w *policyWorld) { w.view.pod = w.truth.pod }},
	} {
		next := w
		if watch.do(&next); next != w {
			k.to(w, next, "the watch of "+watch.name)
			moved = true
		}
	}
	if w.truth.pod && !w.truth.sandbox { // the garbage collector
		next := w
		next.truth.pod = false
		k.to(w, next, "the pod is collected")
		moved = true
	}
	return moved
}

// makes is the creation of a sandbox from the template that the view shows. The answer
// may be lost.
func (k *policyWalk) makes(w policyWorld) {
	if (w.doomed || w.other) && w.truth.template == noTemplate {
		return // see other
	}
	if w.view.template == noTemplate || w.truth.sandbox || w.view.sandbox || w.truth.pod || w.view.pod {
		return
	}
	next := w
	next.truth.sandbox, next.truth.promised = true, w.view.managed()
	k.to(w, next, "a sandbox is made, and the answer is lost")
	next.view.sandbox, next.view.promised = true, next.truth.promised
	k.to(w, next, "a sandbox is made")
}

// user is everything that others may do next.
func (k *policyWalk) user(w policyWorld) {
	if w.users == 0 {
		return
	}
	does := func(how string, change func(*policyWorld)) {
		next := w
		next.users--
		change(&next)
		if next.truth != w.truth || next.told != w.told {
			k.to(w, next, how)
		}
	}
	for template := noTemplate; template <= wantsNone; template++ {
		does(fmt.Sprintf("a user makes the template %d", template), func(w *policyWorld) {
			if (w.doomed || w.other) && template == noTemplate {
				return // see other
			}
			if w.truth.template == noTemplate && template != noTemplate {
				w.truth.life++
			}
			w.truth.template = template
		})
	}
	does("a user deletes the sandbox", func(w *policyWorld) { w.truth.sandbox, w.truth.promised = false, false })
	does("a hand changes the policy", func(w *policyWorld) {
		if w.truth.ours() {
			w.truth.policy, w.doomed = oursOne+oursTwo-w.truth.policy, false
		}
	})
	does("a hand deletes the policy", func(w *policyWorld) {
		w.hand = w.hand || w.truth.policy != noPolicy
		w.truth.policy, w.same, w.doomed = noPolicy, false, false
	})
	if w.truth.policy == noPolicy {
		does("a user takes the policy's name", func(w *policyWorld) { w.truth.policy, w.same = theirs, false })
	}
	does("the leader forgets what it told", func(w *policyWorld) { w.told = "" })
	k.makes(w)
	k.other(w)
}

// other is what another leader does, which still believes that it is the one. What this
// one makes from a template that it does not know to be gone, that one cannot know of: it
// is left out that this one's watch lags for longer than that one takes to ask the API
// server for the template and to delete its policy, and that meanwhile another template
// of the name comes and goes.
func (k *policyWalk) other(w policyWorld) {
	idle := w.truth.template == noTemplate && !w.truth.sandbox && !w.truth.pod && w.view.template == noTemplate
	if idle && w.truth.ours() && !w.doomed {
		next := w
		next.doomed = true
		k.to(w, next, "another leader decides to delete the policy")
	}
	if w.doomed {
		next := w
		next.truth.policy, next.same, next.doomed, next.other = noPolicy, false, false, true
		if w.truth.pod && w.truth.promised && !w.open && w.truth.template != wantsNone {
			k.wrong(w, "another leader deletes the policy from over a pod that runs")
		}
		k.to(w, next, "another leader has deleted the policy")
	}
}

// atRest says what is wrong with a world in which nobody has anything to do.
func atRest(w policyWorld) string {
	h := w.truth
	protected := h.ours() || h.template == wantsNone || h.template == noTemplate && !h.promised
	switch {
	case h.managed() && h.policy != h.wanted() && h.policy != theirs:
		return "the template has not the policy that it wants"
	case h.managed() && h.policy == theirs && w.told != ReasonPolicyForeign:
		return "nobody was told whose the policy is"
	case h.policy != theirs && w.told != "":
		return "a problem is told that there is not"
	case h.template == wantsNone && h.ours():
		return "the template has a policy, and wants none"
	case h.template == noTemplate && h.ours() && !h.sandbox && !h.pod:
		return "the policy of nothing stays for ever"
	case h.sandbox && !h.pod && protected:
		return "a pod that would be protected is never made"
	}
	return ""
}

func TestAPolicyIsThereBeforeThePodAndAfterTheTemplateWhateverHappens(t *testing.T) {
	k := &policyWalk{t: t, seen: map[policyWorld]string{}, acts: map[Act]int{}}
	start := policyWorld{users: 6, same: true}
	k.seen[start] = "nothing is there"
	k.todo = []policyWorld{start}
	for len(k.todo) > 0 && !t.Failed() {
		w := k.todo[0]
		k.todo = k.todo[1:]
		if moved := k.leader(w); !moved {
			if why := atRest(w); why != "" {
				k.wrong(w, why)
			}
		}
		k.user(w)
	}
	t.Logf("%d worlds; %v", len(k.seen), k.acts)
	for _, act := range []Act{Create, Sync, Delete, Report, Rest} {
		if k.acts[act] == 0 {
			t.Errorf("the walk never came to %s", act)
		}
	}
}
