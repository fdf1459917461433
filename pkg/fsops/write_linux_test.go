package fsops

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestWriteToAFullDiskLeavesTheTarget(t *testing.T) {
	f := newTestFS(t)
	mountTmpfs(t, f, "small", "size=1m")
	former := strings.Repeat("former", 10_000)
	put(t, f, "small/file", former)
	for _, name := range []string{"small/file", "small/new"} {
		_, err := write(t, f, name, strings.Repeat("x", 2<<20), WriteOptions{})
		wantPathError(t, err, "write", name, syscall.ENOSPC)
	}
	wantContent(t, f, "small/file", former)
	wantNames(t, at(f, "small"), "file")

	// Everything is as before, so a write that fits succeeds again.
	mustWrite(t, f, "small/file", "fits", WriteOptions{})
	wantContent(t, f, "small/file", "fits")
}

func TestEditOnAFullDiskLeavesTheTarget(t *testing.T) {
	f := newTestFS(t)
	mountTmpfs(t, f, "small", "size=1m")
	put(t, f, "small/file", strings.Repeat("x", 600_000)+"y")
	_, err := f.Edit(t.Context(), "small/file", []Edit{edit("y", "z")}, EditOptions{})
	wantPathError(t, err, "edit", "small/file", syscall.ENOSPC)
	wantContent(t, f, "small/file", strings.Repeat("x", 600_000)+"y")
	wantNames(t, at(f, "small"), "file")
}

func TestWriteToAMountPointIsInPlace(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "source", "former and longer")
	put(t, f, "mounted", "")
	mount(t, at(f, "source"), at(f, "mounted"), "bind", syscall.MS_BIND, "")
	wantOnlyInPlace(t, f, "mounted", syscall.EBUSY)
	wantContent(t, f, "source", "former and longer")
	for _, content := range []string{"short", strings.Repeat("longer than before", 10)} {
		res := mustWrite(t, f, "mounted", content, WriteOptions{Sync: true})
		if !res.InPlace || res.Created || res.Attr.Size != int64(len(content)) {
			t.Errorf("the write says %+v", res)
		}
		wantContent(t, f, "source", content)
		if attr, err := f.Stat("mounted"); err != nil || attr.ETag != res.Attr.ETag {
			t.Errorf("etag is %s (%v), the write said %s", attr.ETag, err, res.Attr.ETag)
		}
	}
	res, err := f.Edit(t.Context(), "mounted", []Edit{edit(strings.Repeat("longer than before", 10), "edited")}, EditOptions{})
	must(t, err)
	if !res.Write.InPlace {
		t.Errorf("the edit says %+v", res.Write)
	}
	put(t, f, "copied", "copied")
	must(t, f.Copy(t.Context(), "copied", "mounted", CopyOptions{}))
	wantContent(t, f, "source", "copied")
	wantNames(t, f.Workdir(), "copied", "mounted", "source")

	// An abandoned write in place does no harm either.
	w, err := f.Create("mounted", WriteOptions{})
	must(t, err)
	_, err = w.Write([]byte("partial"))
	must(t, err)
	must(t, w.Close())
	wantContent(t, f, "source", "copied")
}

// wantOnlyInPlace checks that an atomic write fails for a file that can only be
// overwritten in place.
func wantOnlyInPlace(t *testing.T, f *FS, name string, reason error) {
	t.Helper()
	w, err := f.Create(name, WriteOptions{Sync: true})
	must(t, err)
	defer w.Close()
	_, err = w.Write([]byte("whole"))
	must(t, err)
	_, err = w.CommitAtomic(t.Context(), sumOf("whole"))
	wantPathError(t, err, "write", name, reason)
}

// Space for the whole content is reserved before the first byte is overwritten.
func TestWriteInPlaceToAFullDiskLeavesTheTarget(t *testing.T) {
	f := newTestFS(t)
	mountTmpfs(t, f, "small", "size=1m")
	put(t, f, "small/source", "former")
	put(t, f, "mounted", "")
	mount(t, at(f, "small/source"), at(f, "mounted"), "bind", syscall.MS_BIND, "")
	_, err := write(t, f, "mounted", strings.Repeat("x", 2<<20), WriteOptions{})
	wantPathError(t, err, "write", "mounted", syscall.ENOSPC)
	wantContent(t, f, "small/source", "former")
	wantNames(t, f.Workdir(), "mounted", "small")
}

