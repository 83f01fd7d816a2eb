package apply

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// Labels and annotations of a pod come from the pod template of its sandbox, where
// those of a claim are too, and from what it is to Kiln. A pod is born with the
// template's and with those that find it: kiln-pod writes them, once. From then on
// kiln-state keeps them in line. It leaves out what still is as kiln-pod wrote it,
// because two managers never own the same field. What is to change it writes, which
// takes the key over; from then on it writes that key with everything else it writes,
// and the annotation restated-keys on the pod says so. A key that the template does
// not name any more is taken over first, with another value, and left out then: a
// manager can only remove what is its alone.

// keysOf is what the metadata of one kind, labels or annotations, should be.
type keysOf struct {
	// born are those that a pod is born with, and live those that it has.
	born, live map[string]string
	// from are the keys among them that a user has chosen, on this pod so far.
	from []string
	// more are those that only kiln-state ever writes: its own.
	more map[string]string
	// users are the keys in born that a user has chosen.
	users []string
}

// MostSyncs is how many writes it takes at most to bring a pod's metadata in line:
// what is removed is taken over first, and so is the list of it.
const MostSyncs = 3

// takenOver is the value of a key that is about to be removed.
const takenOver = "removed"

// restate returns what kiln-state has to write of the metadata of one kind. Its keys
// are those that it has taken over, and propagated those that came from users.
func (k keysOf) restate(restated []string) (write map[string]string, keys, propagated []string) {
	write, propagated = map[string]string{}, slices.Clone(k.users)
	for key, value := range k.born {
		if is, has := k.live[key]; !has || is != value || slices.Contains(restated, key) {
			write[key], keys = value, append(keys, key)
		}
	}
	maps.Copy(write, k.more)
	for _, key := range k.from {
		_, stays := k.born[key]
		_, added := k.more[key]
		_, has := k.live[key]
		if !stays && !added && has && !slices.Contains(restated, key) {
			write[key], keys, propagated = takenOver, append(keys, key), append(propagated, key)
		}
	}
	slices.Sort(keys)
	slices.Sort(propagated)
	return write, keys, slices.Compact(propagated)
}

// podLabels are the labels that a pod of a sandbox is born with.
func podLabels(s *agents.Sandbox) map[string]string {
	labels := unreserved(s.Spec.PodTemplate.ObjectMeta.Labels)
	labels[LabelNameHash] = Hash(s.Name)
	owner := OwnerOf(s).Kind
	// The blueprint says it, as the label on the sandbox does: one that a hand changes
	// there does not take the pod out of its network policy.
	if template, ok := s.Spec.PodTemplate.ObjectMeta.Labels[LabelTemplate]; ok && (owner == states.OwnerPool || owner == states.OwnerClaim) {
		labels[LabelTemplate] = template
	}
	return labels
}

// podAnnotations are the annotations that a pod of a sandbox is born with, but for
// the one that says whose member it is.
func podAnnotations(s *agents.Sandbox) map[string]string {
	meta := s.Spec.PodTemplate.ObjectMeta
	annotations := unreserved(meta.Annotations)
	list(annotations, AnnotationLabels, slices.Sorted(maps.Keys(unreserved(meta.Labels))))
	list(annotations, AnnotationAnnotations, slices.Sorted(maps.Keys(unreserved(meta.Annotations))))
	return annotations
}

// list writes a list of keys as an annotation, if there is one to write.
func list(annotations map[string]string, key string, keys []string) {
	if len(keys) > 0 {
		annotations[key] = strings.Join(keys, ",")
	}
}

// listed reads such an annotation.
func listed(pod *corev1.Pod, key string) []string {
	return split(pod.Annotations[key])
}

// split reads the value of one.
func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// unreserved is the part of a user's labels or annotations that reaches pods.
func unreserved(all map[string]string) map[string]string {
	kept := maps.Clone(all)
	if kept == nil {
		kept = map[string]string{}
	}
	maps.DeleteFunc(kept, func(k, _ string) bool { return reserved(k) })
	return kept
}

// A podMetadata is all that kiln-state writes of a pod.
type podMetadata struct{ labels, annotations map[string]string }

