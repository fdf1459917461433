package fsops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// within calls do, which must end by itself.
func within(t *testing.T, what string, do func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	do(ctx)
	if ctx.Err() != nil {
		t.Errorf("%s waits", what)
	}
}

// kmsg looks like a regular file, and makes its reader wait for the kernel's next message.
func TestStreamsThatLookRegularAreNotWaitedFor(t *testing.T) {
	const kmsg = "/proc/kmsg"
	file, err := os.Open(kmsg)
	if errors.Is(err, fs.ErrPermission) {
		t.Fatal("only root may read kmsg: run this test as root")
	}
	must(t, err)
	file.Close()
	f := newTestFS(t)
	for what, call := range map[string]func(ctx context.Context) error{
		"read": func(ctx context.Context) error {
			_, err := f.Read(ctx, kmsg, io.Discard, ReadOptions{})
			return err
		},
		"lines": func(ctx context.Context) error {
			_, err := f.ReadLines(ctx, kmsg, LineOptions{})
			return err
		},
		"copy": func(ctx context.Context) error { return f.Copy(ctx, kmsg, "copy", CopyOptions{}) },
		"grep": func(ctx context.Context) error {
			return endOf(t, f.Grep(ctx, "absent", GrepOptions{Paths: []string{kmsg}}))
		},
		"sorted grep": func(ctx context.Context) error {
			return endOf(t, f.Grep(ctx, "absent", GrepOptions{Paths: []string{kmsg}, Sort: true}))
		},
	} {
		within(t, what, func(ctx context.Context) {
			if err := call(ctx); !errors.Is(err, ErrNotRegular) {
				t.Errorf("%s: error is %v, want ErrNotRegular", what, err)
			}
		})
	}
	wantNames(t, f.Workdir())
	within(t, "archive", func(ctx context.Context) { // it takes the size at its word
		_, _ = f.Archive(ctx, kmsg, io.Discard, ArchiveOptions{})
	})
}

// Files of the kernel lie about their size, and some of those that know no wait look as
// if they did.
func TestFilesThatLieAboutTheirSizeAreReadToTheirEnd(t *testing.T) {
	f := newTestFS(t)
	for _, name := range []string{
		"/proc/meminfo", "/proc/self/mountinfo", "/proc/sys/kernel/hostname", "/sys/kernel/mm/transparent_hugepage/enabled",
	} {
		want, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		within(t, name, func(ctx context.Context) {
			var got strings.Builder
			res, err := f.Read(ctx, name, &got, ReadOptions{})
			if err != nil || res.Sum.Size != int64(got.Len()) || got.Len() == 0 || !strings.HasPrefix(got.String(), string(want[:2])) {
				t.Errorf("%s: read %q, %v", name, got.String(), err)
			}
			lines, err := f.ReadLines(ctx, name, LineOptions{Max: 1})
			if err != nil || lines.Count != 1 {
				t.Errorf("%s: %+v, %v", name, lines, err)
			}
		})
	}
}

// The map of a process's pages claims to be empty, and has a quarter of a terabyte.
func TestEndlessFileIsReadUpToTheBound(t *testing.T) {
	f := newTestFS(t)
	command := exec.Command("sleep", "300")
	must(t, command.Start())
	defer func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}()
	pagemap := fmt.Sprint("/proc/", command.Process.Pid, "/pagemap")
	within(t, "read", func(ctx context.Context) {
		res, err := f.Read(ctx, pagemap, io.Discard, ReadOptions{Length: 1 << 20})
		if err != nil || res.Sum.Size != 1<<20 {
			t.Errorf("read: %+v, %v", res, err)
		}
		lines, err := f.ReadLines(ctx, pagemap, LineOptions{MaxBytes: 1 << 10})
		if err != nil || !lines.CutLine || lines.Total != -1 {
			t.Errorf("lines: %d bytes, %d of %d lines, %v", len(lines.Text), lines.Count, lines.Total, err)
		}
		_, err = f.Edit(ctx, pagemap, []Edit{{Old: []byte("a"), New: []byte("b")}}, EditOptions{})
		if err == nil {
			t.Error("edit: no error")
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := f.Read(ctx, pagemap, io.Discard, ReadOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a read without a bound: %v", err)
	}
}
