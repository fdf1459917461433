package proc

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
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

// snapshot is the processes of one scan of /proc, besides this one and PID 1.
type snapshot struct {
	listed map[int]bool
	alive  []member
	buf    []byte
}

// extend lists /proc and reads the processes that were not listed before. It
// reports whether there were any: while it looked at one, that one may have
// started another.
func (s *snapshot) extend() (bool, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return false, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false, err
	}
	fresh := false
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= 1 || pid == os.Getpid() || s.listed[pid] {
			continue
		}
		s.listed[pid] = true
		fresh = true
		if m, ok := readMember(pid, s.buf); ok && m.alive() {
			m.exec = markerOf(pid)
			s.alive = append(s.alive, m)
		}
	}
	return fresh, nil
}

func readMember(pid int, buf []byte) (member, bool) {
	n, err := readProc(pid, "stat", buf)
	if err != nil {
		return member{}, false
	}
	return parseStat(pid, buf[:n])
}

// parseStat reads the fields of /proc/PID/stat (proc_pid_stat(5)). The second,
// the name, is in parentheses and may itself contain any byte, so that the
// fields are counted from its last one.
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

// markerOf returns the exec id in the environment that a process was started
// with, or "".
func markerOf(pid int) string {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return ""
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if id, ok := bytes.CutPrefix(v, []byte(MarkerEnv+"=")); ok {
			return string(id)
		}
	}
	return ""
}

func readProc(pid int, file string, buf []byte) (int, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return readRetry(fd, buf)
}

// same reports whether the process is still the one that was seen.
func (m member) same() bool {
	now, ok := readMember(m.pid, make([]byte, statSize))
	return ok && now.start == m.start
}

// signal sends sig to the process that was seen, and never to another that got
// its pid since. It is no error if the process is gone.
func (m member) signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(m.pid, 0)
	if errors.Is(err, unix.ENOSYS) {
		return m.signalByPid(sig)
	}
	if err != nil {
		return ignoreGone(err)
	}
	defer unix.Close(fd)
	if !m.same() {
		return nil
	}
	return ignoreGone(unix.PidfdSendSignal(fd, sig, nil, 0))
}

// signalByPid is for kernels without pidfds: the pid could still be given away
// between the look and the signal.
func (m member) signalByPid(sig unix.Signal) error {
	if !m.same() {
		return nil
	}
	return ignoreGone(unix.Kill(m.pid, sig))
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
