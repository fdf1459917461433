package fsops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ownSecret is what this process, which stands for the agent, keeps for itself.
const ownSecret = "tok=supersecretvalue123"

// openJournal opens a file without a name that holds the secret, as the agent's journal
// does, and returns its descriptor.
func openJournal(t testing.TB) int {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	t.Cleanup(func() { file.Close() })
	_, err = file.WriteString("output\n" + ownSecret + "\n")
	must(t, err)
	must(t, os.Remove(file.Name()))
	return int(file.Fd())
}

// ownPaths returns paths to what belongs to this process, directories among them.
func ownPaths(t *testing.T, f *FS) (files, dirs []string) {
	t.Helper()
	must(t, os.Mkdir(at(f, "procfs"), 0o755))
	mount(t, "proc", at(f, "procfs"), "proc", 0, "")
	must(t, os.Mkdir(at(f, "bound"), 0o755))
	mount(t, "/proc", at(f, "bound"), "", unix.MS_BIND, "")
	fd, pid := openJournal(t), os.Getpid()
	tid := threadOf(t)
	for _, dir := range []string{
		"/proc/self", fmt.Sprint("/proc/", pid), "/proc/thread-self", fmt.Sprint("/proc/", tid), fmt.Sprint("/proc/self/task/", tid),
		"procfs/self", fmt.Sprint("procfs/", pid), "bound/self",
	} {
		files = append(files, fmt.Sprint(dir, "/fd/", fd), dir+"/environ", dir+"/status", dir+"/maps")
		dirs = append(dirs, dir, dir+"/fd")
	}
	files = append(files, "/proc/self/mem", "/proc/self/exe", "/proc/self/cwd/own_linux_test.go", "/proc/self/root/etc/passwd", fmt.Sprint("/dev/fd/", fd))
	dirs = append(dirs, "/proc/self/cwd", "/proc/self/root", "/proc/self/root/etc", "/dev/fd", "/proc/self/map_files")
	makeTree(t, f, fmt.Sprint("journal -> /proc/self/fd/", fd), "environ -> /proc/self/environ", "far -> journal", "own -> /proc/self")
	files = append(files, "journal", "environ", "far", fmt.Sprint("own/fd/", fd))
	return files, append(dirs, "own", "own/fd", "own/root")
}

// threadOf returns the id of a thread of this process other than its first one.
func threadOf(t *testing.T) string {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	must(t, err)
	return threads[len(threads)-1].Name()
}

// seen collects what a call gave.
type seen struct{ text bytes.Buffer }

// grepOf searches paths for anything, and returns the first error.
func (s *seen) grepOf(ctx context.Context, f *FS, opts GrepOptions) (err error) {
	opts.NoIgnore, opts.Hidden = true, true
	for r, e := range f.Grep(ctx, "", opts) {
		if e != nil {
			return e
		}
		s.text.Write(r.Text)
	}
	return nil
}

// readers are the operations that read a file, or a directory.
func readers(f *FS, s *seen) map[string]func(ctx context.Context, name string) error {
	return map[string]func(ctx context.Context, name string) error{
		"read": func(ctx context.Context, name string) error {
			_, err := f.Read(ctx, name, &s.text, ReadOptions{Length: 1 << 20})
			return err
		},
		"lines": func(ctx context.Context, name string) error {
			lines, err := f.ReadLines(ctx, name, LineOptions{Max: 100})
			s.text.Write(lines.Text)
			return err
		},
		"grep": func(ctx context.Context, name string) error {
			return s.grepOf(ctx, f, GrepOptions{Paths: []string{name}})
		},
		"sorted grep": func(ctx context.Context, name string) error {
			return s.grepOf(ctx, f, GrepOptions{Paths: []string{name}, Sort: true})
		},
		"archive": func(ctx context.Context, name string) error {
			_, err := f.Archive(ctx, name, &s.text, ArchiveOptions{})
			return err
		},
		"copy": func(ctx context.Context, name string) error {
			err := f.Copy(ctx, name, "copied", CopyOptions{Recursive: true})
			if text, err := os.ReadFile(at(f, "copied")); err == nil {
				s.text.Write(text)
			}
			_ = os.RemoveAll(at(f, "copied"))
			return err
		},
		"watch": func(ctx context.Context, name string) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			for _, err := range f.Watch(ctx, name, WatchOptions{Ready: cancel}) {
				return err
			}
			return nil
		},
	}
}

