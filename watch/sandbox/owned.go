package sandbox

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// What a sandbox owns: its pods, its claims for storage, its Service.

// pods are what a step sees of a sandbox's pods.
type pods struct {
	is states.PodView
	// pod is the one pod that the view is about; nil with PodNone and PodMultiple.
	pod   *corev1.Pod
	count int
	facts states.PodFacts
}

// volumes are what a step sees of a sandbox's claims for storage.
type volumes struct {
	upkeep states.Upkeep
	// next is the one that the upkeep is about, and problem why one can not be used.
	next    agents.PersistentVolumeClaimTemplate
	problem string
}

// service is what a step sees of a sandbox's Service.
type service struct {
	upkeep states.Upkeep
	// is the Service of the sandbox's name, if there is one; it is its own, or it is
	// in its way.
	is      *corev1.Service
	own     bool
	problem string
}

// pods looks at the pods of a sandbox. Of several none is preferred, but when the
// sandbox's time is over they all go, one after the other.
func (l *Sandboxes) pods(b *agents.Sandbox, over bool) pods {
	owned := l.Stores.Pods.By(store.ByOwner, store.ID(b))
	p := pods{count: len(owned)}
	runs := slices.IndexFunc(owned, func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil })
	switch {
	case over && runs >= 0:
		p.pod = owned[runs]
	case len(owned) > 1:
		p.is = states.PodMultiple
	case len(owned) == 1 && ownName(b, owned[0]):
		p.pod = owned[0]
	default: // what another pod says of its owner is free text
		p.pod = newest(l.Stores.Pods, view.KeyOf(b))
	}
	if p.pod != nil {
		p.is = view.Pod(p.pod, b)
		p.facts = view.PodFacts(p.pod, p.is)
	}
	p.facts.View = p.is
	return p
}

// newest is an object that the informer shows, or one that is followed; or nil.
func newest[T store.Object](of *store.Store[T], key view.Key) T {
	o, ok := of.Get(key)
	if !ok {
		o, _ = of.Beyond(key)
	}
	return o
}

// ownName reports whether a pod has the name that the pod of a sandbox has: the
// sandbox's, or the one that the sandbox itself says.
func ownName(b *agents.Sandbox, pod *corev1.Pod) bool {
	return pod.Name == b.Name || pod.Name == b.Annotations[apply.AnnotationPodName]
}

// owned gathers what a sandbox owns, and what keeps it from being made.
func (l *Sandboxes) owned(s *Snapshot) {
	f := &s.Facts
	s.service = l.service(s)
	f.Service = s.service.upkeep
	if f.Expired {
		return
	}
	s.volumes = l.volumes(s.sandbox)
	f.Volumes = s.volumes.upkeep
	s.problem = s.problems()
	f.Blocked = s.problem.Message != "" && s.problem.Message != s.service.problem
	if halted := s.refusal.words != "" || s.terminal(); halted { // nothing else is tried in this step
		f.Volumes = states.UpkeepNone
		if f.Service != states.UpkeepDelete {
			f.Service = states.UpkeepNone
		}
		return
	}
	told := f.Holder != states.HolderClaim || f.ClaimKnows
	owns := f.Pod == states.PodStarting || f.Pod == states.PodReady
	if p := s.pods.pod; p != nil {
		f.SyncDelay = states.SyncDelayOf(f.Pod, f.State, l.Now().Sub(p.CreationTimestamp.Time))
	}
	f.Drifted = l.Drifted != nil && told && owns && s.syncs < apply.MostSyncs && l.Drifted(l.move(*s, states.Decision{}), f.Stays())
}

// terminal reports whether the API server will not accept what a sandbox asks for as
// it is specified now. A pool's member is tried again all the same: nobody edits it.
func (s *Snapshot) terminal() bool {
	return view.Invalid(s.sandbox) != "" && s.Facts.Holder != states.HolderPool
}

// problems says what keeps a sandbox from being made: the first that there is.
func (s *Snapshot) problems() view.Problem {
	if s.refusal.words != "" {
		return view.Problem{Reason: s.refusal.reason, Message: s.refusal.words}
	}
	if s.pods.is == states.PodNone && !s.Facts.Suspended {
		if _, err := apply.PodSpec(s.sandbox); err != nil {
			return view.Problem{Reason: states.ReasonInvalid, Message: err.Error()}
		}
	}
	if s.volumes.upkeep == states.UpkeepCreate {
		if _, err := apply.VolumeSpec(s.volumes.next); err != nil {
			return view.Problem{Reason: states.ReasonInvalid, Message: err.Error()}
		}
	}
	if s.terminal() {
		return view.Problem{Reason: states.ReasonInvalid, Message: view.Invalid(s.sandbox)}
	}
	for _, words := range []string{s.volumes.problem, s.service.problem} {
		if words != "" {
			return view.Problem{Reason: states.ReasonPodProblem, Message: words}
		}
	}
	return view.Problem{}
}

