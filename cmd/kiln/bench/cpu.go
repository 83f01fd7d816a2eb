package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A CPU is what processes used, for each claim, in milliseconds. Sum leaves out the load
// tool, which is this process.
type CPU struct {
	By       map[string]float64 `json:"by"`
	Sum      float64            `json:"sum"`
	LoadTool float64            `json:"load_tool"`
}

// The groups in which CPU is told.
const (
	apiServer  = "API server"
	etcd       = "etcd"
	controller = "controller"
	others     = "rest"
	loadTool   = "load tool"
)

// groups are the processes of a control plane, by the names of their commands.
var groups = map[string]string{
	"kube-apiserver": apiServer, "etcd": etcd,
	"kiln": controller, "agent-sandbox-controller": controller,
	"kube-controller-manager": others, "kube-scheduler": others, "kwok": others,
}

func groupOf(name string) string {
	if g, known := groups[name]; known {
		return g
	}
	return others
}

func (r Result) cpu(group string) float64 {
	if r.CPU == nil {
		return 0
	}
	return r.CPU.By[group]
}

// Usage is how many cores each group of processes used, at a second of a scenario.
type Usage struct {
	At    float64            `json:"at"`
	Cores map[string]float64 `json:"cores"`
}

// ticksPerSecond is the unit of /proc/PID/stat: the kernel's USER_HZ, which is 100 on
// every architecture that Go runs on.
const ticksPerSecond = 100

// parseProcess reads name or name=pid.
func parseProcess(text string) (name string, pid int, err error) {
	name, number, given := strings.Cut(text, "=")
	if given {
		pid, err = strconv.Atoi(number)
	}
	if err != nil || name == "" || given && pid < 1 {
		return "", 0, fmt.Errorf("--processes has %q; give a command's name, or name=pid", text)
	}
	return name, pid, nil
}

// Processes are the local processes whose CPU is told, by their ids.
type processes map[int]string

// findProcesses finds those that are named, or those of a control plane. A name that
// several processes have is left out: there is no telling which is meant.
func findProcesses(named []string, proc string) (processes, []string) {
	found, byName, notes := processes{}, map[string][]int{}, []string(nil)
	for pid, name := range commands(proc) {
		byName[name] = append(byName[name], pid)
	}
	wanted := named
	if len(named) == 0 {
		wanted = slices.Sorted(maps.Keys(groups))
	}
	for _, text := range wanted {
		name, pid, err := parseProcess(text)
		switch pids := byName[name]; {
		case err != nil:
			notes = append(notes, err.Error())
		case pid > 0:
			found[pid] = groupOf(name)
		case len(pids) == 1:
			found[pids[0]] = groupOf(name)
		case len(pids) > 1:
			notes = append(notes, fmt.Sprintf("no CPU of %s: there are %d such processes; say which with --processes %s=PID", name, len(pids), name))
		case len(named) > 0:
			notes = append(notes, fmt.Sprintf("no CPU of %s: there is no such process", name))
		}
	}
	if len(found) > 0 {
		found[os.Getpid()] = loadTool
	}
	return found, notes
}

// commands are the names of the commands of all processes but this one, by their ids.
func commands(proc string) map[int]string {
	all := map[int]string{}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil // not every system has it
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join(proc, entry.Name(), "cmdline"))
		if err != nil {
			continue // it is gone, or somebody else's
		}
		command, _, _ := strings.Cut(string(line), "\x00")
		all[pid] = filepath.Base(command)
	}
	return all
}

// parseStat reads the time that a process has had, in user and system mode, from its
// /proc/PID/stat.
func parseStat(text string) (time.Duration, error) {
	// The command's name stands in parentheses and may hold anything.
	end := strings.LastIndexByte(text, ')')
	fields := strings.Fields(text[end+1:])
	if end < 0 || len(fields) < 13 {
		return 0, errors.New("it is no process's stat")
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticksPerSecond, err
}

// used is the time that each group has had so far.
func (p processes) used(proc string) map[string]time.Duration {
	sums := map[string]time.Duration{}
	for pid, group := range p {
		text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
		if err != nil {
			continue
		}
		if t, err := parseStat(string(text)); err == nil {
			sums[group] += t
		}
	}
	return sums
}

// resident is how much memory each group has now, in MiB.
func (p processes) resident(proc string) map[string]float64 {
	sums := map[string]float64{}
	for pid, group := range p {
		text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "statm"))
		if err != nil {
			continue
		}
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			if pages, err := strconv.ParseFloat(fields[1], 64); err == nil {
				sums[group] += pages * float64(os.Getpagesize()) / (1 << 20)
			}
		}
	}
	return sums
}

// between is what was used between two readings, for each claim.
func between(before, after map[string]time.Duration, claims int) *CPU {
	if len(before) == 0 || claims == 0 {
		return nil
	}
	c := &CPU{By: map[string]float64{}}
	for group, t := range after {
		each := ms(t-before[group]) / float64(claims)
		if group == loadTool {
			c.LoadTool = each
			continue
		}
		c.By[group] = each
		c.Sum += each
	}
	return c
}

// A meter samples what groups of processes use, for the timeline.
type meter struct {
	stop    context.CancelFunc
	running sync.WaitGroup
	usage   []Usage
}

// sampling is how far apart the samples of a timeline are.
const sampling = 500 * time.Millisecond

// measure begins to sample.
func (p processes) measure(ctx context.Context) *meter {
	m := &meter{}
	ctx, m.stop = context.WithCancel(ctx)
	if len(p) == 0 {
		return m
	}
	m.running.Go(func() {
		begun, before := time.Now(), p.used(procDir)
		last := begun
		for tick := time.NewTicker(sampling); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			now, used := time.Now(), p.used(procDir)
			u := Usage{At: now.Sub(begun).Seconds(), Cores: map[string]float64{}}
			for group, t := range used {
				u.Cores[group] = (t - before[group]).Seconds() / now.Sub(last).Seconds()
			}
			m.usage, before, last = append(m.usage, u), used, now
		}
	})
	return m
}

// end returns the samples.
func (m *meter) end() []Usage {
	m.stop()
	m.running.Wait()
	return m.usage
}

const procDir = "/proc"
