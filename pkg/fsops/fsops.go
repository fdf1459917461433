// Package fsops performs file operations natively on the local file system:
// ranged and line-wise reads, atomic writes, edits, directory operations,
// glob, grep, watch, and the transfer of whole trees as tar streams.
//
// It knows neither gRPC nor Kubernetes. The agent serves these operations to
// its callers one for one, so what this package promises is what the product
// promises:
//
//   - Paths are bytes in a string; they need not be UTF-8. A relative path is
//     taken from the workdir of the [FS], an absolute one is used as it is.
//   - An error is a [*fs.PathError] (or [*os.LinkError] where two paths are
//     involved) that names the operation and the path, or the pattern, as the
//     caller gave it, so that errors.Is(err, fs.ErrNotExist) and the like hold.
//   - A loop over results has results only. An error ends it. One
//     [*SkippedError] at its end says what was skipped, and holds such errors.
//   - Nothing is interpreted by a shell.
//   - On Linux, callers get no right over this process, the agent, that its sandbox has
//     not. Files in the process's own directory under /proc are not read,
//     searched, watched or described, by any path, link or mount; /proc/net,
//     /proc/mounts and /proc/self/mountinfo are. No path leads through a link that only a
//     process itself may follow, such as /proc/self/fd/0, /dev/stdin or /proc/7/cwd. Both
//     are errors of class EACCES. Nothing is changed on file systems that control the
//     kernel, such as procfs, sysfs and cgroupfs: that is EPERM.
//   - The result always says if a limit was reached.
//   - Operations that may take long end soon after their context does.
package fsops

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// FS performs file operations on the local file system. It confines nothing but what is
// said above: the boundary is the sandbox that the process runs in. [FS.Protect] keeps it
// from changing some paths. Its methods may be called concurrently.
type FS struct {
	workdir atomic.Pointer[string]
	locks   pathLocks
	blocks  blockPool
	// edits and longLines bound what all calls together hold in memory.
	edits     *budget
	longLines *budget
	// protection says what must not be changed; nil for nothing.
	protection atomic.Pointer[protection]
	// While something is protected, a renaming holds this lock, and operations that
	// make or replace something share it: see guardedPath.change. changes counts
	// those operations.
	renaming sync.RWMutex
	changes  atomic.Uint64
}

// New returns an FS whose relative paths start at workdir, which must be
// absolute. The directory need not exist yet.
func New(workdir string) *FS {
	f := &FS{edits: newBudget(maxEditMemory), longLines: newBudget(maxGrepMemory)}
	f.SetWorkdir(workdir)
	return f
}

// Workdir returns the directory that relative paths start at.
func (f *FS) Workdir() string { return *f.workdir.Load() }

// SetWorkdir changes the directory that relative paths start at, for the
// operations that begin afterwards.
func (f *FS) SetWorkdir(dir string) {
	dir = filepath.Clean(dir)
	f.workdir.Store(&dir)
}

// resolve returns the absolute path that name means. An empty name, or one
// that holds a NUL byte, is an error of class EINVAL, reported for op.
func (f *FS) resolve(op, name string) (string, error) {
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return "", &fs.PathError{Op: op, Path: name, Err: syscall.EINVAL}
	}
	if filepath.IsAbs(name) {
		return filepath.Clean(name), nil
	}
	return filepath.Join(f.Workdir(), name), nil
}

// pathError reports err for the operation op on the path that the caller
// named, in place of the absolute path or system call that err may carry.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: cause(err)}
}

// cause strips the operation and path that the standard library wrapped
// around a system error.
func cause(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return cause(e.Err)
	case *os.LinkError:
		return cause(e.Err)
	case *os.SyscallError:
		return cause(e.Err)
	case writerError:
		return cause(e.error)
	}
	return err
}