// podFacts are what the readiness of a sandbox is decided from.
func (s *Snapshot) podFacts() states.PodFacts {
	p := s.pods.facts
	p.Problem, p.Invalid = s.problem.Message != "", s.problem.Reason == states.ReasonInvalid
	p.Suspended, p.Expired = s.Facts.Suspended, s.Facts.Expired
	p.ServiceMissing = s.needsService() && !s.service.own
	return p
}

// needsService reports whether a sandbox is not Ready without a Service.
func (s *Snapshot) needsService() bool {
	return s.sandbox.Spec.Service != nil && *s.sandbox.Spec.Service
}

// volumes looks at the claims for storage of a sandbox. One that is somebody else's
// is left alone, and so is the pod that would write into it.
func (l *Sandboxes) volumes(b *agents.Sandbox) (all volumes) {
	for _, v := range b.Spec.VolumeClaimTemplates {
		key := view.Key{Namespace: b.Namespace, Name: apply.VolumeName(b, v)}
		upkeep, problem := volume(b, key.Name, newest(l.Stores.Volumes, key))
		if all.upkeep == states.UpkeepNone && upkeep != states.UpkeepNone {
			all.upkeep, all.next = upkeep, v
		}
		if all.problem == "" {
			all.problem = problem
		}
	}
	return all
}

// volume says what is to be done about one claim for storage.
func volume(b *agents.Sandbox, name string, is *corev1.PersistentVolumeClaim) (states.Upkeep, string) {
	switch {
	case is == nil:
		return states.UpkeepCreate, ""
	case apply.ControlledBy(b.UID, is):
		return states.UpkeepNone, ""
	case apply.OwnerOf(is).Kind != states.OwnerNone:
		return states.UpkeepNone, fmt.Sprintf("PVC %q is owned by %s", name, view.OwnerName(is))
	case adoptableVolume(b, is):
		return states.UpkeepSync, ""
	}
	return states.UpkeepNone, fmt.Sprintf("cannot adopt unowned PVC %q: label it %s=true, or delete it", name, apply.LabelAdoptable)
}

// adoptableVolume reports whether storage that is nobody's may be adopted: it says
// so, or it was the sandbox's own once.
func adoptableVolume(b *agents.Sandbox, is *corev1.PersistentVolumeClaim) bool {
	was := apply.OwnerOf(is).Kind == states.OwnerNone && is.Labels[apply.LabelNameHash] == apply.Hash(b.Name)
	return is.DeletionTimestamp == nil && (apply.Adoptable(is) || was)
}

// service looks at the Service of a sandbox.
func (l *Sandboxes) service(s *Snapshot) (of service) {
	b := s.sandbox
	of.is = newest(l.Stores.Services, s.key)
	of.own = of.is != nil && apply.ControlledBy(b.UID, of.is)
	ends := of.is != nil && of.is.DeletionTimestamp != nil
	switch wanted := b.Spec.Service; {
	case s.Facts.Expired || wanted != nil && !*wanted:
		if of.own && !ends {
			of.upkeep = states.UpkeepDelete
		}
	case wanted == nil: // one that is there is kept as it is
	case of.is == nil:
		of.upkeep = states.UpkeepCreate
	case ends: // another takes its name when it is gone
	case of.own:
		if s.syncs < apply.MostSyncs && apply.ServiceDrifted(b, of.is) {
			of.upkeep = states.UpkeepSync
		}
	case apply.Adoptable(of.is) && headless(of.is):
		of.upkeep = states.UpkeepSync
	case apply.OwnerOf(of.is).Kind == states.OwnerNone:
		of.problem = fmt.Sprintf("cannot adopt unowned Service %q: make it headless and label it %s=true, or delete it", of.is.Name, apply.LabelAdoptable)
	default:
		of.problem = fmt.Sprintf("Service %q is owned by %s", of.is.Name, view.OwnerName(of.is))
	}
	of.own = of.own && !ends
	return of
}

func headless(is *corev1.Service) bool {
	return is.Spec.ClusterIP == "" || is.Spec.ClusterIP == corev1.ClusterIPNone
}

// A refusal is why something could not be written.
type refusal struct {
	reason states.Reason
	// part is what could not be.
	part  states.Part
	words string
	// retry: another try may help.
	retry bool
}
