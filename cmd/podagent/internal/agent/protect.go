package agent

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// protect sets the workdir, if it is not empty, and then, with replace, the patterns of
// protected paths, which start there. If it fails, both are as before.
func (a *Agent) protect(workdir string, patterns []string, replace bool) error {
	if replace {
		if err := fsops.CheckProtected(patterns); err != nil {
			return err
		}
	}
	before := a.fs.Workdir()
	if workdir != "" {
		a.fs.SetWorkdir(workdir)
	}
	if !replace {
		return nil
	}
	err := a.fs.Protect(patterns)
	if err != nil {
		a.fs.SetWorkdir(before)
	}
	return err
}

// followProtected protects what the patterns of protected paths lead to by links that a call has made, with many files.
func (a *Agent) followProtected() {
	if err := a.fs.FollowProtected(); err != nil {
		a.log.Warn("a protected path leads nowhere", "error", err)
	}
}

// protected returns the protected paths, and how each is protected.
func (a *Agent) protected() []*pb.ProtectedPath {
	var paths []*pb.ProtectedPath
	for _, pattern := range a.fs.Protected() {
		paths = append(paths, &pb.ProtectedPath{Path: []byte(pattern), By: pb.Enforcement_ENFORCEMENT_AGENT})
	}
	for _, dir := range a.config.ReadOnly {
		paths = append(paths, &pb.ProtectedPath{Path: []byte(dir), By: pb.Enforcement_ENFORCEMENT_MOUNT})
	}
	return paths
}

// checkReadOnly refuses directories that are not mounted read-only, because callers are
// told that they are.
func checkReadOnly(dirs []string) error {
	for _, dir := range dirs {
		var mount unix.Statfs_t
		if err := unix.Statfs(dir, &mount); err != nil {
			return fmt.Errorf("cannot look at the read-only directory %s: %w", dir, err)
		}
		if mount.Flags&unix.ST_RDONLY == 0 {
			return fmt.Errorf("%s must be mounted read-only, but is not: %w", dir, syscall.EINVAL)
		}
	}
	return nil
}
