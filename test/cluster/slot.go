package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// takeSlot makes sure that the cluster has a slot of which nobody else uses
// anything, and writes cluster.json. A new cluster takes the first free slot.
func (c *cluster) takeSlot(ctx context.Context) error {
	unlock, err := lockFile(ctx, machineLock)
	if err != nil {
		return err
	}
	defer unlock()
	if !c.slotted {
		slot, err := firstFree(func(slot int) error { return newLayout(c.dir, c.Bin, slot).taken(true) })
		if err != nil {
			return err
		}
		c.layout = newLayout(c.dir, c.Bin, slot)
		c.slotted = true
	} else if err := c.taken(false); err != nil {
		return fmt.Errorf("cannot start the cluster again in slot %d: %w; free it, or take another slot: down, and remove %s",
			c.Slot, err, c.path("cluster.json"))
	}
	if err := writeFile(claimPath(c.Slot), []byte(c.dir)); err != nil {
		return err
	}
	return writeJSON(c.path("cluster.json"), c.facts)
}

// firstFree finds the first slot that is entirely free.
func firstFree(taken func(slot int) error) (int, error) {
	var reasons []error
	for slot := range slots {
		reason := taken(slot)
		if reason == nil {
			return slot, nil
		}
		reasons = append(reasons, fmt.Errorf("slot %d: %w", slot, reason))
	}
	return 0, fmt.Errorf("cannot find a free slot: %w", errors.Join(reasons...))
}

// taken returns nil if the slot is free, and otherwise says who uses part of it. It
// checks the ports only on the first start: later, some are the cluster's own, and
// each program's ports are checked before its start.
func (l layout) taken(withPorts bool) error {
	if owner := claimant(l.Slot); owner != "" && owner != l.dir {
		return fmt.Errorf("the slot belongs to the cluster in %s", owner)
	}
	if err := l.bridgeTaken(); err != nil {
		return err
	}
	if err := subnetTaken(l.Subnet, l.Bridge); err != nil {
		return err
	}
	if !withPorts {
		return nil
	}
	for _, name := range portNames {
		for _, ip := range []string{"127.0.0.1", l.BridgeAddress} {
			if err := portFree(fmt.Sprintf("%s:%d", ip, l.Ports[name])); err != nil {
				return err
			}
		}
	}
	return nil
}

// claimPath returns the file that names the owner of a slot.
func claimPath(slot int) string { return filepath.Join(runBase, fmt.Sprintf("slot-%d", slot)) }

// claimant returns the directory of the cluster that owns a slot, or "". A cluster
// keeps its slot while it is down, but not after its directory is gone.
func claimant(slot int) string {
	data, err := os.ReadFile(claimPath(slot))
	dir := strings.TrimSpace(string(data))
	if err != nil || !exists(filepath.Join(dir, "cluster.json")) {
		return ""
	}
	return dir
}

// claimed finds the slot that a directory has claimed. The error may be
// fs.ErrNotExist.
func claimed(dir string) (int, error) {
	for slot := range slots {
		data, err := os.ReadFile(claimPath(slot))
		if err == nil && strings.TrimSpace(string(data)) == dir {
			return slot, nil
		}
	}
	return 0, fs.ErrNotExist
}
