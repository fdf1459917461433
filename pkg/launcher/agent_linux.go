package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/pkg/procfs"
)

// startAgent starts the agent of the sandbox at p, and waits until it listens.
func (l *Local) startAgent(ctx context.Context, p *place) (*agentProcess, error) {
	binary, err := l.findAgent()
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(p.path(logFile), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd, err := p.startLimited(ctx, binary, out)
	if err != nil {
		return nil, fmt.Errorf("starting the agent: %w", err)
	}
	agent := &agentProcess{ended: make(chan struct{})}
	go func() {
		defer close(agent.ended)
		agent.err = cmd.Wait()
	}()
	l.log().Info("started agent", "sandbox", p.ID, "pid", cmd.Process.Pid)
	if err := awaitAgent(ctx, *p, agent); err != nil {
		_ = cmd.Process.Kill() // it is of no use; it may have ended already
		return nil, err
	}
	return agent, nil
}

// startLimited starts the agent under its limits.
func (p *place) startLimited(ctx context.Context, binary string, out *os.File) (*exec.Cmd, error) {
	r, err := p.newLimiter(p.Isolation.on())
	if err != nil {
		return nil, err
	}
	cmd, err := p.startUnder(ctx, r, binary, out)
	if err == nil || r.group == nil || ctx.Err() != nil {
		return cmd, err
	}
	// Some systems let groups be made, and nothing be put into them.
	why := errors.Join(err, r.end())
	if r, err = p.Limits.withoutGroup(why); err != nil {
		return nil, err
	}
	return p.startUnder(ctx, r, binary, out)
}

// startUnder starts the agent under a limiter.
func (p *place) startUnder(ctx context.Context, r limiter, binary string, out *os.File) (*exec.Cmd, error) {
	if err := p.remember(ctx, r.group); err != nil {
		return nil, errors.Join(err, r.end())
	}
	// The socket's path is relative to the directory, because the kernel
	// takes no more than 107 bytes.
	args := []string{"serve", "--listen", "unix:" + socketFile, "--workdir", p.Workdir}
	store, protected, err := p.store()
	if err != nil {
		return nil, errors.Join(err, r.end())
	}
	isolated, err := p.isolationFlags()
	if err != nil {
		return nil, errors.Join(err, r.end())
	}
	cmd := exec.Command(binary, slices.Concat(args, protected, egressFlags(p.Egress), isolated, r.flags, lineageFlags(p.Traces.Lineage))...)
	cmd.Dir, cmd.Env = p.dir, slices.Concat([]string{p.marker()}, store, scrub(os.Environ()))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives this process and its terminal
	return cmd, r.start(cmd)
}

// store makes the directory in which the agent keeps checkpoints, and returns the variable that names it. The agent
// goes on with a restore that was cut off before it can be configured, so its flags say what is protected. What is in
// memory has no checkpoints.
func (p *place) store() (variable, flags []string, err error) {
	if p.Isolation.Ephemeral > 0 {
		return nil, nil, nil
	}
	if err := os.Mkdir(p.path(ownStore), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, nil, err
	}
	for _, pattern := range p.Protected {
		flags = append(flags, "--protect="+string(pattern))
	}
	return []string{storeVariable + "=" + ownStore}, flags, nil
}

// awaitAgent waits until the agent listens, has exited, or startTimeout is over.
func awaitAgent(ctx context.Context, p place, agent *agentProcess) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the agent did not listen within %v", startTimeout))
	defer cancel()
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for {
		if running, err := answers(ctx, p.path(socketFile)); running {
			return nil
		} else if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-agent.ended:
			return agent.whyEnded(p.lastLog())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// whyEnded returns why an agent ended that did not come to serve, given what it logged last.
func (a *agentProcess) whyEnded(logged string) error {
	status := 0
	if exit, ok := errors.AsType[*exec.ExitError](a.err); ok {
		status = exit.ExitCode()
	}
	switch status {
	case wayout.ExitStatus:
		return fmt.Errorf("%w: the agent ended at once: %s", ErrEgress, logged)
	case isolation.ExitStatus:
		if _, reason, ok := strings.Cut(logged, ErrIsolation.Error()+": "); ok {
			logged = reason // the agent has said so in these words
		}
		return fmt.Errorf("%w: the agent ended at once: %s", ErrIsolation, logged)
	}
	return fmt.Errorf("the agent ended at once (%v): %s", exitText(a.err), logged)
}

// exitText says how a process ended, given the error of its Wait.
func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// lastLog returns the last line that the agent logged.
func (p place) lastLog() string {
	data, err := os.ReadFile(p.path(logFile))
	if err != nil {
		return err.Error()
	}
	data = bytes.TrimSpace(data)
	return string(data[bytes.LastIndexByte(data, '\n')+1:])
}

// scrub returns the agent's environment, which its processes inherit: the necessary
// variables of the host, and those that make programs print plainly. PODAGENT_CONFINE is
// for the agent alone.
func scrub(host []string) []string {
	var env []string
	for _, v := range host {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case name == "PATH", name == "HOME", name == "LANG", name == "LANGUAGE", strings.HasPrefix(name, "LC_"), name == "PODAGENT_CONFINE":
			env = append(env, v)
		}
	}
	return append(env, "TERM=dumb", "PAGER=cat", "GIT_PAGER=cat")
}

// stopAgent ends the agent of the sandbox at p, if one runs.
func (l *Local) stopAgent(ctx context.Context, p place) error {
	conn, err := dialer(p.path(socketFile))(ctx)
	if isNobody(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reaching the agent: %w", err)
	}
	// The kernel knows the socket's owner. A remembered pid may be another process's
	// by now.
	agent, err := peer(conn)
	var inside killed
	if err == nil {
		defer unix.Close(agent)
		inside, err = p.inside(conn, agent)
	}
	conn.Close()
	if err != nil {
		return fmt.Errorf("finding the agent's process: %w", err)
	}
	l.log().Info("stopping agent", "sandbox", p.ID)
	return errors.Join(stop(ctx, agent), inside.kill(), inside.await(ctx, stopTimeout))
}

// inside returns process 1 of a sandbox in namespaces. It ends with the process outside that listens, unless somebody
// has taken it over. agent is a descriptor of the process outside.
func (p place) inside(conn net.Conn, agent int) (inside killed, err error) {
	if isolation.Level(p.Isolation.Mode) != isolation.Namespaces {
		return inside, nil
	}
	cred, err := credentials(conn)
	if err != nil {
		return inside, err
	}
	var processes procfs.FS
	pids, err := processes.PIDs()
	if err != nil {
		return inside, err
	}
	for _, pid := range pids {
		if stat, err := processes.Stat(pid); err != nil || stat.Parent != int(cred.Pid) {
			continue
		}
		if pidfd, err := unix.PidfdOpen(pid, 0); err == nil {
			inside.add(pidfd)
		}
	}
	// While the process outside is there, no other one has its id.
	if err := unix.PidfdSendSignal(agent, 0, nil, 0); err != nil {
		inside.close()
		return killed{}, nil
	}
	return inside, nil
}

// stop ends a process: with TERM, and with KILL after stopTimeout.
func stop(ctx context.Context, agent int) error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := unix.PidfdSendSignal(agent, sig, nil, 0); errors.Is(err, unix.ESRCH) {
			return nil
		} else if err != nil {
			return fmt.Errorf("stopping the agent: %w", err)
		}
		ended, err := awaitEnd(ctx, agent, stopTimeout)
		if ended || err != nil {
			return err
		}
	}
	return fmt.Errorf("the agent did not end within %v of being killed", stopTimeout)
}

