package watch

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestAClockThatIsSetAheadJumpsAndNoOtherDoes(t *testing.T) {
	g := NewWithT(t)
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var c clock
	for _, row := range []struct {
		hour   time.Duration
		passed time.Duration
		jumps  bool
	}{
		{0, 0, false}, // the first look
		{10 * time.Second, 10 * time.Second, false},           // time passes
		{time.Hour, 20 * time.Second, true},                   // it is set ahead, or the machine slept
		{time.Hour + 10*time.Second, 30 * time.Second, false}, // and goes on from there
		{0, 40 * time.Second, false},                          // it is set back
		{10*time.Second + 900*time.Millisecond, 50 * time.Second, false},
	} {
		g.Expect(c.jumps(noon.Add(row.hour), row.passed)).To(Equal(row.jumps), "%+v", row)
	}
}
