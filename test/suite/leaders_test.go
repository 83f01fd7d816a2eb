package suite

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/stage"
	"github.com/kiln-sandbox/kiln/test/world"
)

// Two controllers on the same objects, as when an election goes wrong: fifty
// claims on thirty sandboxes. In every other round some adoptions are done and
// nobody is told. KILN_ROUNDS says how many rounds; CI asks for six.
func TestTwoLeadersAtOnceGiveNoSandboxAway(t *testing.T) {
	t.Parallel()
	for i := range stage.Number("KILN_ROUNDS", 2) {
		t.Run(fmt.Sprintf("round %d", i+1), func(t *testing.T) { twoLeaders(t, i%2 == 1) })
	}
}

func twoLeaders(t *testing.T, deaf bool) {
	const size, claims = 30, 50
	w := kit.New(t)
	leaders := []*kit.Controller{w.Controller(), w.Controller()}
	w.Create(world.Template("t"), world.Pool("p", size))
	w.Await(world.Full("p", size))
	if deaf {
		for _, c := range leaders {
			for i := range 5 {
				c.Wire.Inject(kit.Fault{On: kit.On("sandbox", "adopt"), Skip: 4 * i, Do: kit.LoseAnswer})
			}
		}
	}
	var names []string
	var asked []metav1.Object
	for i := range claims {
		names = append(names, fmt.Sprintf("claim-%d", i))
		asked = append(asked, world.Claim(names[i], "p"))
	}
	w.CreateAtOnce(asked...)
	w.Await(world.Converged("p", size, names...), world.Annotated(names...))
	for _, c := range leaders {
		c.Stop()
	}
	history := adoptions(w, leaders)
	if !porcupine.CheckOperations(lock, history) {
		t.Errorf("the adoptions are not those of a lock:\n%v", history)
	}
	t.Logf("%d operations on %d sandboxes; the pool had %d members at most", len(history), len(lock.Partition(history)), w.MostMembers(w.Pool("p").UID))
}

// An op is what is done to one sandbox: adopt it for a claim, or give birth to it
// for one (cold), retire it, or look whose it is in the end.
type op struct{ verb, sandbox, claim string }

// An outcome is what came of it.
type outcome int

const (
	refused outcome = iota
	done
	unknown // nobody was told
)

// A held is the state of a sandbox as a lock.
type held struct {
	claim   string
	retired bool
}

// lock is the model: the first adoption that is done has the sandbox for good,
// and one that was retired is nobody's any more. A write may be refused at any
// time, for the guard is on more than the owner.
var lock = (&porcupine.NondeterministicModel{
	Partition: bySandbox,
	Init:      func() []any { return []any{held{}} },
	Step: func(state, input, output any) []any {
		s, in, out := state.(held), input.(op), output.(outcome)
		if in.verb == "look" {
			if s.claim == in.claim {
				return []any{s}
			}
			return nil
		}
		var next []any
		if out != done {
			next = append(next, s)
		}
		if out == refused {
			return next
		}
		switch {
		case in.verb == "retire":
			next = append(next, held{s.claim, true})
		case s == held{}:
			next = append(next, held{claim: in.claim})
		}
		return next
	},
}).ToModel()

func bySandbox(history []porcupine.Operation) (parts [][]porcupine.Operation) {
	at := map[string]int{}
	for _, o := range history {
		name := o.Input.(op).sandbox
		if _, ok := at[name]; !ok {
			at[name] = len(parts)
			parts = append(parts, nil)
		}
		parts[at[name]] = append(parts[at[name]], o)
	}
	return parts
}

// adoptions are what the leaders did to sandboxes, and whose each was in the end.
func adoptions(w *kit.World, leaders []*kit.Controller) (history []porcupine.Operation) {
	var last int64
	for i, c := range leaders {
		for _, one := range c.Wire.Writes() {
			last = max(last, one.Ended)
			if one.Kind == "sandbox" && slices.Contains([]string{"adopt", "cold", "retire"}, one.Verb) {
				history = append(history, operation(i, one))
			}
		}
	}
	whose := map[string]string{}
	for _, c := range w.History() {
		if s, ok := c.Object.(*agents.Sandbox); ok {
			whose[s.Name] = ""
			if owner := metav1.GetControllerOf(s); owner != nil && owner.Kind == "SandboxClaim" {
				whose[s.Name] = string(owner.UID)
			}
		}
	}
	touched := bySandbox(history)
	for _, part := range touched {
		name := part[0].Input.(op).sandbox
		history = append(history, porcupine.Operation{
			ClientId: len(leaders), Input: op{"look", name, whose[name]}, Output: done, Call: last + 1, Return: last + 2,
		})
		last += 2
	}
	return history
}

func operation(client int, one kit.Write) porcupine.Operation {
	o := porcupine.Operation{ClientId: client, Input: op{one.Verb, one.Name, one.Claim()}, Call: one.Begun, Return: one.Ended}
	switch {
	case one.Code == http.StatusOK || one.Code == http.StatusCreated:
		o.Output = done
	case one.Code == 0 && one.Sent:
		o.Output = unknown
	default:
		o.Output = refused
	}
	return o
}

func TestTheCheckerOfAdoptionsCanFail(t *testing.T) {
	a, b := op{"adopt", "s", "a"}, op{"adopt", "s", "b"}
	retire, lookA, lookB := op{"retire", "s", ""}, op{"look", "s", "a"}, op{"look", "s", "b"}
	then := func(call int64, input op, output outcome) porcupine.Operation {
		return porcupine.Operation{Input: input, Output: output, Call: call, Return: call + 1}
	}
	beside := func(o porcupine.Operation) porcupine.Operation {
		o.ClientId, o.Call, o.Return = 1, o.Call-1, o.Return+1
		return o
	}
	for _, row := range []struct {
		name    string
		history []porcupine.Operation
		fine    bool
	}{
		{"one wins and the other is refused", []porcupine.Operation{then(1, a, done), then(3, b, refused), then(5, lookA, done)}, true},
		{"two win", []porcupine.Operation{then(1, a, done), then(3, b, done)}, false},
		{"two win at the same time", []porcupine.Operation{then(2, a, done), beside(then(2, b, done))}, false},
		{"one wins and the other has it", []porcupine.Operation{then(1, a, done), then(3, b, refused), then(5, lookB, done)}, false},
		{"one wins what was retired", []porcupine.Operation{then(1, retire, done), then(3, a, done)}, false},
		{"one is not told and has it", []porcupine.Operation{then(1, a, unknown), then(3, b, refused), then(5, lookA, done)}, true},
		{"one is not told, has it not, and the other has it", []porcupine.Operation{then(1, a, unknown), then(3, b, done), then(5, lookB, done)}, true},
		{"one is not told and both have it", []porcupine.Operation{then(1, a, unknown), then(3, b, done), then(5, lookA, done)}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := porcupine.CheckOperations(lock, row.history); got != row.fine {
				t.Errorf("the checker says %t", got)
			}
		})
	}
}