// awaitEnd waits for a process to end, and reports whether it has ended.
func awaitEnd(ctx context.Context, pidfd int, timeout time.Duration) (bool, error) {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(stopPoll.Milliseconds()))
		if n > 0 {
			return true, nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, err
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
	return false, nil
}

// peer returns a descriptor of the process that listens at the other end of
// a unix socket.
func peer(conn net.Conn) (pidfd int, err error) {
	// From Linux 6.5 on. Unlike the id of the process, this cannot mean another one.
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return -1, err
	}
	var optErr error
	err = raw.Control(func(fd uintptr) { pidfd, optErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD) })
	if err = errors.Join(err, optErr); !errors.Is(err, unix.ENOPROTOOPT) {
		return pidfd, err
	}
	cred, err := credentials(conn)
	if err != nil {
		return -1, err
	}
	return unix.PidfdOpen(int(cred.Pid), 0)
}

// credentials returns those that the process at the other end of a unix socket had when
// it began to listen.
func credentials(conn net.Conn) (cred *unix.Ucred, err error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return cred, errors.Join(err, credErr)
}

// checkListener returns an error if another user listens at the other end of a unix socket,
// and would get what callers send to an agent.
func checkListener(conn net.Conn) error {
	cred, err := credentials(conn)
	if err == nil && int64(cred.Uid) != int64(os.Geteuid()) {
		err = fmt.Errorf("user %d listens in place of its agent", cred.Uid)
	}
	return err
}

// answers reports whether anything listens on a unix socket. It returns an error if
// that cannot be found out.
func answers(ctx context.Context, path string) (bool, error) {
	conn, err := dialer(path)(ctx)
	if isNobody(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, conn.Close()
}

// isNobody reports whether err, from connecting to a unix socket, means that
// nothing listens: the socket does not exist, or its owner has ended.
func isNobody(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED)
}

// dialer returns a function that connects to a unix socket, however long its path
// is. It refuses one at which another user listens.
func dialer(path string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
		}
		defer unix.Close(dir)
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path)))
		if err != nil {
			return nil, err
		}
		if err := checkListener(conn); err != nil {
			conn.Close()
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return conn, nil
	}
}
