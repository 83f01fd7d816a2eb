package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The names of the scenarios.
const (
	Floor     = "floor"
	Serial    = "serial"
	Sustained = "sustained"
	Rollout   = "rollout"
	Sweep     = "sweep"
	Burst     = "burst"
	Scale     = "scale"

	// FloorBurst is a step of the floor: the burst.
	FloorBurst = Floor + "@" + Burst
)

// Scenarios are all of them, in the order in which a round runs them: a pool that is
// shared only grows.
var Scenarios = []string{Floor, Serial, Sustained, Rollout, Sweep, Burst, Scale}

// strategies are the update strategies of a pool, and whether a claim that is made
// after a template change may still be given an older sandbox.
var strategies = map[string]bool{"OnReplenish": true, "Recreate": false, "RollingUpdate": false}

// Options are what to measure.
type Options struct {
	// Scenarios are run in each round, in the order of the package's own list.
	Scenarios []string
	// Rounds is how often.
	Rounds int
	// Namespace is made for the run, and removed with all that is in it. Without a name
	// it has one that nobody else has.
	Namespace string
	// Claims is how many the scenarios serial and burst make; 0 means their own number.
	Claims int
	// Pool is how many warm sandboxes a scenario begins with; negative means its own
	// number, 0 that every claim starts cold.
	Pool int
	// Rate is claims a second, for Duration; each is kept for Dwell and then deleted.
	Rate            float64
	Duration, Dwell time.Duration
	// Rates are those that the scenario sweep tries, until the 99th percentile is above
	// Limit.
	Rates []float64
	Limit time.Duration
	// Pools are the sizes of the scenario scale.
	Pools []int
	// Strategy is the pool's update strategy in the scenario rollout.
	Strategy string
	// Timeout is how long a claim may wait. A pool may make no progress for as long, and
	// for two minutes in any case.
	Timeout time.Duration
	// Connections is how many the requests are spread over.
	Connections int
	// Seed makes arrivals that can be repeated.
	Seed uint64
	// Template is the SandboxTemplate to use, as a manifest; nil means a realistic one.
	Template []byte
	// Processes are local ones whose CPU is told, as a name or as name=pid. None means
	// those of a control plane, if the server is local.
	Processes []string
	// Keep leaves the namespace when the run ends by itself.
	Keep bool
}

// Defaults are what is measured unless somebody says otherwise.
func Defaults() Options {
	return Options{
		Scenarios: []string{Floor, Serial, Sustained, Burst}, Rounds: 1, Pool: -1,
		Rate: 10, Duration: 30 * time.Second, Dwell: 2 * time.Second,
		Rates: []float64{5, 10, 15, 20, 25, 30, 40, 50}, Limit: 500 * time.Millisecond,
		Pools: []int{100, 1000, 10000}, Strategy: "Recreate",
		Timeout: 2 * time.Minute, Connections: 4, Seed: 1,
	}
}

// The bounds of what makes sense.
const (
	mostClaims = 100_000
	mostRate   = 10_000
)

// Validate says what makes no sense, by the flag that says it and with what helps.
func (o Options) Validate() error {
	if err := o.validateLoad(); err != nil {
		return err
	}
	switch {
	case len(o.Scenarios) == 0:
		return errors.New("name a scenario: " + strings.Join(Scenarios, ", "))
	case o.Namespace != "" && len(validation.IsDNS1123Label(o.Namespace)) > 0:
		return fmt.Errorf("--namespace is %q; give a name of lower case letters, digits and dashes", o.Namespace)
	case o.Rounds < 1 || o.Rounds > 1000:
		return fmt.Errorf("--rounds is %d; give a number from 1 to 1000", o.Rounds)
	case o.Connections < 1 || o.Connections > 100:
		return fmt.Errorf("--connections is %d; give a number from 1 to 100", o.Connections)
	case o.Timeout < time.Second:
		return fmt.Errorf("--timeout is %v; give a second or more", o.Timeout)
	}
	for i, s := range o.Scenarios {
		switch {
		case !slices.Contains(Scenarios, s):
			return fmt.Errorf("there is no scenario %q; there are %s", s, strings.Join(Scenarios, ", "))
		case slices.Contains(o.Scenarios[:i], s):
			return fmt.Errorf("scenario %q is named twice", s)
		}
	}
	if _, known := strategies[o.Strategy]; !known {
		return fmt.Errorf("--strategy is %q; give OnReplenish, Recreate or RollingUpdate", o.Strategy)
	}
	for _, p := range o.Processes {
		if _, _, err := parseProcess(p); err != nil {
			return err
		}
	}
	return nil
}

func (o Options) validateLoad() error {
	switch {
	case o.Claims < 0 || o.Claims > mostClaims:
		return fmt.Errorf("--claims is %d; give a number up to %d", o.Claims, mostClaims)
	case o.Pool > mostClaims:
		return fmt.Errorf("--pool is %d; give a number up to %d", o.Pool, mostClaims)
	case o.Rate <= 0 || o.Rate > mostRate:
		return fmt.Errorf("--rate is %v; give claims a second, above 0 and up to %d", o.Rate, mostRate)
	case o.Duration < time.Second || o.Duration > 24*time.Hour:
		return fmt.Errorf("--duration is %v; give a time from 1s to 24h", o.Duration)
	case o.Dwell < 0 || o.Dwell > time.Hour:
		return fmt.Errorf("--dwell is %v; give a time up to 1h", o.Dwell)
	case o.Limit <= 0:
		return fmt.Errorf("--limit is %v; give a time above 0", o.Limit)
	case len(o.Rates) == 0 || !slices.IsSorted(o.Rates) || o.Rates[0] <= 0 || o.Rates[len(o.Rates)-1] > mostRate:
		return fmt.Errorf("--rates is %v; give claims a second, the lowest first, such as 5,10,20", o.Rates)
	case len(o.Pools) == 0 || !slices.IsSorted(o.Pools) || o.Pools[0] < 1 || o.Pools[len(o.Pools)-1] > mostClaims:
		return fmt.Errorf("--pools is %v; give sizes, the smallest first, such as 100,1000", o.Pools)
	}
	return nil
}
