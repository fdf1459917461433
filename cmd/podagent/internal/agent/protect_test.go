package agent

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

// serveProtected serves an agent with one protected and one unprotected file.
func serveProtected(t *testing.T, patterns ...string) (*podapi.Client, string) {
	t.Helper()
	workdir, socket := serveTest(t, func(c *Config) { c.Protected = patterns })
	for _, name := range []string{"keep/file", "free"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(workdir, "keep"), 0o755), os.WriteFile(filepath.Join(workdir, name), []byte("original"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dial(t, podapi.DialOptions{Dial: unixDialer(socket)}), workdir
}

func TestProtectedPathsAreRefusedOverTheWire(t *testing.T) {
	c, workdir := serveProtected(t, "keep")
	ctx := t.Context()
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "file"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"write":   c.WriteFile(ctx, "keep/file", []byte("x"), 0o666),
		"edit":    second(c.Edit(ctx, "keep/file", []fsops.Edit{{Old: []byte("o"), New: []byte("x"), All: true}}, fsops.EditOptions{})),
		"mkdir":   c.Mkdir(ctx, "keep/d", 0o777),
		"remove":  c.RemoveAll(ctx, "keep"),
		"rename":  c.Rename(ctx, "keep", "other"),
		"replace": c.Rename(ctx, "free", "keep/file"),
		"copy":    c.Copy(ctx, "free", "keep/file", fsops.CopyOptions{}),
		"chmod":   c.Chmod(ctx, "keep/file", 0o777),
		"symlink": c.Symlink(ctx, "/", "keep/link"),
		"push":    second(c.Push(ctx, source, "keep", podapi.TransferOptions{})),
	} {
		if !errors.Is(err, fsops.ErrProtected) || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v, want ErrProtected", name, err)
			continue
		}
		var path *fs.PathError
		var link *os.LinkError
		if !errors.As(err, &path) && !errors.As(err, &link) || !strings.Contains(err.Error(), `"keep"`) {
			t.Errorf("%s: %v: does not name path and pattern", name, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(workdir, "keep/file")); err != nil || string(got) != "original" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if out, err := c.Shell(ctx, "echo changed >keep/file && cat keep/file").Output(); err != nil || !bytes.Equal(out, []byte("changed\n")) {
		t.Errorf("a command, which may change it: %q, %v", out, err)
	}
}

func TestConfigureReplacesProtectedPaths(t *testing.T) {
	c, workdir := serveProtected(t, "keep")
	ctx := t.Context()
	protected := func() []podapi.ProtectedPath {
		t.Helper()
		info, err := c.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return info.Protected
	}
	byAgent := func(patterns ...string) (paths []podapi.ProtectedPath) {
		for _, p := range patterns {
			paths = append(paths, podapi.ProtectedPath{Path: p, By: podapi.ByAgent})
		}
		return paths
	}
	for _, step := range []struct {
		config podapi.Config
		want   []podapi.ProtectedPath
	}{
		{podapi.Config{Env: []string{"A=1"}}, byAgent("keep")}, // nil keeps the protected paths
		{podapi.Config{Protected: []string{"fr*", "/x/\xff"}}, byAgent("fr*", "/x/\xff")},
		{podapi.Config{Env: []string{}, Protected: []string{"file"}, Workdir: filepath.Join(workdir, "keep")}, byAgent("file")},
	} {
		if err := c.Configure(ctx, step.config); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, protected()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", step.config, diff)
		}
	}
	if err := c.WriteFile(ctx, "file", nil, 0o666); !errors.Is(err, fsops.ErrProtected) {
		t.Errorf("a pattern did not start in the new workdir: %v", err)
	}
	var pattern *fsops.PatternError
	if err := c.Configure(ctx, podapi.Config{Protected: []string{"a["}, Workdir: workdir}); !errors.As(err, &pattern) {
		t.Errorf("a bad pattern: %v", err)
	}
	if info, err := c.Info(ctx); err != nil || info.Workdir != filepath.Join(workdir, "keep") {
		t.Errorf("a bad pattern changed the workdir to %s, %v", info.Workdir, err)
	}
	if diff := cmp.Diff(byAgent("file"), protected()); diff != "" {
		t.Errorf("a bad pattern changed the others:\n%s", diff)
	}
	if err := c.Configure(ctx, podapi.Config{Protected: []string{}}); err != nil || len(protected()) > 0 {
		t.Errorf("still protected: %v, %v", protected(), err)
	}
}

func TestConfigureKeepsTheEnvironment(t *testing.T) {
	c, _ := serveProtected(t)
	for _, config := range []podapi.Config{{Env: []string{"KEPT=1"}}, {Protected: []string{"keep"}}} {
		if err := c.Configure(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := c.Shell(t.Context(), "echo $KEPT").Output(); err != nil || string(out) != "1\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestReadOnlyDirectoriesMustBeMountedReadOnly(t *testing.T) {
	dir := t.TempDir()
	config := Config{Listen: []string{"unix:" + dir + "/s"}, Workdir: dir, ReadOnly: []string{dir}, Log: slog.New(slog.DiscardHandler)}
	if err := Serve(t.Context(), config); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a writable directory: %v", err)
	}
	config.ReadOnly = []string{"/no/such/dir"}
	if err := Serve(t.Context(), config); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
}

func TestInfoSaysWhatIsMountedReadOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mounted")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_RDONLY, ""); err != nil {
		t.Fatalf("cannot mount a tmpfs, for which this test needs root and CAP_SYS_ADMIN: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	_, socket := serveTest(t, func(c *Config) { c.Protected, c.ReadOnly = []string{"*.md"}, []string{dir} })
	info, err := dial(t, podapi.DialOptions{Dial: unixDialer(socket)}).Info(context.Background())
	want := []podapi.ProtectedPath{{Path: "*.md", By: podapi.ByAgent}, {Path: dir, By: podapi.ByMount}}
	if diff := cmp.Diff(want, info.Protected); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
