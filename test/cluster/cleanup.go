package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// down stops the cluster and removes what it left on the machine. None of its
// programs need to run, so this also cleans up after a killed cluster. It does as
// much as it can, and returns all errors.
func (c *cluster) down(ctx context.Context) error {
	if err := asRoot(); err != nil {
		return err
	}
	if !exists(c.dir) {
		return nil
	}
	return c.locked(ctx, func(ctx context.Context) error {
		if !c.slotted {
			c.say("there is no cluster in %s", c.dir)
			return nil
		}
		began := time.Now()
		if err := errors.Join(c.stopAll(ctx), c.removeAll(ctx)); err != nil {
			return err
		}
		c.say("the cluster is down after %.1f s", time.Since(began).Seconds())
		return nil
	})
}

// stopAll ends every process of the cluster: first the kubelet, so that it does not
// restart pods; then the pods; and the rest once containerd has removed its
// containers. containerd, whose store is kept, is the only program that may end by
// itself.
func (c *cluster) stopAll(ctx context.Context) error {
	var errs []error
	if kubelet, ok := c.running(c.kubelet()); ok {
		errs = append(errs, stop(ctx, []process{kubelet}, true))
	}
	errs = append(errs, c.killPods(ctx))
	if err := c.forgetContainers(ctx); err != nil {
		c.say("containerd's store is made anew: %v", err)
		defer c.dropStore()
	}
	if containerd, ok := c.running(c.containerd()); ok {
		errs = append(errs, stop(ctx, []process{containerd}, false))
	}
	var programs []process
	for _, p := range c.programs() {
		if running, ok := c.running(p); ok {
			programs = append(programs, running)
		}
	}
	errs = append(errs, stop(ctx, programs, true), c.killMarked(ctx))
	errs = append(errs, c.killPods(ctx)) // shims may have just started some more
	return errors.Join(errs...)
}

// killMarked kills everything else that was started for the cluster, mainly shims.
// It repeats until nothing is left, because a single pass misses processes that are
// just being started.
func (c *cluster) killMarked(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	return until(ctx, func() (bool, error) {
		left := marked(c.dir)
		signalAll(left, syscall.SIGKILL)
		return len(left) == 0, nil
	})
}

// forgetContainers removes all containers from containerd's store, so that the
// store can be kept for its images.
func (c *cluster) forgetContainers(ctx context.Context) error {
	if !exists(c.path("containerd")) || !exists(c.run()) {
		return nil // containerd has not run since the last down
	}
	if err := c.check(ctx, c.containerd()); err != nil {
		return err
	}
	// The CRI plugin removes the killed tasks at the same time.
	if err := c.removeEach(ctx, "tasks", "rm", "--force"); err != nil {
		return err
	}
	return c.removeEach(ctx, "containers", "rm")
}

// removeEach removes everything of a kind that containerd lists, until there is
// none left.
func (c *cluster) removeEach(ctx context.Context, kind string, remove ...string) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	var last error
	err := until(ctx, func() (bool, error) {
		out, err := c.ctr(ctx, commandTimeout, kind, "ls", "-q")
		ids := strings.Fields(out)
		if err != nil || len(ids) == 0 {
			return true, err
		}
		_, last = c.ctr(ctx, killTimeout, append(append([]string{kind}, remove...), ids...)...)
		return false, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// dropStore removes containerd's store with its images, after unmounting everything
// in it.
func (c *cluster) dropStore() {
	if err := errors.Join(unmountBelow(c.stateDirs()), os.RemoveAll(c.path("containerd"))); err != nil {
		c.say("cannot remove containerd's store: %v", err)
	}
}

// removeAll removes the processes' files, but keeps programs, images and logs. It
// removes nothing through a mount that could not be unmounted.
func (c *cluster) removeAll(ctx context.Context) error {
	if err := unmountBelow(c.stateDirs()); err != nil {
		return err
	}
	errs := []error{c.removeNetwork(ctx), c.removeCgroups(ctx), c.removeShimSockets(), c.removeLogLinks()}
	for _, path := range []string{
		c.path("etcd"), c.path("pki"), c.path("etc"), c.path("cni"), c.path("pods"),
		c.KubeletRoot, c.run(), c.Kubeconfig, c.Pids,
	} {
		errs = append(errs, os.RemoveAll(path))
	}
	if parent := filepath.Dir(c.KubeletRoot); parent != c.dir {
		errs = append(errs, os.RemoveAll(parent))
	}
	return errors.Join(append(errs, restoreSysctls(ctx))...)
}

// shimSockets lists the sockets of the cluster's shims. All containerds of a
// machine use the same directory; the bundle of a container names the socket of its
// shim.
func (c *cluster) shimSockets() []string {
	bundles, _ := filepath.Glob(filepath.Join(c.run(), "containerd", "io.containerd.runtime.v2.task", "*", "*", "address"))
	var sockets []string
	for _, path := range bundles {
		address, err := os.ReadFile(path)
		if socket, ok := strings.CutPrefix(strings.TrimSpace(string(address)), "unix://"); ok && err == nil {
			sockets = append(sockets, socket)
		}
	}
	return sockets
}

// removeShimSockets removes the sockets of killed shims. Nothing else would.
func (c *cluster) removeShimSockets() error {
	var errs []error
	for _, socket := range c.shimSockets() {
		if connection, err := net.DialTimeout("unix", socket, requestTimeout); err == nil {
			connection.Close()
			continue // the shim is alive
		}
		if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("cannot remove a shim's socket: %w", err))
		}
	}
	return errors.Join(errs...)
}

// removeLogLinks removes the kubelet's links to pods' logs, from a directory that
// all kubelets share.
func (c *cluster) removeLogLinks() error {
	links, _ := filepath.Glob("/var/log/containers/*.log")
	var errs []error
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, c.path("pods")+"/") {
			errs = append(errs, os.Remove(link))
		}
	}
	return errors.Join(errs...)
}
