package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// hierarchy is a mounted hierarchy of control groups.
type hierarchy struct {
	mount   string
	unified bool // version 2
}

// hierarchies lists the machine's hierarchies: a single one in version 2, one per
// controller in version 1.
func hierarchies() ([]hierarchy, error) {
	mounts, err := readMounts()
	if err != nil {
		return nil, err
	}
	var found []hierarchy
	for _, m := range mounts {
		if m.kind == "cgroup" || m.kind == "cgroup2" {
			found = append(found, hierarchy{mount: m.path, unified: m.kind == "cgroup2"})
		}
	}
	if found == nil {
		return nil, errors.New("cannot run pods: no control groups are mounted")
	}
	return found, nil
}

// makeCgroups makes the pods' group in each hierarchy.
func (c *cluster) makeCgroups() error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		if h.unified {
			err = delegate(h.mount)
		}
		group := filepath.Join(h.mount, c.CgroupRoot)
		if err == nil {
			err = os.MkdirAll(group, 0o755)
		}
		if err == nil {
			err = inheritCPUs(h.mount, group)
		}
		if err != nil {
			return fmt.Errorf("cannot make the pods' control group: %w", err)
		}
	}
	return nil
}

// delegate lets groups below a version 2 root use the controllers that the kubelet
// needs, as far as the root has them. Beside version 1 it has none.
func delegate(root string) error {
	available, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(available)) {
		switch controller {
		case "cpu", "cpuset", "memory", "pids", "io", "hugetlb":
			if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// inheritCPUs gives a new group of version 1's cpuset controller the processors of
// its parent. A new group has none, and could not hold a process.
func inheritCPUs(parent, group string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(group, name))
		if errors.Is(err, fs.ErrNotExist) || strings.TrimSpace(string(own)) != "" {
			continue
		}
		value, err := os.ReadFile(filepath.Join(parent, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // version 2, where an empty group inherits
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(group, name), value, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cgroups lists the pods' groups in all hierarchies, children before parents.
func (c *cluster) cgroups() ([]string, error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, h := range all {
		var below []string
		err := filepath.WalkDir(filepath.Join(h.mount, c.CgroupRoot), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				below = append(below, path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the group has gone meanwhile
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for i := range below {
			groups = append(groups, below[len(below)-1-i])
		}
	}
	return groups, nil
}

// killPods kills all processes in the pods' groups, repeatedly until there are
// none, because a single pass misses processes that are just being forked.
func (c *cluster) killPods(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	return until(ctx, func() (bool, error) {
		groups, err := c.cgroups()
		if err != nil {
			return false, err
		}
		found := 0
		for _, group := range groups {
			for _, pid := range members(group) {
				found++
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill()
				}
			}
		}
		return found == 0, nil
	})
}

// members lists the processes in one group. Processes in a namespace that is not
// visible from here have the number 0.
func members(group string) []int {
	file, err := os.Open(filepath.Join(group, "cgroup.procs"))
	if err != nil {
		return nil
	}
	defer file.Close()
	var pids []int
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if pid, err := strconv.Atoi(lines.Text()); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// removeCgroups removes the pods' groups. The kernel may hold a group for a moment
// after its last process has ended.
func (c *cluster) removeCgroups(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	var last error
	err := until(ctx, func() (bool, error) {
		groups, err := c.cgroups()
		last = nil
		for _, group := range groups {
			if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
				last = err
			}
		}
		return last == nil, err
	})
	if err != nil {
		return fmt.Errorf("cannot remove the pods' control groups: %w", errors.Join(err, last))
	}
	return nil
}
