package suite

import (
	"testing"

	"github.com/kiln-sandbox/kiln/test/kit"
)

func TestAPoolWhoseTemplateCannotBeReadSaysSoForgetsNothingAndGoesOnLater(t *testing.T) {
	w, c := started(t, 2)
	w.Await(kit.Counted("p", 2))
	was := w.Pool("p").Status
	c.Valves.Shut("sandboxtemplates")
	c.Valves.Fail("sandboxtemplates", true)
	w.Create(kit.Template("u"))
	w.Repool("p", `{"replicas":3,"sandboxTemplateRef":{"name":"u"}}`)
	for _, kind := range []string{"Degraded", "Progressing", "Ready"} {
		w.Await(poolSays("p", kind, "TemplateUnreadable", `SandboxTemplate "u" cannot be read, and nothing is created meanwhile: a fault of the test`))
	}
	if is := w.Pool("p").Status; is.CurrentRevision != was.CurrentRevision || is.UpdatedReplicas != 2 || is.UpdatedReadyReplicas != 2 ||
		is.ObservedGeneration != was.ObservedGeneration {
		t.Errorf("nothing is known of the template, and the status changed from %+v to %+v", was, is)
	}
	w.Scale("p", 1)
	w.Await(counted("p", 1, 1)) // what needs no template is done
	if is := w.Pool("p").Status; is.UpdatedReplicas != 1 || is.UpdatedReadyReplicas != 1 {
		t.Errorf("more are called current than there are: %+v", is)
	}
	w.Scale("p", 3)
	w.Await(poolSays("p", "Ready", "TemplateUnreadable", "a fault of the test"))
	if n := c.Wire.Count("sandbox", "create"); n != 2 {
		t.Errorf("%d sandboxes were made, and the template of the last ones is not known", n)
	}
	c.Valves.Fail("sandboxtemplates", false)
	w.Scale("p", 2) // or it would wait for the back-off
	w.Await(kit.Full("p", 2), poolSays("p", "Degraded", "AsExpected", ""), kit.Follows("p", w.Revision("u")))
	c.Valves.Open()
	w.Await(kit.Right("p", 2))
}
