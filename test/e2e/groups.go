package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// groups is where the machine's cgroups are mounted.
var groups = "/sys/fs/cgroup"

// A grouping is how the cgroup of all containers is made on this machine.
type grouping struct {
	// parents are the cgroups in which it is made: the root of the one hierarchy that cgroups
	// of the second version are, or of each hierarchy of the first.
	parents []string
	// handed are the controllers that the root hands on, and enable those that it has to beside
	// them. In the first version every cgroup has the controller of its hierarchy.
	handed, enable []string
}

// Controllers of the second version: those that a kubelet wants handed on to its cgroup if
// they are there at all, and those of them without which no container starts.
var (
	wanted    = []string{"cpu", "cpuset", "memory", "hugetlb", "pids"}
	necessary = []string{"cpu", "memory", "pids"}
)

// findGroups decides how the cgroup is made below a directory, or says why no node can run.
func findGroups(root string) (grouping, error) {
	there, err := controllers(root, "cgroup.controllers")
	if errors.Is(err, fs.ErrNotExist) {
		return findHierarchies(root)
	}
	if err != nil {
		return grouping{}, err
	}
	if lacking := without(necessary, there); len(lacking) > 0 {
		return grouping{}, fmt.Errorf("the cgroups in %s are of the second version and have no controller %s: cgroups of the first version have it, or the kernel has none",
			root, strings.Join(lacking, ", "))
	}
	handed, err := controllers(root, "cgroup.subtree_control")
	if err != nil {
		return grouping{}, err
	}
	kept := without(there, handed)
	enable := slices.DeleteFunc(slices.Clone(wanted), func(c string) bool { return !slices.Contains(kept, c) })
	return grouping{parents: []string{root}, handed: handed, enable: enable}, nil
}

// findHierarchies finds those of the first version, and that of the second beside them.
func findHierarchies(root string) (grouping, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return grouping{}, err
	}
	var g grouping
	for _, e := range entries {
		if e.IsDir() { // and not one name more for another
			g.parents = append(g.parents, filepath.Join(root, e.Name()))
		}
	}
	if len(g.parents) == 0 {
		return grouping{}, fmt.Errorf("no cgroups are mounted in %s", root)
	}
	return g, nil
}

func controllers(group, file string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(group, file))
	return strings.Fields(string(text)), err
}

// without is what of all is not among some.
func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return slices.Contains(some, one) })
}

// make makes the cgroup.
func (g grouping) make(name string) error {
	for _, c := range g.enable {
		err := hand(g.parents[0], "+"+c)
		if errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("controller %s for cgroups: %w: processes are in the cgroup at %s itself, as in a container that has a cgroup namespace of its own: give it that of the machine",
				c, err, g.parents[0])
		}
		if err != nil {
			return fmt.Errorf("controller %s for cgroups: %w", c, err)
		}
	}
	var errs []error
	for _, parent := range g.parents {
		errs = append(errs, os.Mkdir(filepath.Join(parent, name), 0o755))
	}
	return errors.Join(errs...)
}

// takeBack has the root hand on no more than it did before: runc enables all that there are.
// What somebody else hands on in turn stays.
func takeBack(root string, before []string) error {
	handed, err := controllers(root, "cgroup.subtree_control")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the first version
	}
	for _, c := range without(handed, before) {
		if refused := hand(root, "-"+c); !errors.Is(refused, syscall.EBUSY) {
			err = errors.Join(err, refused)
		}
	}
	return err
}

// hand has a cgroup hand on a controller to those below it, or not.
func hand(group, controller string) error {
	return os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte(controller), 0o644)
}
