package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// stat is the line that the kernel has for a process.
func stat(command string, user, system int) string {
	return fmt.Sprintf("7 (%s) S 1 7 7 0 -1 4194560 100 0 0 0 %d %d 0 0 20 0 9 0 1 1 1", command, user, system)
}

// proc is a directory as /proc.
func proc(t *testing.T, processes map[int]string) string {
	t.Helper()
	dir := t.TempDir()
	for pid, command := range processes {
		own := filepath.Join(dir, strconv.Itoa(pid))
		g := NewWithT(t)
		g.Expect(os.Mkdir(own, 0o700)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(own, "cmdline"), []byte("/usr/bin/"+command+"\x00--flag\x00"), 0o600)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(own, "statm"), fmt.Appendf(nil, "999 %d 1 1 0 1 0\n", (1<<20)/os.Getpagesize()*pid), 0o600)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(own, "stat"), []byte(stat(command, pid, 2*pid)), 0o600)).To(Succeed())
	}
	return dir
}

func TestTheTimeOfAProcessIsReadWhateverItsName(t *testing.T) {
	g := NewWithT(t)
	g.Expect(parseStat(stat("a) S (b", 150, 50))).To(Equal(2 * time.Second))
	for _, bad := range []string{"", "7 (x)", "7 (x) S 1 2 3"} {
		_, err := parseStat(bad)
		g.Expect(err).To(HaveOccurred())
	}
}

func TestProcessesAreFoundByTheirCommandsAndDoubtIsSaid(t *testing.T) {
	g := NewWithT(t)
	dir := proc(t, map[int]string{10: "kube-apiserver", 20: "etcd", 21: "etcd", 30: "kiln", 40: "kwok", 50: "bash"})
	found, notes := findProcesses(nil, dir)
	g.Expect(found).To(Equal(processes{10: apiServer, 30: controller, 40: others, os.Getpid(): loadTool}))
	g.Expect(notes).To(ConsistOf("no CPU of etcd: there are 2 such processes; say which with --processes etcd=PID"))
	g.Expect(found.used(dir)).To(Equal(map[string]time.Duration{
		apiServer: 300 * time.Millisecond, controller: 900 * time.Millisecond, others: 1200 * time.Millisecond,
	}))

	g.Expect(found.resident(dir)).To(Equal(map[string]float64{apiServer: 10, controller: 30, others: 40}))

	found, notes = findProcesses([]string{"etcd=21", "kube-apiserver", "nothing"}, dir)
	g.Expect(found).To(Equal(processes{10: apiServer, 21: etcd, os.Getpid(): loadTool}))
	g.Expect(notes).To(ConsistOf("no CPU of nothing: there is no such process"))

	found, _ = findProcesses(nil, t.TempDir())
	g.Expect(found).To(BeEmpty(), "without a control plane the load tool's own is no use")
}

func TestCPUIsToldForEachClaimAndTheLoadToolApart(t *testing.T) {
	g := NewWithT(t)
	before := map[string]time.Duration{apiServer: time.Second, loadTool: time.Second}
	after := map[string]time.Duration{apiServer: 3 * time.Second, loadTool: 2 * time.Second, controller: 500 * time.Millisecond}
	g.Expect(between(before, after, 10)).To(Equal(&CPU{By: map[string]float64{apiServer: 200, controller: 50}, Sum: 250, LoadTool: 100}))
	g.Expect(between(nil, after, 10)).To(BeNil())
	g.Expect(between(before, after, 0)).To(BeNil())
}

func TestRequestsAreCountedByVerbResourceAndCode(t *testing.T) {
	g := NewWithT(t)
	before := parseCounts(`# HELP apiserver_request_total Counter
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="extensions.agents.x-k8s.io",resource="sandboxclaims",scope="resource",subresource="",verb="POST",version="v1beta1"} 7
apiserver_request_total{code="200",group="",resource="pods",subresource="status",verb="PATCH"} 1.5e+01
apiserver_request_total{code="200",group="",resource="pods",subresource="",verb="WATCH"} 3
apiserver_request_total{code="200",group="",resource="",subresource="/readyz",verb="GET"} 4
apiserver_request_total{broken
apiserver_request_duration_seconds_count{verb="POST"} 9
`)
	g.Expect(before).To(Equal(map[asked]float64{
		{"POST", "sandboxclaims", "201"}: 7, {"PATCH", "pods/status", "200"}: 15, {"GET", "other/readyz", "200"}: 4,
	}))
	after := map[asked]float64{{"POST", "sandboxclaims", "201"}: 27, {"PATCH", "pods/status", "200"}: 55, {"GET", "other/readyz", "200"}: 4}
	all := perClaim(before, after, 20)
	g.Expect(all).To(Equal([]Requests{{"PATCH", "pods/status", "200", 2}, {"POST", "sandboxclaims", "201", 1}}))
	g.Expect(perClaim(before, after, 0)).To(BeEmpty())
}