func TestReadingRefusesWhatBelongsToTheAgent(t *testing.T) {
	t.Setenv("OWN_SECRET", ownSecret)
	f := newTestFS(t)
	files, dirs := ownPaths(t, f)
	var s seen
	for what, read := range readers(f, &s) {
		for _, name := range append(files, dirs...) {
			within(t, what, func(ctx context.Context) {
				if err := read(ctx, name); !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EISDIR) {
					t.Errorf("%s of %s: %v", what, name, err)
				}
			})
		}
	}
	for _, name := range dirs {
		for m, err := range f.Glob(t.Context(), name+"/*", GlobOptions{}) {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("glob of %s: %+v, %v", name, m, err)
			}
		}
		for attr, err := range f.List(t.Context(), name, ListOptions{}) {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("list of %s: %+v, %v", name, attr, err)
			}
			break
		}
	}
	if bytes.Contains(s.text.Bytes(), []byte(ownSecret)) {
		t.Error("the secret was read")
	}
}

// What is known of the files of this process, such as the names of its open files, is its
// own as well.
func TestStatRefusesWhatBelongsToTheAgent(t *testing.T) {
	f := newTestFS(t)
	files, _ := ownPaths(t, f)
	for _, name := range files {
		_, err := f.Stat(name)
		wantPathError(t, err, "stat", name, fs.ErrPermission)
		if _, err = f.Lstat(name); strings.HasPrefix(name, "/proc/") {
			wantPathError(t, err, "lstat", name, fs.ErrPermission)
		}
	}
	for _, name := range []string{"/proc/self", fmt.Sprint("/proc/", os.Getpid()), "/proc/1", "/proc"} {
		if _, err := f.Stat(name); err != nil {
			t.Error(err)
		}
		if _, err := f.Lstat(name); err != nil {
			t.Error(err)
		}
	}
	for attr, err := range f.List(t.Context(), "/proc", ListOptions{}) {
		if err != nil {
			t.Errorf("%+v, %v", attr, err)
		}
	}
}

// A walk meets the directory of this process among those of others.
func TestWalkLeavesOutTheAgent(t *testing.T) {
	f := newTestFS(t)
	sleeping := exec.Command("sleep", "300")
	must(t, sleeping.Start())
	defer func() {
		_ = sleeping.Process.Kill()
		_ = sleeping.Wait()
	}()
	own, other := fmt.Sprint("/proc/", os.Getpid()), fmt.Sprint("/proc/", sleeping.Process.Pid)
	makeTree(t, f, "links/own -> "+own, "links/self -> /proc/self", "links/other -> "+other)
	for _, test := range []struct {
		opts GrepOptions
		want string
	}{
		{GrepOptions{Paths: []string{"/proc"}}, other + "/status"},
		{GrepOptions{Paths: []string{"/proc"}, Sort: true}, other + "/status"},
		{GrepOptions{Paths: []string{"links"}, Follow: true}, "links/other/status"},
		{GrepOptions{Paths: []string{"links"}, Follow: true, Sort: true}, "links/other/status"},
	} {
		opts := test.opts
		opts.Include, opts.NoIgnore, opts.Report = []string{"status"}, true, GrepFiles
		opts.Exclude = []string{"task", "cwd", "root", "fd", "map_files", "sys", "net"}
		var found []string
		for r, err := range f.Grep(t.Context(), "^Name:", opts) {
			if err == nil {
				found = append(found, r.Path)
			}
		}
		if !slices.Contains(found, test.want) {
			t.Errorf("grep %+v did not find %s", opts, test.want)
		}
		for _, path := range found {
			if strings.HasPrefix(path, own+"/") || strings.Contains(path, "self/") || strings.Contains(path, "own/") {
				t.Errorf("grep %+v found %s", opts, path)
			}
		}
	}
	for m, err := range f.Glob(t.Context(), "/proc/*/environ", GlobOptions{}) {
		if err == nil && (strings.HasPrefix(m.Path, own+"/") || strings.Contains(m.Path, "self/")) {
			t.Errorf("glob found %s", m.Path)
		}
	}
}

// A link is swapped between a harmless file and one of this process, while others read.
func TestSwappedLinkDoesNotLeadToTheAgent(t *testing.T) {
	t.Setenv("OWN_SECRET", ownSecret)
	f := newTestFS(t)
	fd := openJournal(t)
	makeTree(t, f, "harmless", "dir/x", fmt.Sprint("to journal -> /proc/self/fd/", fd), "to harmless -> harmless", "to dir -> dir", "to own -> /proc/self/fd")
	must(t, os.Mkdir(at(f, "tree"), 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			for name, to := range map[string][2]string{"link": {"to harmless", "to journal"}, "tree/link": {"to dir", "to own"}} {
				target, err := os.Readlink(at(f, to[i%2]))
				if err == nil && !filepath.IsAbs(target) {
					target = at(f, target)
				}
				_ = os.Symlink(target, at(f, "next"))
				_ = os.Rename(at(f, "next"), at(f, name))
			}
		}
	})
	for start := time.Now(); time.Since(start) < time.Second; {
		var s seen
		for _, name := range []string{"link", fmt.Sprint("tree/link/", fd)} {
			_, _ = f.Read(ctx, name, &s.text, ReadOptions{})
		}
		_ = s.grepOf(ctx, f, GrepOptions{Paths: []string{"link", "tree"}, Follow: true})
		_ = s.grepOf(ctx, f, GrepOptions{Paths: []string{"tree"}, Follow: true, Sort: true})
		if bytes.Contains(s.text.Bytes(), []byte(ownSecret)) {
			t.Error("the secret was read")
			break
		}
	}
	cancel()
	swapper.Wait()
}

