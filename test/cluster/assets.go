package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Assets finds the named binaries: each in the directory that KUBEBUILDER_ASSETS
// names, if it is there, and else among those that `make plane` builds.
func Assets(names ...string) (map[string]string, error) {
	var dirs []string
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		dirs = append(dirs, dir)
	}
	if root, err := Root(); err == nil {
		dirs = append(dirs, filepath.Join(root, "bin", "plane"))
	}
	found := map[string]string{}
	var missing []string
	for _, name := range names {
		path, ok := find(name, dirs)
		if !ok {
			missing = append(missing, name)
			continue
		}
		found[name] = path
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("no %s in %s: run make plane",
			strings.Join(missing, ", "), strings.Join(dirs, " or "))
	}
	return found, nil
}

// Root finds the repository: the nearest directory from the working directory
// upwards that holds test/plane.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "test", "plane", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside the repository: no directory above holds test/plane")
		}
		dir = filepath.Dir(dir)
	}
}

func find(name string, dirs []string) (string, bool) {
	for _, dir := range dirs {
		path, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, true
		}
	}
	return "", false
}
