package sessionstore_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/tools/sessionstore"
)

// TestDiskDoesNotOverwriteASnapshotInPlace has a file that cannot be replaced,
// since it is a mount point: half of it would be left of a host that is killed.
func TestDiskDoesNotOverwriteASnapshotInPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := &sessionstore.Disk{Dir: dir}
	version, err := s.Save(t.Context(), "a", []byte("whole"), "")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.session"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := syscall.Mount(files[0], files[0], "", syscall.MS_BIND, ""); err != nil {
		t.Fatalf("cannot mount a file, for which this test needs root and CAP_SYS_ADMIN: %v", err)
	}
	_, saveErr := s.Save(t.Context(), "a", []byte("next"), version)
	got, loadErr := s.Load(t.Context(), "a")
	if err := syscall.Unmount(files[0], 0); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(saveErr, syscall.EBUSY) {
		t.Errorf("Save: %v", saveErr)
	}
	if loadErr != nil || string(got.Data) != "whole" || got.Version != version {
		t.Errorf("the snapshot is %q, %v", got.Data, loadErr)
	}
}