func TestWriteOnAReadOnlyFileSystem(t *testing.T) {
	f := newTestFS(t)
	mountTmpfs(t, f, "disk", "size=1m")
	put(t, f, "disk/file", "former")
	must(t, syscall.Mount("", at(f, "disk"), "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	for _, name := range []string{"disk/file", "disk/new"} {
		_, err := write(t, f, name, "x", WriteOptions{})
		wantPathError(t, err, "write", name, syscall.EROFS)
	}
	// No file can be made beside this one, but it can be written itself.
	put(t, f, "source", "former")
	must(t, syscall.Mount("", at(f, "disk"), "", syscall.MS_REMOUNT, ""))
	mount(t, at(f, "source"), at(f, "disk/file"), "bind", syscall.MS_BIND, "")
	must(t, syscall.Mount("", at(f, "disk"), "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	if res := mustWrite(t, f, "disk/file", "new", WriteOptions{}); !res.InPlace {
		t.Errorf("the write says %+v", res)
	}
	wantContent(t, f, "source", "new")
}

func TestWriteKeepsTheOwner(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "former")
	if err := os.Chown(at(f, "file"), 1234, 5678); err != nil {
		t.Fatalf("cannot change a file's owner, for which this test needs root: %v", err)
	}
	must(t, f.Chmod("file", 0o755|fs.ModeSetuid|fs.ModeSetgid))
	res := mustWrite(t, f, "file", "x", WriteOptions{})
	if a := res.Attr; a.UID != 1234 || a.GID != 5678 || a.Mode != 0o755|fs.ModeSetuid|fs.ModeSetgid || res.InPlace {
		t.Errorf("the file is %+v", res)
	}
}

func TestReplacingAFileThatRuns(t *testing.T) {
	f := newTestFS(t)
	program := copyOfThisBinary(t, f.Workdir())
	cmd := exec.Command(program, "-test.run=^TestSleepUntilStandardInputEnds$")
	cmd.Env = append(os.Environ(), "FSOPS_TEST_WAIT=1")
	in, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	if res := mustWrite(t, f, "test", "x", WriteOptions{}); res.InPlace {
		t.Errorf("the write says %+v", res)
	}
	must(t, in.Close())
	must(t, cmd.Wait())
}

// TestSleepUntilStandardInputEnds is the program that the test above runs.
func TestSleepUntilStandardInputEnds(t *testing.T) {
	if os.Getenv("FSOPS_TEST_WAIT") != "" {
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
}

func TestAKilledWriterLeavesNothing(t *testing.T) {
	if dir := os.Getenv("FSOPS_TEST_KILL_DIR"); dir != "" {
		writeAndKill(t, New(dir))
	}
	f := newTestFS(t)
	put(t, f, "file", "former")
	cmd := exec.Command(os.Args[0], "-test.run=^TestAKilledWriterLeavesNothing$")
	cmd.Env = append(os.Environ(), "FSOPS_TEST_KILL_DIR="+f.Workdir())
	out, err := cmd.CombinedOutput()
	state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || state.Signal() != syscall.SIGKILL {
		t.Fatalf("the writer ended with %v:\n%s", err, out)
	}
	wantContent(t, f, "file", "former")
	wantNames(t, f.Workdir(), "file")
}

func writeAndKill(t *testing.T, f *FS) {
	for _, name := range []string{"file", "new"} {
		w, err := f.Create(name, WriteOptions{})
		must(t, err)
		_, err = w.Write(bytes.Repeat([]byte("x"), 1<<20))
		must(t, err)
	}
	must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
	select {}
}

func TestWriteWithoutPrivileges(t *testing.T) {
	f := asNobody(t, func(f *FS) {
		must(t, f.Mkdir("locked", MkdirOptions{}))
		for _, name := range []string{"locked/writable", "locked/readonly", "locked/linked"} {
			put(t, f, name, "former")
		}
		must(t, f.Chmod("locked/writable", 0o666))
		must(t, f.Chmod("locked/linked", 0o666))
		must(t, f.Mkdir("open", MkdirOptions{}))
		must(t, f.Chmod("open", 0o777))
		put(t, f, "open/readonly", "former")
		put(t, f, "open/foreign", "former")
		must(t, f.Chmod("open/foreign", 0o666))
		must(t, f.Mkdir("sticky", MkdirOptions{}))
		must(t, f.Chmod("sticky", 0o777|fs.ModeSticky))
		put(t, f, "sticky/foreign", "former")
		must(t, f.Chmod("sticky/foreign", 0o666))
	})
	if f == nil {
		return
	}
	for _, name := range []string{"locked/readonly", "open/readonly", "locked/new"} {
		_, err := write(t, f, name, "x", WriteOptions{})
		wantPathError(t, err, "write", name, fs.ErrPermission)
	}
	wantContent(t, f, "locked/readonly", "former")
	wantContent(t, f, "open/readonly", "former")

	// The directory takes no new files, or the owner cannot be kept.
	for _, name := range []string{"locked/writable", "open/foreign", "sticky/foreign"} {
		wantOnlyInPlace(t, f, name, fs.ErrPermission)
		wantContent(t, f, name, "former")
		res := mustWrite(t, f, name, "new", WriteOptions{})
		if !res.InPlace || res.Created || res.Attr.UID != 0 || res.Attr.Mode != 0o666 {
			t.Errorf("writing %s says %+v", name, res)
		}
		wantContent(t, f, name, "new")
		edited, err := f.Edit(t.Context(), name, []Edit{edit("new", "edited")}, EditOptions{})
		must(t, err)
		if !edited.Write.InPlace {
			t.Errorf("editing %s says %+v", name, edited.Write)
		}
		wantContent(t, f, name, "edited")
	}
	_, err := write(t, f, "locked/linked", "x", WriteOptions{IfMatch: "other"})
	wantPathError(t, err, "write", "locked/linked", ErrChanged)

	// A copy over another user's file leaves its mode and time as they are.
	mustWrite(t, f, "open/own", "own", WriteOptions{Perm: 0o600})
	must(t, f.Copy(t.Context(), "open/own", "open/foreign", CopyOptions{}))
	wantContent(t, f, "open/foreign", "own")
	wantNames(t, at(f, "open"), "foreign", "own", "readonly")
	wantNames(t, at(f, "locked"), "linked", "readonly", "writable")
	wantNames(t, at(f, "sticky"), "foreign")
}

func TestDirectoriesWithoutPrivileges(t *testing.T) {
	f := asNobody(t, func(f *FS) {
		must(t, f.Mkdir("tree/closed", MkdirOptions{Parents: true}))
		must(t, f.Mkdir("tree/open", MkdirOptions{}))
		put(t, f, "tree/open/file", "")
		put(t, f, "tree/secret", "")
		must(t, f.Chmod("tree/secret", 0o600))
		must(t, f.Chmod("tree/closed", 0o700))
	})
	if f == nil {
		return
	}
	paths, errs := listed(t, f, "tree", ListOptions{Recursive: true})
	if strings.Join(paths, " ") != "tree/closed tree/open tree/open/file tree/secret" || len(errs) != 1 {
		t.Fatalf("listed %q, errors %v", paths, errs)
	}
	wantPathError(t, errs[0], "readdir", "tree/closed", fs.ErrPermission)

	_, err := f.Read(t.Context(), "tree/secret", &bytes.Buffer{}, ReadOptions{})
	wantPathError(t, err, "read", "tree/secret", fs.ErrPermission)
	wantPathError(t, f.Mkdir("tree/x", MkdirOptions{}), "mkdir", "tree/x", fs.ErrPermission)
	wantPathError(t, f.Chmod("tree", 0o700), "chmod", "tree", fs.ErrPermission)
	err = f.Remove(t.Context(), "tree", RemoveOptions{Recursive: true})
	var pe *fs.PathError
	if !errors.As(err, &pe) || !errors.Is(err, fs.ErrPermission) || !strings.HasPrefix(pe.Path, "tree/") {
		t.Errorf("error is %v, want one about what is in the tree", err)
	}
	wantLinkError(t, f.Rename(t.Context(), "tree", "x", RenameOptions{}), "rename", "tree", "x", fs.ErrPermission)
}

func TestRenameAcrossFileSystems(t *testing.T) {
	f := newTestFS(t)
	mountTmpfs(t, f, "disk", "size=1m")
	put(t, f, "file", "content")
	for _, opts := range []RenameOptions{{}, {NoReplace: true}} {
		err := f.Rename(t.Context(), "file", "disk/file", opts)
		wantLinkError(t, err, "rename", "file", "disk/file", syscall.EXDEV)
	}
	wantContent(t, f, "file", "content")
	wantNames(t, at(f, "disk"))
	must(t, f.Copy(t.Context(), "file", "disk/file", CopyOptions{}))
	wantContent(t, f, "disk/file", "content")
}

func TestRemoveStopsAtMountPoints(t *testing.T) {
	f := newTestFS(t)
	must(t, f.Mkdir("tree", MkdirOptions{}))
	put(t, f, "tree/file", "")
	mountTmpfs(t, f, "tree/disk", "size=1m")
	err := f.Remove(t.Context(), "tree", RemoveOptions{Recursive: true})
	wantPathError(t, err, "remove", "tree/disk", syscall.EBUSY)
	wantNames(t, at(f, "tree"), "disk")
}

func TestReplacingALargeFileLeavesNoDescriptor(t *testing.T) {
	f := newTestFS(t)
	content := strings.Repeat("0123456789abcdef", 3*flushStep/16)
	mustWrite(t, f, "a", content, WriteOptions{})
	before := openFiles(t)
	for range 4 {
		mustWrite(t, f, "a", content, WriteOptions{})
	}
	wantContent(t, f, "a", content)
	// A background goroutine closes the former contents.
	for deadline := time.Now().Add(hung); openFiles(t) > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors are open, and were %d before", openFiles(t), before)
		}
	}
}

// openFiles returns the number of this process's descriptors.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}
