package isolate

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Who changes a path of the view must not have the sandbox get a weaker level by that.
func TestFaultsOfPathsAreNoRefusals(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want bool
	}{
		{"a path that cannot be reached", &os.PathError{Op: "lstat", Path: "/view", Err: unix.EACCES}, false},
		{"a path that is none", &os.PathError{Op: "open", Path: "/view", Err: unix.EINVAL}, false},
		{"a mount", mount("tmpfs", "/", "no such kind", 0, ""), true},
		{"a mount upon nothing", os.NewSyscallError("mount tmpfs /view", unix.ENOENT), false},
		{"a lack", os.NewSyscallError("mount tmpfs /view", unix.ENOMEM), false},
		{"a lack, and a path", errors.Join(os.NewSyscallError("mount", unix.ENOMEM), &os.PathError{Op: "symlink", Path: "/dev/fd", Err: unix.EACCES}), false},
		{"a right", fmt.Errorf("giving up a capability: %w", os.NewSyscallError("prctl", unix.EPERM)), true},
		{"a limit", fmt.Errorf("%w: the limit of 5 processes", ErrUnavailable), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &State{}
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			s.Report = int(write.Fd())
			s.report(test.err)
			write.Close()
			if err := furnished(read); err == nil || errors.Is(err, ErrUnavailable) != test.want {
				t.Errorf("of %v the program outside learns %v", test.err, err)
			}
		})
	}
}
