// Package limitgroup makes control groups that limit sandboxes of this machine, where the system lets this user make
// some, and ends all that is in them. It is for version 2 of control groups, from Linux 5.14 on.
//
// https://docs.kernel.org/admin-guide/cgroup-v2.html, "Delegation"
package limitgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits are those of a group with all that is in it. 0 is none.
type Limits struct {
	Memory    int64   // in bytes, of which none is swapped out
	Processes int64   // and threads
	CPU       float64 // processors
}

// Controller is a part of the kernel that counts and limits something.
type Controller string

// The controllers of the limits.
const (
	Memory    Controller = "memory"
	Processes Controller = "pids"
	CPU       Controller = "cpu"
)

// controllers are those that limits need.
func (l Limits) controllers() (list []Controller) {
	if l.Memory > 0 {
		list = append(list, Memory)
	}
	if l.Processes > 0 {
		list = append(list, Processes)
	}
	if l.CPU > 0 {
		list = append(list, CPU)
	}
	return list
}

// Group is a control group. It has another one in it for the processes. So no process can get at the limits of
// the outer one, even if it mounts the tree of its own groups; and nobody can take the controllers away from
// that, which a manager of the system might do otherwise.
type Group struct {
	Path string // of the directory
	// Missing are the controllers of its limits that it lacks, and so does not keep.
	Missing []Controller
}

const (
	prefix = "podagent-"
	inner  = "processes"
)

// Make makes a group with these limits, as near above this process as the user may. A group with all
// controllers goes before a nearer one. name tells it from others.
func Make(name string, limits Limits) (*Group, error) {
	mount, own, err := membership()
	if err != nil {
		return nil, err
	}
	regainAll(mount, own)
	var best *Group
	var refused error
	for dir := own; ; dir = filepath.Dir(dir) {
		g, err := makeIn(filepath.Join(mount, dir), name, limits)
		if err == nil {
			best, err = better(best, g)
		}
		if refused == nil {
			refused = err
		}
		if best != nil && len(best.Missing) == 0 || dir == "/" || dir == "." {
			break
		}
	}
	if best == nil {
		return nil, refused
	}
	return best, nil
}

// better returns the one of two new groups that lacks less, and removes the other. The first may be nil.
func better(first, second *Group) (*Group, error) {
	if first == nil {
		return second, nil
	}
	if len(second.Missing) < len(first.Missing) {
		first, second = second, first
	}
	return first, second.remove()
}

// membership returns where the tree of groups is mounted, and this process's group in it.
func membership() (mount, own string, err error) {
	for _, path := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if isTree(path) {
			mount = path
			break
		}
	}
	if mount == "" {
		return "", "", errors.New("version 2 of control groups is not mounted")
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok && !strings.Contains(path, "..") {
			return mount, path, nil
		}
	}
	return "", "", errors.New("this process is in no control group that it can see")
}

// isTree reports whether a path is in a tree of version 2.
func isTree(path string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(path, &stat) == nil && stat.Type == unix.CGROUP2_SUPER_MAGIC
}

// makeIn makes a group in another one.
func makeIn(dir, name string, limits Limits) (*Group, error) {
	// Who starts a process in a group needs this right for the group above both.
	if err := unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK); err != nil {
		return nil, &os.PathError{Op: "access", Path: filepath.Join(dir, "cgroup.procs"), Err: err}
	}
	enable(dir, limits)
	g := &Group{Path: filepath.Join(dir, prefix+name)}
	if err := os.Mkdir(g.Path, 0o755); err != nil {
		return nil, err
	}
	err := g.furnish(limits)
	if err != nil {
		return nil, errors.Join(err, g.remove())
	}
	return g, nil
}

// regainAll gives this user the right again to use its own groups, from the highest one down to the path own below mount:
// no group can be reached while one above it cannot.
func regainAll(mount, own string) {
	dir := mount
	for name := range strings.SplitSeq(strings.Trim(own, "/"), "/") {
		if dir = filepath.Join(dir, name); isOwn(dir) {
			regain(dir)
		}
	}
}

// isOwn reports whether a group was given to this user, and not to root, who may have made it with other modes on
// purpose.
func isOwn(dir string) bool {
	var stat unix.Stat_t
	return os.Geteuid() != 0 && unix.Stat(dir, &stat) == nil && int64(stat.Uid) == int64(os.Geteuid())
}

// enable has the groups in a directory get the controllers, as far as that can be: not where there are
// processes in the directory's group itself.
func enable(dir string, limits Limits) {
	for _, c := range limits.controllers() {
		_ = set(dir, "cgroup.subtree_control", "+"+string(c))
	}
}

func (g *Group) furnish(limits Limits) error {
	enable(g.Path, limits)
	processes := filepath.Join(g.Path, inner)
	if err := os.Mkdir(processes, 0o755); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(processes, "cgroup.kill")); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(processes, "cgroup.controllers"))
	if err != nil {
		return err
	}
	has := strings.Fields(string(text))
	for _, c := range limits.controllers() {
		if !slices.Contains(has, string(c)) {
			g.Missing = append(g.Missing, c)
			continue
		}
		// The agent looks at the limits of its own group.
		if err := errors.Join(c.limit(g.Path, limits), c.limit(processes, limits)); err != nil {
			return err
		}
	}
	return nil
}

// limit sets the limit that a controller has for a group.
func (c Controller) limit(dir string, limits Limits) error {
	switch c {
	case Processes:
		return set(dir, "pids.max", strconv.FormatInt(limits.Processes, 10))
	case CPU:
		return set(dir, "cpu.max", fmt.Sprintf("%d %d", int64(limits.CPU*cpuPeriod), cpuPeriod))
	}
	for name, value := range map[string]string{"memory.swap.max": "0", "memory.oom.group": "0"} {
		if err := set(dir, name, value); err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without swap
			return err
		}
	}
	return set(dir, "memory.max", strconv.FormatInt(limits.Memory, 10))
}

// cpuPeriod is the time, in microseconds, in which the group gets its share of the processors: the kernel's
// own default.
const cpuPeriod = 100_000

func set(dir, name, value string) error {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// Open opens the directory of the group for processes: see [syscall.SysProcAttr].CgroupFD.
func (g *Group) Open() (*os.File, error) { return os.Open(filepath.Join(g.Path, inner)) }
