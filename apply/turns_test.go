package apply

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

// answered is what the server answers: a sandbox at a version.
func answered(version string) *agents.Sandbox {
	return &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "s", ResourceVersion: version}}
}

func about(kind, name, seen string) write {
	return write{kind: kind, key: types.NamespacedName{Namespace: "ns", Name: name}, seen: seen}
}

func TestAWriteThatOneOfOursHasOutrunIsNotSent(t *testing.T) {
	for _, row := range []struct {
		name  string
		write write
		sent  bool
	}{
		{"it has seen what was before", about("sandbox", "s", "7"), false},
		{"so has one of a subresource", about("sandboxstatus", "s", "9"), false},
		{"it has seen the answer", about("sandbox", "s", "10"), true},
		{"it has seen what came later", about("sandbox", "s", "11"), true},
		{"it is guarded by nothing", about("sandbox", "s", ""), true},
		{"it is about another object", about("sandbox", "other", "7"), true},
		{"it is about an object of another kind", about("pod", "s", "7"), true},
		{"it is an Event", about("event", "s", ""), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			turns := newTurns(8)
			end, err := turns.take(t.Context(), about("sandboxstatus", "s", "7"))
			g.Expect(err).NotTo(HaveOccurred())
			end(answered("10"))
			end, err = turns.take(t.Context(), row.write)
			end(nil)
			if row.sent {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(errors.Is(err, ErrLost)).To(BeTrue(), "its step looks again")
		})
	}
}

func TestWritesToOneObjectTakeTurns(t *testing.T) {
	turns, under, most := newTurns(8), 0, 0
	var mu sync.Mutex
	var writers sync.WaitGroup
	for range 20 {
		writers.Go(func() {
			end, _ := turns.take(t.Context(), about("sandbox", "s", ""))
			mu.Lock()
			under++
			most = max(most, under)
			mu.Unlock()
			mu.Lock()
			under--
			mu.Unlock()
			end(nil)
		})
	}
	writers.Wait()
	NewWithT(t).Expect(most).To(Equal(1))
	NewWithT(t).Expect(turns.of).To(BeEmpty(), "nothing is kept of what is over")
}

func TestAWriteDoesNotWaitForOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		turns := newTurns(8)
		hangs, err := turns.take(t.Context(), about("sandbox", "s", ""))
		g.Expect(err).NotTo(HaveOccurred())
		end, err := turns.take(t.Context(), about("sandbox", "s", "7"))
		g.Expect(err).NotTo(HaveOccurred())
		end(answered("8"))
		hangs(answered("9"))
		_, err = turns.take(t.Context(), about("sandbox", "s", "8"))
		g.Expect(err).To(MatchError(ErrLost))
	})
}

func TestOnlyTheLastWritesAreRemembered(t *testing.T) {
	g := NewWithT(t)
	turns := newTurns(3)
	for i := range 10 {
		for range 2 {
			end, err := turns.take(t.Context(), about("sandbox", fmt.Sprint("s", i), ""))
			g.Expect(err).NotTo(HaveOccurred())
			end(answered(fmt.Sprint(i + 10)))
		}
	}
	g.Expect(turns.recent).To(HaveLen(3))
	g.Expect(turns.of).To(HaveLen(3), "and nothing of the others")
}
