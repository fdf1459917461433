package fsops

import (
	"fmt"
	"io/fs"
	"os"
	"testing"
)

const stranger = 12345

// wantPrivate makes files with these owners and modes, and checks which of them are private
// to this user.
func wantPrivate(t *testing.T, f *FS, files map[privateFile]bool) {
	t.Helper()
	for file, want := range files {
		info, err := os.Stat(at(f, file.name()))
		must(t, err)
		if err := CheckPrivate(info); (err == nil) != want {
			t.Errorf("owned by %d with mode %04o: %v", file.uid, file.mode, err)
		}
	}
}

type privateFile struct {
	uid  int
	mode fs.FileMode
}

func (p privateFile) name() string { return fmt.Sprintf("%d-%o", p.uid, p.mode) }

func makeFiles(t *testing.T, f *FS, files map[privateFile]bool) {
	t.Helper()
	for file := range files {
		path := at(f, file.name())
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Chown(path, file.uid, file.uid))
		must(t, os.Chmod(path, file.mode))
	}
}

func TestPrivateToRootIsWhatRootAloneCanReach(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("this test needs root, to prepare files of other owners")
	}
	files := map[privateFile]bool{
		{0, 0o600}: true, {0, 0o400}: true, {0, 0o700}: true,
		{0, 0o640}: false, {0, 0o604}: false, {0, 0o610}: false, {0, 0o602}: false,
		{stranger, 0o600}: false, {stranger, 0o400}: false,
	}
	f := newTestFS(t)
	makeFiles(t, f, files)
	wantPrivate(t, f, files)
}

// Kubernetes mounts Secrets as files of root that the group of a pod may read.
func TestPrivateToAUserIsAlsoWhatRootLetsItsGroupRead(t *testing.T) {
	files := map[privateFile]bool{
		{nobody, 0o600}: true, {nobody, 0o640}: false, {nobody, 0o604}: false,
		{0, 0o600}: true, {0, 0o640}: true, {0, 0o440}: true,
		{0, 0o444}: false, {0, 0o660}: false, {0, 0o650}: false,
		{stranger, 0o600}: false, {stranger, 0o440}: false,
	}
	f := asNobody(t, func(f *FS) { makeFiles(t, f, files) })
	if f == nil {
		return // the child has looked
	}
	wantPrivate(t, f, files)
}
