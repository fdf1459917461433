package isolate

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// spaces are the namespaces that a sandbox gets.
const spaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// rights are what the stage mounts needs, within its namespaces alone: mounts, an address for the
// loopback, and to give up the others.
var rights = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}

// furnishTime is how long the stage mounts may take. It reads the configuration of the system.
const furnishTime = 20 * time.Second

// runInNamespaces starts the program in new namespaces, and waits for its end.
func runInNamespaces(view View, limits Limits, sockets Sockets) (status int, err error) {
	program, err := openProgram()
	if err != nil {
		return 0, err
	}
	defer program.Close()
	report, its, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer report.Close()
	here, there, err := pairs(len(sockets.Opened))
	if err != nil {
		return 0, err
	}
	s := &State{Stage: mounts, View: view, Limits: limits, Info: isolation.Info{Limiter: limits.Limiter, NoControlGroup: limits.NoControlGroup}}
	for i := range there {
		s.Sockets = append(s.Sockets, 3+i) // as ExtraFiles says
	}
	s.Program, s.Report = 3+len(there), 4+len(there)
	cmd, err := s.again()
	if err != nil {
		return 0, err
	}
	cmd.ExtraFiles = append(slices.Clone(there), program, its)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  spaces,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
		AmbientCaps: rights,
		Pdeathsig:   unix.SIGKILL,
	}
	err = cmd.Start()
	for _, f := range append(there, its) {
		f.Close()
	}
	if err != nil {
		return 0, notStarted(cmd.SysProcAttr, program, err)
	}
	if err := furnished(report); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return 0, err
	}
	for i, to := range here {
		go sockets.Pass(sockets.Opened[i], to)
	}
	return watch(cmd)
}

// pairs returns both ends of connected sockets.
func pairs(n int) (here, there []*os.File, err error) {
	for range n {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return nil, nil, os.NewSyscallError("socketpair", err)
		}
		here, there = append(here, os.NewFile(uintptr(fds[0]), "pair")), append(there, os.NewFile(uintptr(fds[1]), "pair"))
	}
	return here, there, nil
}

// furnished waits for what the stage mounts reports.
func furnished(report *os.File) error {
	_ = report.SetReadDeadline(time.Now().Add(furnishTime))
	text, err := io.ReadAll(io.LimitReader(report, 4<<10))
	if err != nil {
		return fmt.Errorf("namespaces: %w", err)
	}
	return reported(text)
}

// watch waits for the end of the isolated program, passes signals on to it meanwhile, and returns its
// status as a shell would.
func watch(cmd *exec.Cmd) (status int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	state, err := cmd.Process.Wait()
	if err != nil {
		return 0, err
	}
	if by := state.Sys().(syscall.WaitStatus); by.Signaled() {
		return 128 + int(by.Signal()), nil
	}
	return state.ExitCode(), nil
}

// again is a command that runs this program again, in a stage.
func (s *State) again() (*exec.Cmd, error) {
	env, err := s.environ()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd, nil
}

// openProgram opens the file of this program, to run it where it has no path.
func openProgram() (*os.File, error) {
	fd, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/proc/self/exe", Err: err}
	}
	return os.NewFile(uintptr(fd), "/proc/self/exe"), nil
}
