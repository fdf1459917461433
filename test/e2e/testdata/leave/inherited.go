package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// inherited are the descriptors that the program got at its start, by their numbers, with what each is.
// They are read before anything else is opened, but for what the runtime needs.
var inherited = func() map[int]string {
	all := map[int]string{}
	const dir = "/proc/self/fd"
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		number, _ := strconv.Atoi(e.Name())
		what, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err == nil && !ofRuntime(what) {
			all[number] = what
		}
	}
	return all // the directory is closed
}()

// ofRuntime reports whether the runtime opens such a file for itself.
func ofRuntime(what string) bool {
	return what == "anon_inode:[eventpoll]" || what == "anon_inode:[eventfd]" || strings.HasPrefix(what, "/sys/fs/cgroup/")
}
