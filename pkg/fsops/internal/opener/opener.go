// Package opener opens files by the paths of callers, with no more rights than the
// sandbox has.
//
// The process that carries out file operations, the agent, may do things to itself that
// the commands of the sandbox may not. So callers must not get at it through its files:
//
//   - No path leads through a magic link: a link under /proc that names no path, but an
//     open file, a root or a working directory of a process. Links in /proc that are
//     ordinary ones, such as /proc/net, are followed.
//   - Of procfs, what lies in the directory of this process or of one of its threads is
//     not opened, whatever path or mount leads there, but for a few files that are the
//     same for all processes.
//   - On file systems that are the kernel's controls, such as procfs and cgroupfs, nothing
//     is changed.
//
// What is opened is checked, and not its path, so that nobody can replace it in between.
// On other systems than Linux there are no such files, and nothing is checked.
package opener

import (
	"fmt"
	"syscall"
)

var (
	errMagic = fmt.Errorf("path leads through a link that only a process itself may follow: %w", syscall.EACCES)
	errOwn   = fmt.Errorf("file belongs to the agent, and not to the sandbox: %w", syscall.EACCES)
)

// controlError says that a change was refused.
func controlError(system string) error {
	return fmt.Errorf("files on %s control the kernel, and file operations do not change them: %w", system, syscall.EPERM)
}
