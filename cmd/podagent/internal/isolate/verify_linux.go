package isolate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// verify checks that the program is where its variable says: anybody can set a variable.
func (s *State) verify() error {
	switch {
	case s.Stage == mounts:
		return s.verifyMounts()
	case s.Stage != inside:
		return fmt.Errorf("there is no stage %q", s.Stage)
	}
	if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || set != 1 {
		return fmt.Errorf("it may still get new privileges: %v", err)
	}
	if err := verifyNoRights(); err != nil {
		return err
	}
	if err := s.View.verifyHidden(); err != nil {
		return err
	}
	switch s.Level {
	case isolation.Namespaces:
		return verifyRoot()
	case isolation.Landlock:
		return s.View.verifyRules()
	}
	return fmt.Errorf("there is no level %q", s.Level)
}

// verifyMounts checks that what the program is about to mount is mounted for it alone.
func (s *State) verifyMounts() error {
	if os.Getpid() != 1 {
		return errors.New("it is not process 1")
	}
	// The machine's first user namespace has all users, and one of a container a range of them.
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return err
	}
	own := fmt.Sprint(os.Geteuid())
	if !slices.Equal(strings.Fields(string(users)), []string{own, own, "1"}) {
		return fmt.Errorf("its users are %q", users)
	}
	var report unix.Stat_t
	if err := unix.Fstat(s.Report, &report); err != nil || report.Mode&unix.S_IFMT != unix.S_IFIFO {
		return fmt.Errorf("nobody waits for it: %v", err)
	}
	return nil
}

// verifyNoRights checks that the program has no capabilities.
func verifyNoRights() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	if has != [2]unix.CapUserData{} {
		return fmt.Errorf("it has the capabilities %+v", has)
	}
	return nil
}

// verifyRoot checks that the root is one that this package has built.
func verifyRoot() error {
	if os.Getpid() != 1 {
		return errors.New("it is not process 1")
	}
	var root unix.Statfs_t
	if err := unix.Statfs("/", &root); err != nil {
		return &os.PathError{Op: "statfs", Path: "/", Err: err}
	}
	if root.Type != unix.TMPFS_MAGIC || root.Flags&unix.ST_RDONLY == 0 {
		return errors.New("its root is another one")
	}
	return nil
}

// verifyHidden checks that the program cannot read the hidden directories of the machine: it cannot open them, or
// finds masks in their places.
func (v View) verifyHidden() error {
	for _, dir := range v.masked() {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.EACCES) {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "open", Path: dir, Err: err}
		}
		var there unix.Statfs_t
		err = unix.Fstatfs(fd, &there)
		unix.Close(fd)
		if err != nil || there.Type != unix.TMPFS_MAGIC || there.Flags&unix.ST_RDONLY == 0 {
			return fmt.Errorf("nothing hides %s: %v", dir, err)
		}
	}
	return nil
}

// verifyRules checks that the kernel refuses the program what is not in its view: the names in the root,
// or, where the view has these, a file beside its home.
func (v View) verifyRules() error {
	path, flags := "/", unix.O_RDONLY|unix.O_DIRECTORY
	if slices.ContainsFunc(v.Readable, func(path string) bool { return filepath.Clean(path) == "/" }) {
		path, flags = filepath.Dir(filepath.Clean(v.Home)), unix.O_TMPFILE|unix.O_WRONLY
	}
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	if !errors.Is(err, unix.EACCES) {
		return fmt.Errorf("no rule keeps it from %s: %v", path, err)
	}
	return nil
}
