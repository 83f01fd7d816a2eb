package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// A requirement is a program that a node is made of, and who has it.
type requirement struct{ program, from string }

var requirements = []requirement{
	{"containerd", "the Debian package containerd"},
	{"ctr", "the Debian package containerd"},
	{"runc", "the Debian package runc"},
	{"iptables-restore", "the Debian package iptables"}, // which kube-proxy writes rules with
	{"ip", "the Debian package iproute2"},
	{"mount", "the Debian package mount"},
}

// plugins are where distributions and others put what connects pods to a network.
var plugins = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// missing says in a sentence each what a node needs and this machine has not.
func missing() (all []string) {
	if runtime.GOOS != "linux" {
		return []string{"a node needs Linux"}
	}
	if os.Geteuid() != 0 {
		all = append(all, "a kubelet runs as root, and this is another user: try sudo make e2e")
	}
	for _, r := range requirements {
		if _, err := exec.LookPath(r.program); err != nil {
			all = append(all, fmt.Sprintf("there is no %s in PATH: %s has it", r.program, r.from))
		}
	}
	if _, err := pluginDir(); err != nil {
		all = append(all, err.Error())
	}
	if _, err := findGroups(groups); err != nil {
		all = append(all, err.Error())
	}
	return all
}

// pluginDir is the directory that has all CNI plugins that the node needs.
func pluginDir() (string, error) {
	for _, dir := range plugins {
		if has(dir, "bridge") && has(dir, "host-local") && has(dir, "loopback") {
			return dir, nil
		}
	}
	return "", fmt.Errorf("there are no CNI plugins bridge, host-local and loopback in %s: the Debian package containernetworking-plugins has them",
		strings.Join(plugins, ", "))
}

func has(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && info.Mode().IsRegular()
}
