package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// PIDs returns the ids of all processes that /proc shows.
func (fs *FS) PIDs() ([]int, error) {
	var pids []int
	err := fs.with(root, func(fd int) error {
		buf := fs.buffer()
		defer fs.buffers.Put(buf)
		for {
			n, err := retry(func() (int, error) { return unix.ReadDirent(fd, buf[:]) })
			if n <= 0 || err != nil {
				return err
			}
			_, _, names := unix.ParseDirent(buf[:n], -1, nil)
			for _, name := range names {
				if pid, err := strconv.Atoi(name); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	})
	return pids, err
}

// Stat is what /proc/PID/stat says of a process.
type Stat struct {
	// State is a letter, such as 'R', or 'Z' for a zombie.
	State byte
	// Parent, Group and Session are process ids.
	Parent, Group, Session int
	// Threads is how many threads the process has. One whose first thread has ended has
	// the state of a zombie, and runs on with the others.
	Threads int
	// Start tells two processes that had the same id apart, in clock ticks since boot.
	Start uint64
}

// Ended reports whether nothing of the process runs any more.
func (s Stat) Ended() bool { return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1 }

// Stat returns the state of a process.
func (fs *FS) Stat(pid int) (s Stat, err error) {
	err = fs.read(pathOf(pid, "stat"), func(text []byte) error {
		ok := false
		if s, ok = parseStat(text); !ok {
			return fmt.Errorf("cannot read the state of process %d: %w", pid, unix.EINVAL)
		}
		return nil
	})
	return s, err
}

// parseStat reads the fields of /proc/PID/stat (proc_pid_stat(5)). The second field, the
// name, is in parentheses and may contain any byte. So the fields are counted from the
// last parenthesis.
func parseStat(text []byte) (Stat, bool) {
	_, rest, ok := bytes.Cut(text[max(0, bytes.LastIndexByte(text, ')')):], []byte(") "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 20 || len(fields[0]) != 1 {
		return Stat{}, false
	}
	s := Stat{State: fields[0][0]}
	for i, to := range []*int{1: &s.Parent, 2: &s.Group, 3: &s.Session, 17: &s.Threads} {
		if to == nil {
			continue
		}
		n, err := strconv.Atoi(string(fields[i]))
		if err != nil {
			return Stat{}, false
		}
		*to = n
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	s.Start = start
	return s, err == nil
}

// Getenv returns the value of a variable in the environment that a process was started
// with, "" if it is not whole in its first 64 KiB.
func (fs *FS) Getenv(pid int, name string) (value string, err error) {
	err = fs.read(pathOf(pid, "environ"), func(text []byte) error {
		if len(text) == maxRead { // the last one may be cut
			text = text[:bytes.LastIndexByte(text, 0)+1]
		}
		for v := range bytes.SplitSeq(text, []byte{0}) {
			if rest, ok := bytes.CutPrefix(v, []byte(name)); ok && len(rest) > 0 && rest[0] == '=' {
				value = string(rest[1:])
				return nil
			}
		}
		return nil
	})
	return value, err
}

// HardLimits returns two hard limits of a process, of file locks and of the real-time
// timeout, [math.MaxUint64] for none. It is for processes of other users, where
// prlimit(2) fails.
func (fs *FS) HardLimits(pid int) (locks, rttime uint64, err error) {
	found := 0
	err = fs.read(pathOf(pid, "limits"), func(text []byte) error {
		for line := range bytes.Lines(text) {
			for name, to := range map[string]*uint64{"Max file locks ": &locks, "Max realtime timeout ": &rttime} {
				rest, ok := bytes.CutPrefix(line, []byte(name))
				if fields := bytes.Fields(rest); ok && len(fields) > 1 {
					*to = parseLimit(string(fields[1]))
					found++
				}
			}
		}
		if found != 2 {
			return fmt.Errorf("cannot read the limits of process %d: %w", pid, unix.EINVAL)
		}
		return nil
	})
	return locks, rttime, err
}

func parseLimit(text string) uint64 {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	return math.MaxUint64 // "unlimited"
}

// Unreclaimable is how many bytes a process holds that the kernel can't get back. Mapped
// files are therefore left out. Shared pages count for each process that shares them.
func (fs *FS) Unreclaimable(pid int) (size int64, err error) {
	err = fs.read(pathOf(pid, "status"), func(text []byte) error {
		for line := range bytes.Lines(text) {
			name, value, _ := strings.Cut(string(line), ":")
			if name != "RssAnon" && name != "RssShmem" {
				continue
			}
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			size += n << 10
		}
		return nil
	})
	return size, err
}

const oomScoreAdj = "oom_score_adj"

// OOMScoreAdj returns by how much the kernel prefers this process when it must kill one
// for memory, from -1000 to 1000.
func (fs *FS) OOMScoreAdj() (score int, err error) {
	err = fs.read(root+"/self/"+oomScoreAdj, func(text []byte) error {
		score, err = strconv.Atoi(string(bytes.TrimSpace(text)))
		return err
	})
	return score, err
}

// SetOOMScoreAdj sets the score of a process, a decimal number from -1000 to 1000. It does
// nothing if there is no such process. The error is [unix.EACCES] for one that belongs to
// somebody else. To the kernel that is also one that has ended, or whose exec is not over.
func SetOOMScoreAdj(pid int, score string) error {
	fd, err := open(pathOf(pid, oomScoreAdj), unix.O_WRONLY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(score))
	return err
}

// NoNewPrivs reports whether a process has no_new_privs, which it can never shed.
func (fs *FS) NoNewPrivs(pid int) (has bool, err error) {
	err = fs.read(pathOf(pid, "status"), func(text []byte) error {
		has = bytes.Contains(text, []byte("\nNoNewPrivs:\t1\n"))
		return nil
	})
	return has, err
}

// InNamespaceBelow reports whether a process is in a namespace of ids below that of /proc, and whether it is the
// first one there.
func (fs *FS) InNamespaceBelow(pid int) (below, first bool, err error) {
	err = fs.read(pathOf(pid, "status"), func(text []byte) error {
		_, rest, _ := bytes.Cut(text, []byte("\nNStgid:\t"))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		ids := bytes.Fields(line) // one for each namespace
		below = len(ids) > 1
		first = below && string(ids[len(ids)-1]) == "1"
		return nil
	})
	return below, first, err
}

// ControlGroup returns the path of a process's control group of version 2, in the tree that this process sees, and "" where
// there is none.
func (fs *FS) ControlGroup(pid int) (path string, err error) {
	err = fs.read(pathOf(pid, "cgroup"), func(text []byte) error {
		for line := range bytes.Lines(text) {
			if rest, ok := bytes.CutPrefix(line, []byte("0::")); ok {
				path = string(bytes.TrimSuffix(rest, []byte("\n")))
			}
		}
		return nil
	})
	return path, err
}
