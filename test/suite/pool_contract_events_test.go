package suite

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

// about are the Events about an object, by its name.
func about(t *testing.T, w *kit.World, name string) (all []eventsv1.Event) {
	t.Helper()
	list, err := w.Admin().EventsV1().Events(w.Namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Regarding.Name == name {
			all = append(all, e)
		}
	}
	return all
}

// The flag about Events of claims says nothing about those of pools.
func TestAPoolReportsThatItHasNoRoomWhateverIsReportedOfClaims(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	var at clock
	w.Controller(at.keep, func(o *watch.Options) { o.ClaimEvents = false })
	w.Kubelet.Hold()
	w.Create(world.Template("t"), world.Pool("p", 1))
	var pod string
	w.Await(func(s *world.Snapshot) error {
		for name, p := range s.Pods {
			if pod = name; p.Spec.NodeName != "" {
				return nil
			}
		}
		return errors.New("there is no pod that has a node")
	})
	schedulerSays(t, w, &at, pod, `"status":"False","reason":"Unschedulable","message":"0/3 nodes are available"`)
	w.Await(world.PoolSays("p", "Degraded", "Unschedulable", "0/3 nodes are available"))
	schedulerSays(t, w, &at, pod, `"status":"True"`)
	w.Kubelet.Release()
	w.Await(world.PoolSays("p", "Degraded", "AsExpected", "nothing is in the way"))
	w.Create(world.Claim("a", "p"))
	w.Await(world.Converged("p", 1, "a"))
	g := NewWithT(t)
	var told []eventsv1.Event
	g.Eventually(func() int { told = about(t, w, "p"); return len(told) }).WithTimeout(patience).Should(Equal(2))
	words := map[string]string{}
	for _, e := range told {
		words[e.Type+" "+e.Reason+" "+e.Action] = e.Note
	}
	g.Expect(words).To(Equal(map[string]string{
		"Warning WarmPoolNotProgressing Reconciling": "no node has room for some members: 0/3 nodes are available",
		"Normal WarmPoolProgressing Reconciling":     "Warm pool is progressing again",
	}))
	g.Expect(about(t, w, "a")).To(BeEmpty())
}
