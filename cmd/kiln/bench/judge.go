package bench

import (
	"fmt"
	"strings"
)

// Checks count broken promises. Each must be 0.
type Checks struct {
	// DoubleHeld is sandboxes that more than one claim was told of.
	DoubleHeld int `json:"double_held"`
	// StaleServed is claims that were made after a template change was answered and got
	// a pod of the older template, from a pool whose strategy promises that they do not.
	StaleServed int `json:"stale_served"`
	// Unbound is claims that were made and were not Ready in time.
	Unbound int `json:"unbound"`
	// UnreachableAtReady is claims whose pod did not yet carry their UID, or still carried
	// the pool's label, when they were Ready.
	UnreachableAtReady int `json:"unreachable_at_ready"`
}

func (c Checks) broken() bool { return c != Checks{} }

func (c Checks) String() string {
	return fmt.Sprintf("double_held %d, stale_served %d, unbound %d, unreachable_at_ready %d", c.DoubleHeld, c.StaleServed, c.Unbound, c.UnreachableAtReady)
}

// judge looks at the lives of all claims of a run. It names what it finds, the first
// few of each kind.
func judge(lives []life) (c Checks, violations []string) {
	holders, order := map[string][]string{}, []string{}
	for _, one := range lives {
		for _, sandbox := range one.sandboxes {
			if len(holders[sandbox]) == 0 {
				order = append(order, sandbox)
			}
			holders[sandbox] = append(holders[sandbox], one.name)
		}
		switch {
		case one.refused == "" && one.bound == 0:
			c.Unbound++
			violations = note(violations, c.Unbound, "claim %s was not served in time", one.name)
		case one.got > 0 && one.got < one.wants:
			c.StaleServed++
			violations = note(violations, c.StaleServed,
				"claim %s was made after the template's revision %d and got a pod of revision %d", one.name, one.wants, one.got)
		}
	}
	for _, one := range lives {
		if one.unreachable {
			c.UnreachableAtReady++
			violations = note(violations, c.UnreachableAtReady, "claim %s was Ready before its pod said that it is the claim's", one.name)
		}
	}
	for _, sandbox := range order {
		if claims := holders[sandbox]; len(claims) > 1 {
			c.DoubleHeld++
			violations = note(violations, c.DoubleHeld, "sandbox %s is held by claims %s", strings.TrimSuffix(sandbox, "/"), strings.Join(claims, ", "))
		}
	}
	return c, violations
}

// most is how many violations of a kind are named.
const most = 10

func note(violations []string, n int, format string, args ...any) []string {
	if n > most {
		return violations
	}
	return append(violations, fmt.Sprintf(format, args...))
}
