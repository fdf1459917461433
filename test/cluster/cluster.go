package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// cluster is the cluster of a directory, whether it is up or not.
type cluster struct {
	layout
	// slotted says that the layout's slot belongs to this cluster, which is so from
	// its first up on.
	slotted bool
	wantBin string // the requested directory, or empty
	out     io.Writer
	// recording guards pids.json while programs start in parallel. The lock of the
	// directory guards it between calls.
	recording sync.Mutex
}

// open finds the cluster of a directory. An empty bin stands for the bin that it
// had before, or the directory's own.
func open(dir, bin string, out io.Writer) (*cluster, error) {
	dir, err := realPath(dir)
	if err != nil {
		return nil, err
	}
	c := &cluster{wantBin: bin, out: out}
	c.dir = dir
	return c, c.read()
}

// read finds the cluster's slot, and so the paths of its files.
func (c *cluster) read() error {
	known, err := readFacts(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		known.Slot, err = claimed(c.dir)
	}
	c.slotted = err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	bin, err := realPath(cmp.Or(c.wantBin, known.Bin, filepath.Join(c.dir, "bin")))
	c.layout = newLayout(c.dir, bin, known.Slot)
	return err
}

// realPath makes a path absolute and resolves symlinks, as far as it exists.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	missing := ""
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, missing), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		missing = filepath.Join(filepath.Base(path), missing)
		path = filepath.Dir(path)
	}
}

// say prints a line of progress.
func (c *cluster) say(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }

// lock is lockFile for a lock that another call may hold for minutes. It reports
// that it waits.
func (c *cluster) lock(ctx context.Context, path string) (unlock func(), err error) {
	defer c.report(reportEvery, func() string { return "waiting for another call, which has locked " + path })()
	return lockFile(ctx, path)
}

// locked calls work while no other call uses the directory.
func (c *cluster) locked(ctx context.Context, work func(ctx context.Context) error) error {
	unlock, err := c.lock(ctx, c.path("lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.read(); err != nil { // the call that held the lock may have changed it
		return err
	}
	return work(ctx)
}

// up brings the cluster up, or the missing parts of it.
func (c *cluster) up(ctx context.Context) error {
	if err := c.need(ctx); err != nil {
		return err
	}
	if err := asRoot(); err != nil {
		return err
	}
	return c.locked(ctx, func(ctx context.Context) error {
		built, err := c.build(ctx)
		if err != nil {
			return err
		}
		if !built && c.slotted && c.well(ctx) == nil {
			c.say("the cluster is up already: %s", c.Kubeconfig)
			return nil
		}
		c.say("starting the cluster: some 10 s")
		began := time.Now()
		if err := c.start(ctx); err != nil {
			return err
		}
		c.say("the cluster is up after %.1f s: %s", time.Since(began).Seconds(), c.Kubeconfig)
		return nil
	})
}

// start prepares the machine and starts the programs that are not running, each
// after those that it needs.
func (c *cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	if err := c.takeSlot(ctx); err != nil {
		return err
	}
	if err := c.clearEmptied(ctx); err != nil {
		return err
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := together(
		func() error { return c.ensure(ctx, c.etcd()) },
		func() error { return c.ensure(ctx, c.containerd()) },
	); err != nil {
		return err
	}
	if err := together(
		func() error { return c.ensure(ctx, c.apiServer()) },
		func() error { return c.loadPause(ctx) },
	); err != nil {
		return err
	}
	if err := together(
		func() error { return c.ensure(ctx, c.controllerManager()) },
		func() error { return c.ensure(ctx, c.scheduler()) },
		func() error { return c.ensure(ctx, c.policies()) },
		func() error { return c.ensure(ctx, c.kubelet()) },
		func() error { return c.makeRuntimeClass(ctx) },
	); err != nil {
		return err
	}
	return c.waitUntilWell(ctx)
}

// clearEmptied takes down a cluster whose directory was emptied while it was up.
// Such a cluster has lost its files and uses certificates that no longer exist.
func (c *cluster) clearEmptied(ctx context.Context) error {
	if exists(c.pki("complete")) || !exists(c.run()) {
		return nil
	}
	c.say("removing what is left of the cluster that was in %s", c.dir)
	return errors.Join(c.stopAll(ctx), c.removeAll(ctx))
}

// prepare writes the configuration and sets up what the programs need.
func (c *cluster) prepare(ctx context.Context) error {
	if err := c.makeCertificates(); err != nil {
		return err
	}
	for path, file := range map[string]string{
		c.Kubeconfig:                           "admin",
		c.pki("controller-manager.kubeconfig"): "controller-manager",
		c.pki("scheduler.kubeconfig"):          "scheduler",
		c.pki("kubelet.kubeconfig"):            "kubelet",
	} {
		if err := c.writeKubeconfig(path, file); err != nil {
			return err
		}
	}
	if err := errors.Join(c.writeContainerdConfig(), c.writeGVisorConfig(), c.writeCNIConfig(), c.writeKubeletConfig()); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(c.run(), 0o700), saveSysctls(ctx), c.removeShimSockets()); err != nil {
		return err
	}
	if err := c.makeNetwork(ctx); err != nil {
		return err
	}
	return c.makeCgroups()
}

// programs returns the programs of the cluster in the order of their start.
func (c *cluster) programs() []program {
	return []program{
		c.etcd(), c.containerd(), c.apiServer(), c.controllerManager(), c.scheduler(), c.policies(), c.kubelet(),
	}
}

// well returns nil if the whole cluster works, and otherwise what is wrong.
func (c *cluster) well(ctx context.Context) error {
	if !exists(c.pki("complete")) {
		return errors.New("the cluster is down")
	}
	var checks []func() error
	for _, p := range c.programs() {
		checks = append(checks, func() error { return c.check(ctx, p) })
	}
	return together(append(checks, func() error { return c.nodeReady(ctx) })...)
}

// waitUntilWell waits for the node after all programs have started.
func (c *cluster) waitUntilWell(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var last error
	err := until(ctx, func() (bool, error) {
		if now := c.well(ctx); now == nil || ctx.Err() == nil {
			last = now
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("the cluster does not get ready: %w", errors.Join(err, last))
	}
	return nil
}

// status prints the state of each program. It returns an error if one is not well.
func (c *cluster) status(ctx context.Context) error {
	if !c.slotted {
		return fmt.Errorf("there is no cluster in %s", c.dir)
	}
	for _, p := range c.programs() {
		state := "healthy"
		if err := c.check(ctx, p); err != nil {
			state = err.Error()
		}
		running, _ := c.running(p)
		c.say("%-18s %7d  %s", p.name, running.PID, state)
	}
	if err := c.well(ctx); err != nil {
		return err
	}
	c.say("node %s is ready; kubeconfig: %s", c.Node, c.Kubeconfig)
	return nil
}

// together calls functions in parallel and returns all their errors.
func together(work ...func() error) error {
	errs := make([]error, len(work))
	var group sync.WaitGroup
	for i, f := range work {
		group.Go(func() { errs[i] = f() })
	}
	group.Wait()
	return errors.Join(errs...)
}
