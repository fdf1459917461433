package confine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/landlock"
)

// probe returns the parts that the kernel offers and that do what they should, and why
// others are missing. Where the kernel offers all of them, one thread shows that. An error is a
// lack of something, which says nothing of what the kernel offers.
func probe(fence *Fence, files []landlock.File) (parts Parts, missing, err error) {
	all := end - 1
	if fence == nil {
		all &^= Network
	}
	if files == nil {
		all &^= Files
	}
	if err := (boundary{all, fence, files}).try(); err == nil || isLack(err) {
		return all, nil, err
	}
	for part := NoNewPrivs; part <= all; part <<= 1 {
		if part.needs()&^parts != 0 {
			continue
		}
		switch err := (boundary{parts | part, fence, files}).try(); {
		case err == nil:
			parts |= part
		case isLack(err):
			return 0, nil, err
		default:
			missing = errors.Join(missing, err)
		}
	}
	return parts, missing, nil
}

// lacks are errors of what others can use up, such as other sandboxes of the machine, and give back. A boundary that
// had fewer parts then would be weaker at their whim.
var lacks = []error{
	unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.EAGAIN, unix.ENOSPC, unix.EDQUOT,
	unix.EADDRINUSE, unix.EADDRNOTAVAIL, // no free port
}

func isLack(err error) bool {
	return slices.ContainsFunc(lacks, func(lack error) bool { return errors.Is(err, lack) })
}

// try puts a thread within the boundary, and checks that each of its parts holds. The
// thread then ends.
func (b boundary) try() error {
	result := make(chan error)
	onThread(func() { result <- b.tryHere() })
	return <-result
}

func (b boundary) tryHere() error {
	outside, err := openAbstract()
	if err != nil {
		return err
	}
	defer unix.Close(outside)
	var network ways
	if b.parts&Network != 0 {
		if network, err = openWays(b.fence); err != nil {
			return err
		}
		defer network.close()
		b.fence = network.with(b.fence)
	}
	if err := b.apply(); err != nil {
		return err
	}
	for _, check := range []struct {
		part  Parts
		holds func() error
	}{
		{NoNewPrivs, checkNoNewPrivs},
		{Filter, checkFilter},
		{Domain, func() error { return checkDomain(outside) }},
		{Signals, checkSignals},
		{Network, network.check},
		{Files, b.checkFiles},
	} {
		if b.parts&check.part == 0 {
			continue
		}
		if err := check.holds(); err != nil {
			return fmt.Errorf("%s: %w", check.part.Names()[0], err)
		}
	}
	return nil
}

// checkFiles lists the root, unless that is among the files.
func (b boundary) checkFiles() error {
	if slices.ContainsFunc(b.files, func(f landlock.File) bool { return f.Path == "/" }) {
		return nil
	}
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	if !errors.Is(err, unix.EACCES) {
		return fmt.Errorf("other files can be used: %v", err)
	}
	return nil
}

func checkNoNewPrivs() error {
	set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err == nil && set != 1 {
		return errors.New("it does not stay set")
	}
	return os.NewSyscallError("prctl", err)
}

// checkFilter sets a limit of this process to what it is, by the process's number. The
// filter takes that for another process.
func checkFilter() error {
	var limit unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, nil, &limit); err != nil {
		return os.NewSyscallError("prlimit", err)
	}
	if err := unix.Prlimit(os.Getpid(), unix.RLIMIT_CORE, &limit, nil); !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("prlimit is not refused: %v", err)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0); errno != unix.ENOSYS {
		return fmt.Errorf("clone3 is not refused: %v", errno)
	}
	return nil
}

// openAbstract opens an abstract unix socket under a name that the kernel chooses.
func openAbstract() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	family := uint16(unix.AF_UNIX) // an address without a name
	_, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&family)), unsafe.Sizeof(family))
	if errno != 0 {
		unix.Close(fd)
		return -1, os.NewSyscallError("bind", errno)
	}
	return fd, nil
}

// checkDomain sends to an abstract socket from before the thread entered its domain.
func checkDomain(outside int) error {
	name, err := unix.Getsockname(outside)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EACCES): // the filter refuses all of them
		return nil
	case err != nil:
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, nil, unix.MSG_DONTWAIT, name); !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("an abstract socket outside can be reached: %v", err)
	}
	return nil
}

// checkSignals checks that the thread can signal another one of its process, as the Go
// runtime does all the time. Some kernels from 6.12 on refuse that, unless they have the
// fix (https://docs.kernel.org/userspace-api/landlock.html, erratum 2).
func checkSignals() error {
	if err := unix.Tgkill(os.Getpid(), os.Getpid(), 0); err != nil {
		return fmt.Errorf("it keeps threads of one process from signalling each other: %w", err)
	}
	return nil
}