// Rules for what is left out may be anywhere a link leads, but not in a journal.
func TestIgnoreRulesAreNotReadFromTheAgent(t *testing.T) {
	f := newTestFS(t)
	fd := openJournal(t)
	makeTree(t, f, ownSecret, fmt.Sprint(".ignore -> /proc/self/fd/", fd))
	matches, skipped := collected(t, f.Glob(t.Context(), "tok*", GlobOptions{Ignore: true}))
	if len(matches) != 1 || len(skipped) != 1 || !errors.Is(skipped[0], fs.ErrPermission) {
		t.Errorf("got %v, %v", matches, skipped)
	}
}

func TestFilesOfTheSystemAndOfCommandsAreRead(t *testing.T) {
	f := newTestFS(t)
	command := exec.Command("sleep", "300")
	command.Env = []string{"COMMANDS=own"}
	must(t, command.Start())
	defer func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}()
	dir := fmt.Sprint("/proc/", command.Process.Pid)
	for name, want := range map[string]string{
		"/proc/cpuinfo": "", "/proc/meminfo": "MemTotal:", "/proc/mounts": "", "/proc/net/dev": "Inter-", "/proc/self/mountinfo": "",
		"/proc/sys/kernel/hostname": "", dir + "/status": "Name:", dir + "/environ": "COMMANDS=own", dir + "/task/" + filepath.Base(dir) + "/comm": "sleep",
	} {
		if got := mustRead(t, f, name, ReadOptions{}); got == "" || !strings.HasPrefix(got, want) {
			t.Errorf("%s: read %.40q, want %q", name, got, want)
		}
		if _, err := f.Stat(name); err != nil {
			t.Error(err)
		}
		for r, err := range f.Grep(t.Context(), "", GrepOptions{Paths: []string{name}, Report: GrepFiles}) {
			if err != nil && !errors.Is(err, ErrBinary) {
				t.Errorf("grep of %s: %+v, %v", name, r, err)
			}
		}
	}
	matches, skipped := collected(t, f.Glob(t.Context(), dir+"/st*", GlobOptions{}))
	if len(matches) < 3 || skipped != nil {
		t.Errorf("got %v, %v", matches, skipped)
	}
}

// changers are the operations that change something.
func changers(t *testing.T, f *FS) map[string]func(name string) error {
	ctx := t.Context()
	return map[string]func(name string) error{
		"write": func(name string) error { _, err := write(t, f, name, "1", WriteOptions{}); return err },
		"write new": func(name string) error {
			_, err := write(t, f, name+"/new", "1", WriteOptions{Parents: true})
			return err
		},
		"edit": func(name string) error {
			_, err := f.Edit(ctx, name, []Edit{{Old: []byte("0"), New: []byte("1")}}, EditOptions{})
			return err
		},
		"mkdir":         func(name string) error { return f.Mkdir(name+"/new", MkdirOptions{}) },
		"mkdir parents": func(name string) error { return f.Mkdir(name+"/new/dir", MkdirOptions{Parents: true}) },
		"remove":        func(name string) error { return f.Remove(ctx, name, RemoveOptions{}) },
		"remove tree":   func(name string) error { return f.Remove(ctx, name, RemoveOptions{Recursive: true}) },
		"rename from":   func(name string) error { return f.Rename(ctx, name, "moved", RenameOptions{}) },
		"rename to":     func(name string) error { return f.Rename(ctx, "file", name, RenameOptions{}) },
		"claim":         func(name string) error { return f.Rename(ctx, "file", name, RenameOptions{NoReplace: true}) },
		"copy":          func(name string) error { return f.Copy(ctx, "file", name, CopyOptions{}) },
		"copy tree":     func(name string) error { return f.Copy(ctx, "dir", name, CopyOptions{Recursive: true}) },
		"symlink":       func(name string) error { return f.Symlink("x", name+"/new") },
		"chmod":         func(name string) error { return f.Chmod(name, 0o755) },
		"extract": func(name string) error {
			_, err := f.Extract(ctx, name, bytes.NewReader(someTree(t)), ExtractOptions{})
			return err
		},
	}
}

