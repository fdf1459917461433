package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// mount is a mount of this mount namespace.
type mount struct{ path, kind string }

// readMounts lists the mounts in the order in which they were made.
func readMounts() ([]mount, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMounts(string(data)), nil
}

// parseMounts parses mountinfo (see proc_pid_mountinfo(5)): the fifth field is the
// path, and the first field after the separator is the file system type.
func parseMounts(info string) []mount {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var mounts []mount
	for line := range strings.Lines(info) {
		before, after, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(rest) == 0 {
			continue
		}
		mounts = append(mounts, mount{path: unescape.Replace(fields[4]), kind: rest[0]})
	}
	return mounts
}

// below lists the mounts at or below any of the directories.
func below(mounts []mount, dirs []string) []string {
	var paths []string
	for _, m := range mounts {
		for _, dir := range dirs {
			if m.path == dir || strings.HasPrefix(m.path, dir+"/") {
				paths = append(paths, m.path)
				break
			}
		}
	}
	return paths
}

// unmountBelow unmounts everything below directories, the latest mount first.
// Mounts that are still in use are detached, and vanish with their last user.
func unmountBelow(dirs []string) error {
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	paths := below(mounts, dirs)
	for i := range paths {
		path := paths[len(paths)-1-i]
		if syscall.Unmount(path, 0) != nil {
			_ = syscall.Unmount(path, syscall.MNT_DETACH) // failures are found below
		}
	}
	if mounts, err = readMounts(); err != nil {
		return err
	}
	var errs []error
	for _, path := range below(mounts, dirs) {
		errs = append(errs, fmt.Errorf("cannot unmount %s", path))
	}
	return errors.Join(errs...)
}
