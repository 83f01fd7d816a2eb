package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"syscall"
)

// Crash ends etcd or kube-apiserver the hard way, and leaves what it had on disk.
func (c *Cluster) Crash(ctx context.Context, name string) error {
	c.mu.Lock()
	again := c.revived[name]
	c.crashed[name] = true
	c.mu.Unlock()
	if again != nil {
		again.Kill()
		return nil
	}
	pid := c.keeper.pid(name)
	if pid == 0 {
		return fmt.Errorf("%s: it does not run", name)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("%s: kill: %w", name, err)
	}
	dead := make(chan struct{})
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.keeper.watch(name, stop.Done(), func() { close(dead) })
	select {
	case <-dead:
		c.keeper.forget(name)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Revive starts what Crash has ended again, as it was, and returns when it is healthy.
func (c *Cluster) Revive(ctx context.Context, name string) error {
	args, err := c.keeper.args(name)
	if err != nil {
		return err
	}
	run, err := c.Run(ctx, Program{Name: name, Path: c.assets[name], Args: args, Healthy: c.health(name)})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revived[name] = run
	// It ends with the plane and not before what stands on it.
	c.programs = slices.DeleteFunc(c.programs, func(p *Process) bool { return p == run })
	return nil
}

// stopRevived ends a part of the plane that was started again.
func (c *Cluster) stopRevived(name string) error {
	c.mu.Lock()
	run := c.revived[name]
	c.mu.Unlock()
	if run == nil {
		return nil
	}
	return run.Stop()
}

// health is the URL at which a part of the plane says that it is up.
func (c *Cluster) health(name string) string {
	if name == "etcd" {
		return c.plane.Etcd.URL.String() + "/health"
	}
	at := c.plane.GetAPIServer().SecureServing
	u := url.URL{Scheme: "https", Host: net.JoinHostPort(at.Address, at.Port), Path: "/readyz"}
	return u.String()
}

// gone reports a part of the plane that nobody has ended on purpose.
func (c *Cluster) gone(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.crashed[name] {
		c.lost(name, errors.New("gone"))
	}
}
