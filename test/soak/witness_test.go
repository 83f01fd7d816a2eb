package main

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/world"
)

func sandboxOf(kind string, uid types.UID, version uint64, gap bool) world.Change {
	yes := true
	s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "s"}}
	s.OwnerReferences = []metav1.OwnerReference{{Kind: kind, UID: uid, Controller: &yes}}
	return world.Change{Object: s, Version: version, Gap: gap}
}

func deleted(c world.Change) world.Change {
	c.Deleted = true
	return c
}

func claimTold(claim types.UID, version uint64, gap bool) world.Change {
	c := &ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Name: string(claim), UID: claim}}
	c.Status.State, c.Status.SandboxStatus.Name = ext.StateBound, "s"
	c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kiln-claim", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:state":{},"f:sandbox":{"f:name":{}}}}`)}}
	return world.Change{Object: c, Version: version, Gap: gap}
}

// What a gap hid is judged as if it had gone well, and everything else as ever.
func TestAWitnessAllowsForWhatAGapHid(t *testing.T) {
	for _, row := range []struct {
		name      string
		shown     []world.Change
		violation string
	}{
		{"adopted and told in a gap, and the sandbox changed once more", []world.Change{
			sandboxOf("SandboxWarmPool", "p", 1, false), claimTold("a", 5, true), sandboxOf("SandboxClaim", "a", 7, true),
		}, ""},
		{"told, and the sandbox was adopted and deleted in a gap", []world.Change{
			sandboxOf("SandboxWarmPool", "p", 1, false), claimTold("a", 5, true), deleted(sandboxOf("SandboxWarmPool", "p", 7, true)),
		}, ""},
		{"told, and the sandbox was deleted as it was", []world.Change{
			sandboxOf("SandboxWarmPool", "p", 1, false), claimTold("a", 5, true), deleted(sandboxOf("SandboxWarmPool", "p", 7, false)),
		}, "not its own"},
		{"told in a gap of another's", []world.Change{
			sandboxOf("SandboxWarmPool", "p", 1, false), claimTold("a", 5, true), sandboxOf("SandboxClaim", "b", 7, true),
		}, "not its own"},
		{"taken from its claim in a gap", []world.Change{
			sandboxOf("SandboxWarmPool", "p", 1, false), sandboxOf("SandboxClaim", "a", 2, false), sandboxOf("SandboxClaim", "b", 7, true),
		}, "it left the claim"},
		{"told too early, without a gap", []world.Change{
			sandboxOf("SandboxWarmPool", "p", 1, false), claimTold("a", 5, false), sandboxOf("SandboxClaim", "a", 7, false),
		}, "not its own"},
	} {
		t.Run(row.name, func(t *testing.T) {
			j, err := newJournal(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			w := newWitness(j)
			for _, c := range row.shown {
				w.see(c)
			}
			w.advance(time.Now())
			found := strings.Join(w.violations(), "\n")
			if row.violation == "" && found != "" || !strings.Contains(found, row.violation) {
				t.Errorf("got %q, want %q in it", found, row.violation)
			}
		})
	}
}

// The watch of claims was quicker, and the time up to which all is judged lies between.
func TestAWitnessJudgesNoChangeBeforeThoseThatHappenedBeforeIt(t *testing.T) {
	w := newWitness(&journal{})
	now := time.Now()
	born := claimTold("a", 2, false)
	born.Object.(*ext.SandboxClaim).Status = ext.SandboxClaimStatus{}
	w.pending = []world.Change{
		at(now, born),
		at(now, sandboxOf("SandboxWarmPool", "p", 1, false)),
		at(now.Add(time.Second), claimTold("a", 7, false)),
		at(now.Add(3*time.Second), sandboxOf("SandboxClaim", "a", 5, false)),
	}
	for second := range time.Duration(5) {
		w.advance(now.Add(second * time.Second))
	}
	if found := w.violations(); len(found) > 0 || len(w.pending) > 0 {
		t.Errorf("%d changes wait, and it found %q", len(w.pending), found)
	}
}

func at(when time.Time, c world.Change) world.Change {
	c.At = when
	return c
}
