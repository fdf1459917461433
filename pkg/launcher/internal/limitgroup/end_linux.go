package limitgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The bounds of an end.
const (
	// endTime is how long the processes of a group may take to end after the kernel has killed them. They
	// may have much memory to give back, or wait for a disk.
	endTime = 10 * time.Second
	// lookAgain is how often the end is looked for in any case; the kernel says when it comes.
	lookAgain = 100 * time.Millisecond
)

// End kills all processes of the group at a path, wherever they went and whatever they are called, and
// removes the group. It does nothing if there is none.
func End(ctx context.Context, path string) error {
	if !strings.HasPrefix(filepath.Base(path), prefix) {
		return fmt.Errorf("%s is no control group of a sandbox", path)
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !isTree(path) {
		return fmt.Errorf("%s is no control group", path)
	}
	regain(path)
	regain(filepath.Join(path, inner))
	if err := set(path, "cgroup.kill", "1"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, endTime, fmt.Errorf("the processes in %s do not end", path))
	defer cancel()
	if err := awaitEmpty(ctx, path); err != nil {
		return err
	}
	return (&Group{Path: path}).remove()
}

// regain gives this user the right again to use a group of its own. Code that runs with the user's id can take it
// away by chmod, even where it cannot write to the group.
func regain(path string) {
	// What does not succeed shows when the files are used.
	_ = os.Chmod(path, 0o755)
	_ = os.Chmod(filepath.Join(path, "cgroup.kill"), 0o200)
	_ = os.Chmod(filepath.Join(path, "cgroup.events"), 0o444)
	for _, name := range []string{"cgroup.procs", "cgroup.subtree_control"} {
		_ = os.Chmod(filepath.Join(path, name), 0o644)
	}
}

// awaitEmpty waits until a group has no processes.
func awaitEmpty(ctx context.Context, path string) error {
	events, err := os.Open(filepath.Join(path, "cgroup.events"))
	if err != nil {
		return err
	}
	defer events.Close()
	for {
		buf := make([]byte, 4<<10)
		n, err := events.ReadAt(buf, 0)
		if n == 0 && err != nil {
			return err
		}
		if strings.Contains(string(buf[:n]), "populated 0\n") {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}, int(lookAgain.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
	}
}

// remove removes the group with those in it, which have no processes.
func (g *Group) remove() error {
	var dirs []string
	err := filepath.WalkDir(g.Path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, dir := range slices.Backward(dirs) {
		err = errors.Join(err, unix.Rmdir(dir))
	}
	return err
}
