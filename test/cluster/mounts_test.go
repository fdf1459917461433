package main

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

func TestMountPathsAreUnescaped(t *testing.T) {
	mounts := parseMounts(`36 35 98:0 /a /with\040space rw,noatime master:1 - ext3 /dev/root rw
37 35 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
a line that is none
`)
	want := []mount{{"/with space", "ext3"}, {"/sys/fs/cgroup", "cgroup2"}}
	if !slices.Equal(mounts, want) {
		t.Errorf("got %v; want %v", mounts, want)
	}
}

func TestOnlyWhatIsBeneathIsUnmounted(t *testing.T) {
	dir := t.TempDir()
	inner, sibling := filepath.Join(dir, "state"), filepath.Join(dir, "state-of-another")
	mountTmpfs(t, inner)
	mountTmpfs(t, filepath.Join(inner, "deeper"))
	mountTmpfs(t, sibling)
	// An open file keeps its mount busy.
	busy, err := os.Create(filepath.Join(inner, "deeper", "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if err := unmountBelow([]string{inner}); err != nil {
		t.Fatal(err)
	}
	mounts, err := readMounts()
	if err != nil {
		t.Fatal(err)
	}
	if left := below(mounts, []string{inner}); left != nil {
		t.Errorf("%v are left", left)
	}
	if below(mounts, []string{sibling}) == nil {
		t.Error("the mount beside it has gone")
	}
}

// mountTmpfs mounts a tmpfs until the test ends.
func mountTmpfs(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, ""); err != nil {
		t.Fatalf("cannot mount: run the tests as root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) })
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if packages := missing(); !slices.Contains(packages, "containerd") || !slices.Contains(packages, "iptables") {
		t.Errorf("only %v are missing where there is no program", packages)
	}
}