// metadata is what kiln-state has to write of a pod in a state. It does not depend
// on the state that the pod comes from: what the new one does not name is removed
// with the move.
func (a *Applier) metadata(m PodMove, to states.State) podMetadata {
	ours := a.stateMetadata(m, to)
	restated := listed(m.Pod, annotationRestated)
	l := keysOf{born: podLabels(m.Sandbox), live: m.Pod.Labels, from: listed(m.Pod, AnnotationLabels), more: ours.labels}
	n := keysOf{born: podAnnotations(m.Sandbox), live: m.Pod.Annotations, from: listed(m.Pod, AnnotationAnnotations), more: ours.annotations}
	template := m.Sandbox.Spec.PodTemplate.ObjectMeta
	l.users = slices.Collect(maps.Keys(unreserved(template.Labels)))
	n.users = slices.Collect(maps.Keys(unreserved(template.Annotations)))
	if m.Seize {
		l.from = append(l.from, stateLabels...)
	}
	labels, labelKeys, propagatedLabels := l.restate(prefixed(restated, "label:"))
	delete(n.born, AnnotationLabels)
	delete(n.born, AnnotationAnnotations)
	annotations, annotationKeys, propagatedAnnotations := n.restate(prefixed(restated, "annotation:"))
	lists := map[string]string{}
	list(lists, AnnotationLabels, propagatedLabels)
	list(lists, AnnotationAnnotations, propagatedAnnotations)
	written, listKeys, _ := keysOf{
		born: lists, live: m.Pod.Annotations, from: []string{AnnotationLabels, AnnotationAnnotations},
	}.restate(prefixed(restated, "annotation:"))
	maps.Copy(annotations, written)
	annotationKeys = append(annotationKeys, listKeys...)
	slices.Sort(annotationKeys)
	list(annotations, annotationRestated, append(prefix(annotationKeys, "annotation:"), prefix(labelKeys, "label:")...))
	return podMetadata{labels, annotations}
}

func prefix(keys []string, with string) (all []string) {
	for _, k := range keys {
		all = append(all, with+k)
	}
	return all
}

func prefixed(keys []string, with string) (all []string) {
	for _, k := range keys {
		if k, ok := strings.CutPrefix(k, with); ok {
			all = append(all, k)
		}
	}
	return all
}

// stateLabels are the labels that only kiln-state puts on pods, the state apart. One
// that a pod is not to have in its state goes with the next write, unless somebody else
// has put it there: then it is seized first.
var stateLabels = []string{LabelClaimUID, LabelPool, LabelCreatedBy}

// stateMetadata is what goes with a state, users' keys apart.
func (a *Applier) stateMetadata(m PodMove, to states.State) podMetadata {
	labels, annotations := map[string]string{LabelState: string(to)}, map[string]string{}
	if by := createdBy(m.Sandbox); by != "" {
		labels[LabelCreatedBy] = Creator(by)
	}
	switch to {
	case states.Warming, states.Ready:
		if OwnerOf(m.Sandbox).Kind != states.OwnerPool {
			break // an adopted one that lost its state on the way
		}
		labels[LabelPool] = m.Sandbox.Labels[LabelPool]
		if _, own := m.Sandbox.Spec.PodTemplate.ObjectMeta.Annotations[AnnotationSafeToEvict]; a.opts.SafeToEvict && !own {
			annotations[AnnotationSafeToEvict] = "true"
		}
	case states.Binding, states.Stale: // a stale one that was a claim's still says so: it is no pool's
		maps.Copy(labels, only(m.Sandbox.Labels, []string{LabelClaimUID}))
	case states.Bound:
		if m.Claim != nil {
			labels[LabelClaimUID] = string(m.Claim.UID)
		}
	}
	return podMetadata{labels, annotations}
}

// createdBy is who has made a sandbox, in their own words.
func createdBy(s *agents.Sandbox) string {
	if by, ok := s.Labels[LabelCreatedBy]; ok {
		return by
	}
	return s.Spec.PodTemplate.ObjectMeta.Labels[LabelCreatedBy]
}

// Drifted reports whether the metadata of a pod that stays in a state is not what it
// should be. What a state brings with it comes with the move: a pod that is starting
// was never moved, and so lacks nothing of that.
func (a *Applier) Drifted(m PodMove, is states.State) bool {
	want := a.metadata(m, is)
	restated := listed(m.Pod, annotationRestated)
	ours := slices.Concat(prefixed(restated, "label:"), stateLabels)
	if is == states.Warming {
		for k := range a.stateMetadata(m, is).labels {
			delete(want.labels, k)
		}
		delete(want.annotations, AnnotationSafeToEvict)
		ours = prefixed(restated, "label:")
	}
	return lacks(m.Pod.Labels, want.labels) || lacks(m.Pod.Annotations, want.annotations) ||
		keeps(m.Pod.Labels, want.labels, ours) ||
		keeps(m.Pod.Annotations, want.annotations, prefixed(restated, "annotation:"))
}

// lacks reports whether something is missing or different.
func lacks(is, want map[string]string) bool {
	for k, v := range want {
		if got, has := is[k]; !has || got != v {
			return true
		}
	}
	return false
}

// keeps reports whether one of the keys is there that should not be any more.
func keeps(is, want map[string]string, keys []string) bool {
	return slices.ContainsFunc(keys, func(k string) bool {
		_, has := is[k]
		_, stays := want[k]
		return has && !stays
	})
}

// mend reports whether what an object has differs from what it should have, where some
// keys are all ours. One that should not be there goes with a write that leaves it out,
// unless somebody else has put it there: that is seized first, and so is to be written.
func mend(want, has map[string]string, ours []string, seize bool) (differs bool) {
	differs = lacks(has, want) || keeps(has, want, ours)
	for _, k := range ours {
		is, ok := has[k]
		if _, wanted := want[k]; seize && ok && !wanted && is != takenOver && reserved(k) {
			want[k] = takenOver
		}
	}
	return differs
}
