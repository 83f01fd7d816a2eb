package suite

import (
	"fmt"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/stage"
	"github.com/kiln-sandbox/kiln/test/world"
)

// Whatever the process remembers ends with what it is about. Pools come and go, a few
// side by side, each with its template and its claims: some warm, some cold, some that
// end while they wait. KILN_SOAK_POOLS and KILN_SOAK_CLAIMS, of each pool, make it a long
// run; 1000 and 100 are a hundred thousand claims.
func TestNothingIsRememberedOfWhatHasCome(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	pools, claims := stage.Number("KILN_SOAK_POOLS", 4), stage.Number("KILN_SOAK_CLAIMS", 8)
	abreast := max(2, min(pools/20, 10))
	begun := uint64(0)
	for i := 0; i < pools; i += abreast {
		lives(w, i, min(abreast, pools-i), claims)
		w.Await(c.Settled())
		w.Forget()
		if begun == 0 && i >= pools/10 { // what grows once has grown
			begun = heap()
		}
	}
	NewWithT(t).Eventually(c.Product.Sizes).Should(HaveEach(0))
	ended := heap()
	t.Logf("%d claims on %d pools; heap %d KiB early, %d KiB at the end; %v", pools*claims, pools, begun>>10, ended>>10, c.Product.Sizes())
	const alone = 100 // with fewer, other tests share the heap
	if pools >= alone && ended > begun+begun/2 {
		t.Errorf("the heap has grown from %d KiB to %d KiB", begun>>10, ended>>10)
	}
}

// lives are the lives of some pools, side by side from the first on.
func lives(w *kit.World, first, pools, claims int) {
	var templates, all []metav1.Object
	for i := first; i < first+pools; i++ {
		template, pool := world.Template(fmt.Sprint("t-", i)), world.Pool(fmt.Sprint("p-", i), 2)
		pool.Spec.TemplateRef.Name = template.Name
		if i%2 == 0 {
			world.Recreating(pool)
		}
		templates, all = append(templates, template), append(all, pool)
	}
	w.CreateAtOnce(templates...)
	w.CreateAtOnce(all...)
	var names []string
	claim := func(n int, kind string) (new []string) {
		var made []metav1.Object
		for _, pool := range all {
			name := fmt.Sprint(pool.GetName(), kind, n)
			made, new = append(made, world.Claim(name, pool.GetName())), append(new, name)
		}
		w.CreateAtOnce(made...)
		return new
	}
	for n := range claims {
		new := claim(n, "-c")
		if n%4 == 3 {
			w.Delete(w.Claims(), new...) // they may have been told of their sandboxes, or not
			new = claim(n, "-d")
		}
		names = append(names, new...)
	}
	for _, name := range names { // one by one first: all at once is much to look at
		w.Await(world.Bound(name))
	}
	w.Await(world.Bound(names...))
	w.Delete(w.Pools(), namesOf(all)...)
	w.Delete(w.Templates(), namesOf(templates)...)
	w.Delete(w.Claims(), names...)
	w.Await(world.Empty)
}

func namesOf(all []metav1.Object) (names []string) {
	for _, o := range all {
		names = append(names, o.GetName())
	}
	return names
}

// heap is what is in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
