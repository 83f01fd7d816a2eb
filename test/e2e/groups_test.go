package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestACgroupIsMadeWhereTheMachineHasCgroups(t *testing.T) {
	for _, row := range []struct {
		name    string
		tree    []string
		parents []string
		enable  []string
	}{
		{"in each hierarchy of the first version", []string{"cpu/", "memory/", "pids/"}, []string{"cpu", "memory", "pids"}, nil},
		{"once where a hierarchy has two names", []string{"cpu,cpuacct/", "cpu -> cpu,cpuacct", "memory/"}, []string{"cpu,cpuacct", "memory"}, nil},
		{
			"also in the second version's beside the first, which has no controllers",
			[]string{"cpu/", "unified/cgroup.controllers=hugetlb"},
			[]string{"cpu", "unified"}, nil,
		},
		{
			"in the root of the second version, which is asked for what it does not hand on",
			[]string{"cgroup.controllers=cpuset cpu io memory hugetlb pids rdma misc", "cgroup.subtree_control=cpu memory pids", "system.slice/"},
			[]string{""},
			[]string{"cpuset", "hugetlb"},
		},
		{
			"and is asked for nothing that it has not",
			[]string{"cgroup.controllers=cpu memory pids", "cgroup.subtree_control="},
			[]string{""},
			[]string{"cpu", "memory", "pids"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			root := tree(t, row.tree...)
			g, err := findGroups(root)
			if err != nil {
				t.Fatal(err)
			}
			var parents []string
			for _, p := range row.parents {
				parents = append(parents, filepath.Join(root, p))
			}
			if !slices.Equal(g.parents, parents) || !slices.Equal(g.enable, row.enable) {
				t.Errorf("it is made in %v with %v, and should be in %v with %v", g.parents, g.enable, parents, row.enable)
			}
			if err := g.make("ours"); err != nil {
				t.Fatal(err)
			}
			for _, p := range parents {
				if _, err := os.Stat(filepath.Join(p, "ours")); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestWhatCgroupsLackIsSaid(t *testing.T) {
	for want, has := range map[string][]string{
		"no cgroups are mounted":        nil,
		"have no controller cpu, pids:": {"cgroup.controllers=hugetlb memory", "cgroup.subtree_control="},
	} {
		if _, err := findGroups(tree(t, has...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it said %v, and not %q", err, want)
		}
	}
}

func TestWhatWasEnabledIsTakenBack(t *testing.T) {
	root := tree(t, "cgroup.subtree_control=cpu memory pids io")
	if err := takeBack(root, []string{"cpu", "memory", "pids"}); err != nil {
		t.Fatal(err)
	}
	if last, err := controllers(root, "cgroup.subtree_control"); err != nil || !slices.Equal(last, []string{"-io"}) {
		t.Errorf("what was written last is %v, %v", last, err)
	}
	if err := takeBack(tree(t, "cpu/"), nil); err != nil {
		t.Errorf("cgroups of the first version have nothing to take back: %v", err)
	}
}

// Two programs make cgroups, and a pod would be in two if they did so in different ways.
func TestKubeletAndContainerdHaveOneDriver(t *testing.T) {
	if !strings.Contains(kubeletConfig, "\ncgroupDriver: cgroupfs\n") || !strings.Contains(containerdConfig, " SystemdCgroup = false\n") {
		t.Errorf("the kubelet is told\n%s\nand containerd\n%s", kubeletConfig, containerdConfig)
	}
}

// tree makes directories "a/", links "a -> b" and files "a=text", and returns where.
func tree(t *testing.T, entries ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, e := range entries {
		var err error
		if from, to, is := strings.Cut(e, " -> "); is {
			err = os.Symlink(to, filepath.Join(root, from))
		} else if name, text, is := strings.Cut(e, "="); is {
			at := filepath.Join(root, name)
			err = errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644))
		} else {
			err = os.Mkdir(filepath.Join(root, e), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}
