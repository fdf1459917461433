package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/eintr"
)

// member is one process of the sandbox as /proc shows it.
type member struct {
	pid, parent, group, session int
	state                       byte
	// start tells two processes that had the same pid apart, in clock ticks
	// since boot.
	start uint64
	// exec is the exec id in its environment, or "".
	exec string
}

// alive is false for a zombie, which only waits to be reaped.
func (m member) alive() bool { return m.state != 'Z' && m.state != 'X' }

// procfs reads /proc. It keeps a descriptor in reserve, so that processes can
// be found, and ended, also when the agent has no descriptor left.
type procfs struct {
	mu sync.Mutex
	// spare is the reserve; 0, which the runtime holds open, means none.
	spare int
}

// replenish opens the spare descriptor if it is missing.
func (fs *procfs) replenish() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.refill()
}

// refill is replenish for callers that hold the lock.
func (fs *procfs) refill() {
	if fs.spare != 0 {
		return
	}
	if fd, err := eintr.Open("/proc"); err == nil {
		fs.spare = fd
	}
}

// close gives the spare descriptor back.
func (fs *procfs) close() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.spare != 0 {
		unix.Close(fs.spare)
		fs.spare = 0
	}
}

// with opens a file for the time of read.
func (fs *procfs) with(path string, read func(fd int) error) error {
	fd, err := eintr.Open(path)
	if starved(err) {
		return fs.withSpare(path, read)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return read(fd)
}

// withSpare gives up the spare descriptor and opens a file instead. The file stays
// open as the new spare, so that nobody else gets the descriptor.
func (fs *procfs) withSpare(path string, read func(fd int) error) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.spare != 0 {
		unix.Close(fs.spare)
		fs.spare = 0
	}
	fd, err := eintr.Open(path)
	if err != nil {
		fs.refill()
		return err
	}
	fs.spare = fd
	return read(fd)
}

// starved reports whether an error is about the resources of the agent or the
// machine, and says nothing about the process.
func starved(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// pids lists the processes.
func (fs *procfs) pids() ([]int, error) {
	var pids []int
	err := fs.with("/proc", func(fd int) error {
		buf := make([]byte, direntSize)
		for {
			n, err := unix.ReadDirent(fd, buf)
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

// snapshot is the processes of one scan of /proc, without this one and PID 1.
type snapshot struct {
	fs     *procfs
	listed map[int]bool
	alive  []member
}

// extend lists /proc and reads the processes that were not listed before. It reports
// whether there were any, because each may have started another meanwhile. After an
// error it may have missed some.
func (s *snapshot) extend() (fresh bool, err error) {
	pids, err := s.fs.pids()
	if err != nil {
		return false, fmt.Errorf("cannot list the processes: %w", err)
	}
	for _, pid := range pids {
		if pid <= 1 || pid == os.Getpid() || s.listed[pid] {
			continue
		}
		m, err := s.fs.lookAt(pid)
		if starved(err) {
			return fresh, fmt.Errorf("cannot look at process %d: %w", pid, err)
		}
		s.listed[pid] = true
		fresh = true
		if err == nil && m.alive() {
			s.alive = append(s.alive, m)
		}
	}
	return fresh, nil
}

// lookAt returns a process with its marker.
func (fs *procfs) lookAt(pid int) (member, error) {
	m, err := fs.member(pid)
	if err != nil || !m.alive() {
		return m, err
	}
	m.exec, err = fs.marker(pid)
	if starved(err) {
		return m, err
	}
	return m, nil // a process that hides its environment counts as one without a marker
}

// member returns a process, without its marker.
func (fs *procfs) member(pid int) (m member, err error) {
	err = fs.with(procPath(pid, "stat"), func(fd int) error {
		buf := make([]byte, statSize)
		n, err := readRetry(fd, buf)
		if err != nil {
			return err
		}
		ok := false
		if m, ok = parseStat(pid, buf[:n]); !ok {
			return fmt.Errorf("cannot read the state of process %d: %w", pid, unix.EINVAL)
		}
		return nil
	})
	return m, err
}

func procPath(pid int, file string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + file
}

// parseStat reads the fields of /proc/PID/stat (proc_pid_stat(5)). The second field, the
// name, is in parentheses and may contain any byte. So the fields are counted from the
// last parenthesis.
func parseStat(pid int, stat []byte) (member, bool) {
	_, rest, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 20 || len(fields[0]) != 1 {
		return member{}, false
	}
	m := member{pid: pid, state: fields[0][0]}
	for i, to := range []*int{&m.parent, &m.group, &m.session} {
		n, err := strconv.Atoi(string(fields[i+1]))
		if err != nil {
			return member{}, false
		}
		*to = n
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	m.start = start
	return m, err == nil
}

// marker returns the exec id in the environment that a process was started
// with, or "".
func (fs *procfs) marker(pid int) (id string, err error) {
	err = fs.with(procPath(pid, "environ"), func(fd int) error {
		env, err := readAll(fd)
		for v := range bytes.SplitSeq(env, []byte{0}) {
			if v, ok := bytes.CutPrefix(v, []byte(markerEnv+"=")); ok {
				id = string(v)
				return nil
			}
		}
		return err
	})
	return id, err
}

func readAll(fd int) ([]byte, error) {
	b := make([]byte, 0, statSize)
	for {
		b = slices.Grow(b, statSize)
		n, err := readRetry(fd, b[len(b):cap(b)])
		if n <= 0 || err != nil {
			return b, err
		}
		b = b[:len(b)+n]
	}
}
