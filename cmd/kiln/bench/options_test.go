package bench

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestWhatMakesNoSenseIsRefusedByItsFlag(t *testing.T) {
	for says, change := range map[string]func(*Options){
		`there is no scenario "fly"`:        func(o *Options) { o.Scenarios = []string{"fly"} },
		`scenario "burst" is named twice`:   func(o *Options) { o.Scenarios = []string{Burst, Burst} },
		"name a scenario":                   func(o *Options) { o.Scenarios = nil },
		`--namespace is "A_b"`:              func(o *Options) { o.Namespace = "A_b" },
		"--rounds is 0":                     func(o *Options) { o.Rounds = 0 },
		"--claims is -1":                    func(o *Options) { o.Claims = -1 },
		"--pool is 1000000":                 func(o *Options) { o.Pool = 1000000 },
		"--rate is 0":                       func(o *Options) { o.Rate = 0 },
		"--duration is 1ms":                 func(o *Options) { o.Duration = time.Millisecond },
		"--dwell is -1s":                    func(o *Options) { o.Dwell = -time.Second },
		"--limit is 0s":                     func(o *Options) { o.Limit = 0 },
		"--rates is [20 10]":                func(o *Options) { o.Rates = []float64{20, 10} },
		"--rates is []":                     func(o *Options) { o.Rates = nil },
		"--pools is [0 10]":                 func(o *Options) { o.Pools = []int{0, 10} },
		`--strategy is "Sometimes"`:         func(o *Options) { o.Strategy = "Sometimes" },
		"--timeout is 0s":                   func(o *Options) { o.Timeout = 0 },
		"--connections is 0":                func(o *Options) { o.Connections = 0 },
		`--processes has "etcd=many"`:       func(o *Options) { o.Processes = []string{"etcd=many"} },
		`--processes has "=7"`:              func(o *Options) { o.Processes = []string{"=7"} },
		`--processes has "kube-scheduler="`: func(o *Options) { o.Processes = []string{"kube-scheduler="} },
	} {
		t.Run(says, func(t *testing.T) {
			o := Defaults()
			change(&o)
			NewWithT(t).Expect(o.Validate()).To(MatchError(ContainSubstring(says)))
		})
	}
}

func TestTheDefaultsMakeSense(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Defaults().Validate()).To(Succeed())
	o := Defaults()
	o.Scenarios, o.Pool, o.Processes = Scenarios, 0, []string{"etcd", "kiln=12"}
	g.Expect(o.Validate()).To(Succeed())
}