// someTree returns an archive of a directory with a file.
func someTree(t *testing.T) []byte {
	t.Helper()
	f := newTestFS(t)
	makeTree(t, f, "sub/file")
	var archive bytes.Buffer
	_, err := f.Archive(t.Context(), ".", &archive, ArchiveOptions{})
	must(t, err)
	return archive.Bytes()
}

// Files that control the kernel, and those behind links that only a process may follow, are
// changed by no operation, whether something is protected or not.
func TestNothingIsChangedOnFileSystemsOfTheKernel(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "file", "dir/x", "score -> /proc/self/oom_score_adj", "own -> /proc/self", "outside/")
	must(t, os.Mkdir(at(f, "cgroup"), 0o755))
	mount(t, "cgroup2", at(f, "cgroup"), "cgroup2", 0, "")
	must(t, os.Mkdir(at(f, "procfs"), 0o755))
	mount(t, "proc", at(f, "procfs"), "proc", 0, "")
	held, err := os.Open(at(f, "outside"))
	must(t, err)
	defer held.Close()
	behind := fmt.Sprint("/proc/self/fd/", held.Fd())
	self := fmt.Sprint("/proc/", os.Getpid())
	before, err := os.ReadFile(self + "/oom_score_adj")
	must(t, err)
	t.Cleanup(func() { must(t, os.WriteFile(self+"/oom_score_adj", before, 0)) })
	names := []string{
		"/proc/self/oom_score_adj", "/proc/self/comm", self + "/comm", "/proc/thread-self/comm", "own/comm", "procfs/self/comm",
		self, "/sys/kernel", "/sys/power/state", "cgroup/cgroup.procs", "cgroup/group", "cgroup", behind, behind + "/x", "/proc/self/cwd", "/proc/self/root" + at(f, "outside"),
	}
	for _, patterns := range [][]string{nil, {"something"}} {
		must(t, f.Protect(patterns))
		for what, change := range changers(t, f) {
			for _, name := range names {
				err := change(name)
				if fails := []error{fs.ErrPermission, fs.ErrNotExist, fs.ErrExist, syscall.ENOTDIR, syscall.EISDIR, syscall.EBUSY}; !isAnyOf(err, fails) {
					t.Errorf("%s of %s: %v", what, name, err)
				}
			}
		}
	}
	after, err := os.ReadFile(self + "/oom_score_adj")
	if err != nil || !bytes.Equal(after, before) {
		t.Errorf("oom_score_adj was %q and is %q, %v", before, after, err)
	}
	if _, err := os.Stat(at(f, "cgroup/new")); err == nil {
		must(t, os.Remove(at(f, "cgroup/new")))
		t.Error("there is a new group")
	}
	wantNames(t, at(f, "outside"))
	for _, what := range []string{"write", "edit", "chmod"} { // which follow a link
		if err := changers(t, f)[what]("score"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s of score: %v", what, err)
		}
	}
	for name, want := range map[string]string{"write": "/proc/self/comm", "chmod": "/sys/kernel", "mkdir": "cgroup"} {
		if err := changers(t, f)[name](want); !errors.Is(err, syscall.EPERM) || !strings.Contains(err.Error(), "control the kernel") {
			t.Errorf("%s of %s: %v", name, want, err)
		}
	}
	_, err = write(t, f, behind+"/x", "1", WriteOptions{})
	wantPathError(t, err, "write", behind+"/x", syscall.EACCES)
}

func isAnyOf(err error, classes []error) bool {
	for _, class := range classes {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// A tree that is removed, or unpacked, may have such a file system in it.
func TestMountsOfTheKernelInATreeStay(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "tree/sub/", "tree/file")
	mount(t, "cgroup2", at(f, "tree/sub"), "cgroup2", 0, "")
	group, err := os.MkdirTemp(at(f, "tree/sub"), "fsops-test-") // other runs see it, too
	must(t, err)
	t.Cleanup(func() { _ = os.Remove(group) })
	err = f.Remove(t.Context(), "tree", RemoveOptions{Recursive: true})
	wantPathError(t, err, "remove", "tree/sub", syscall.EPERM)
	if _, err := os.Stat(group); err != nil {
		t.Errorf("the group is gone: %v", err)
	}
	_, err = f.Extract(t.Context(), "tree", bytes.NewReader(someTree(t)), ExtractOptions{})
	wantPathError(t, err, "extract", "sub/", syscall.EPERM)
	// One file may be mounted elsewhere, too.
	put(t, f, "comm", "")
	mount(t, "/proc/self/comm", at(f, "comm"), "", unix.MS_BIND, "")
	_, err = write(t, f, "comm", "x", WriteOptions{})
	wantPathError(t, err, "write", "comm", syscall.EPERM)
}
