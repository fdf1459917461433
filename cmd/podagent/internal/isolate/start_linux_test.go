package isolate

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A program that cannot be executed, since its mode has changed meanwhile, is no refusal where namespaces begin.
func TestModeOfTheProgramIsNoRefusal(t *testing.T) {
	program, err := openProgram()
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	begins := &syscall.SysProcAttr{
		Cloneflags:  spaces,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
	}
	refused := &syscall.SysProcAttr{Cloneflags: spaces | unix.CLONE_SIGHAND} // an answer to all, as of a filter
	for _, test := range []struct {
		name string
		attr *syscall.SysProcAttr
		err  error
		want bool
	}{
		{"namespaces begin", begins, unix.EACCES, false},
		{"namespaces do not", refused, unix.EACCES, true},
		{"another error", begins, unix.EPERM, true},
		{"a lack", begins, unix.ENOMEM, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := notStarted(test.attr, program, &os.PathError{Op: "fork/exec", Path: "/proc/self/exe", Err: test.err})
			if errors.Is(err, ErrUnavailable) != test.want || !errors.Is(err, test.err) {
				t.Errorf("%v", err)
			}
		})
	}
}
