// Package cgroup reads the control groups that the calling process runs in: how much
// memory they have left, how many processes they may have, how often the kernel
// enforced either limit, and what they use. It knows both versions of control groups and
// changes nothing.
//
// https://docs.kernel.org/admin-guide/cgroup-v2.html,
// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
package cgroup

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/eintr"
)

// Groups are the control groups of memory and of processes that a process runs in. If
// none can be seen, all counts stay 0 and there is no limit. Its methods may be called
// concurrently.
type Groups struct {
	// Memory are the groups that have a limit of memory: the process's own and
	// those above it.
	Memory []*Memory
	// ProcessMax is the limit of processes, 0 if none is known.
	ProcessMax int64

	// oom counts the processes that the kernel killed for memory, limit the starts
	// that the limit of processes prevented.
	oom, limit *statFile
	// refused counts the starts that [Groups.CountRefused] was told of.
	refused atomic.Int64
}

// Events are counts since some time before: only their growth means something.
type Events struct {
	// OOMKills counts the processes that the kernel killed for memory.
	OOMKills int64
	// ProcessLimit counts the starts that the limit of processes prevented.
	ProcessLimit int64
}

// Events returns both counts.
func (c *Groups) Events() Events {
	return Events{OOMKills: c.OOMKills(), ProcessLimit: c.ProcessLimit()}
}

// OOMKills is [Events.OOMKills] alone.
func (c *Groups) OOMKills() int64 { return c.oom.value("oom_kill") }

// ProcessLimit is [Events.ProcessLimit] alone.
func (c *Groups) ProcessLimit() int64 { return c.limit.value("max") + c.refused.Load() }

// CountRefused counts a start that failed for the limit in [Events.ProcessLimit]. The
// kernel counts it only for a limit of the process's own group.
func (c *Groups) CountRefused() { c.refused.Add(1) }

// Open finds the groups of the calling process. root is "/", or a test's directory with
// the files. The caller closes them.
func Open(root string) *Groups {
	c := &Groups{}
	if dirs := controllerDirs(root, "pids"); len(dirs) > 0 {
		c.limit = openStat(dirs[0].path, "pids.events")
		for _, d := range dirs {
			if n, ok := readNumber(filepath.Join(d.path, "pids.max")); ok && (c.ProcessMax == 0 || n < c.ProcessMax) {
				c.ProcessMax = n
			}
		}
	}
	for i, d := range controllerDirs(root, "memory") {
		if i == 0 && d.v2 {
			c.oom = openStat(d.path, "memory.events")
		} else if i == 0 {
			c.oom = openStat(d.path, "memory.oom_control")
		}
		if g := openMemory(root, d); g != nil {
			c.Memory = append(c.Memory, g)
		}
	}
	return c
}

// Close closes the files of the groups. Afterwards all counts are 0.
func (c *Groups) Close() {
	c.oom.close()
	c.limit.close()
	for _, g := range c.Memory {
		g.close()
	}
}

// groupDir is the directory of one group.
type groupDir struct {
	path string
	v2   bool
}

// controllerDirs are the directories of the group that the process is in and
// of those above it, as far as they are mounted, for one controller.
func controllerDirs(root, controller string) []groupDir {
	mounts, _ := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	v1, v2 := memberships(string(groups), controller)
	for line := range strings.Lines(string(mounts)) {
		m, ok := parseMount(line)
		switch {
		case !ok:
		case v1 != "" && m.kind == "cgroup" && m.has(controller):
			return m.dirs(root, v1, false)
		case v1 == "" && v2 != "" && m.kind == "cgroup2":
			return m.dirs(root, v2, true)
		}
	}
	return nil
}

// memberships are the paths of the process's groups: that of a controller in version 1,
// empty if version 1 does not have the controller, and that in version 2 (cgroups(7)).
func memberships(groups, controller string) (v1, v2 string) {
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) != 3:
		case fields[0] == "0" && fields[1] == "":
			v2 = fields[2]
		case hasWord(fields[1], controller):
			v1 = fields[2]
		}
	}
	return v1, v2
}

// mount is a mounted hierarchy of groups.
type mount struct{ root, point, kind, options string }

// parseMount reads a line of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
func parseMount(line string) (mount, bool) {
	before, after, ok := strings.Cut(line, " - ")
	head, tail := strings.Fields(before), strings.Fields(after)
	if !ok || len(head) < 5 || len(tail) < 3 {
		return mount{}, false
	}
	return mount{root: head[3], point: head[4], kind: tail[0], options: tail[2]}, true
}

func (m mount) has(controller string) bool { return hasWord(m.options, controller) }

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// dirs are the directories of a group and of those above it, up to the mount. A group
// that is not below the mounted one counts as the mount itself, as in a container
// without a name space of its own for groups.
func (m mount) dirs(root, group string, v2 bool) []groupDir {
	below, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
	if !ok || strings.Contains(below, "..") {
		below = "/"
	}
	var dirs []groupDir
	for {
		dirs = append(dirs, groupDir{filepath.Join(root, m.point, below), v2})
		if below == "/" || below == "" {
			return dirs
		}
		below = path.Dir(path.Clean("/" + below))
	}
}

// readNumber reads a file with one number. "max", or a number so large that it means
// the same, is none.
func readNumber(file string) (int64, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	return parseLimit(b)
}

func parseLimit(b []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	return n, err == nil && n < noLimit
}

// statFile is a file of numbers with names. It stays open, so that it can be read
// again when no descriptor is left. A nil one has no numbers.
type statFile struct {
	file *os.File
	raw  syscall.RawConn
}

func openStat(dir, name string) *statFile {
	fd, err := eintr.Open(filepath.Join(dir, name))
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), name)
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil
	}
	return &statFile{file: file, raw: raw}
}

func (s *statFile) close() {
	if s != nil {
		s.file.Close()
	}
}

// read returns the beginning of the file, at most size bytes. It makes one system
// call, because the kernel counts anew for each.
func (s *statFile) read(size int) []byte {
	if s == nil {
		return nil
	}
	buf, n := make([]byte, size), 0
	s.raw.Control(func(fd uintptr) {
		_ = eintr.Repeat(func() (err error) { // n says enough
			n, err = unix.Pread(int(fd), buf, 0)
			return err
		})
	})
	return buf[:max(n, 0)]
}

// value returns one number, 0 if there is none.
func (s *statFile) value(name string) int64 { return named(s.read(eventsSize), name) }

// named returns the number that a line gives a name: "name 7". It is 0 if none does.
func named(text []byte, name string) int64 {
	if n := find(text, name); n != nil {
		return *n
	}
	return 0
}
