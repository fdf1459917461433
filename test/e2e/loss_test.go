package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tests of this file need the sandbox's machine: they kill the agent, and fill
// the disk.

func TestWriteWhoseAgentIsKilledLeavesTheOldContent(t *testing.T) {
	t.Parallel()
	l := launchertest.Local(t)
	s, err := l.Launch(t.Context(), launcher.Spec{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	harness.Put(t, s, "dir/file", "old")
	pid := agentPID(t, s)
	w, err := s.Create(t.Context(), "dir/file", fsops.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, harness.Pattern(8<<20, 1)); err != nil {
		t.Fatal(err)
	}
	killAgent(t, pid)
	if _, err := w.Commit(); !errors.Is(err, podapi.ErrUnavailable) {
		t.Errorf("the write ended with %v", err)
	}
	again, err := l.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	harness.Intact(t, again, "dir", "file", "old")
	// The client that was open before continues to work, too.
	harness.Intact(t, s, "dir", "file", "old")
}

func TestProcessWhoseAgentIsKilledIsLostAndNoResult(t *testing.T) {
	t.Parallel()
	s := launchertest.Sandbox(t)
	pid := agentPID(t, s)
	cmd := s.Command(t.Context(), "sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(cmd.Process.PID(), syscall.SIGKILL) // nothing else ends it now
	killAgent(t, pid)
	err := cmd.Wait()
	if exit := (*podapi.ExitError)(nil); !errors.Is(err, podapi.ErrAgentLost) || errors.As(err, &exit) {
		t.Errorf("Wait: %v", err)
	}
	if status := cmd.Process.Status(); status == nil || status.Reason != podapi.AgentLost || status.Success() {
		t.Errorf("status %+v", status)
	}
}

// smallDisk mounts a tmpfs of 1 MiB at dir.
func smallDisk(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "podagent-test", dir).CombinedOutput(); err != nil {
		t.Fatalf("cannot mount a tmpfs, which needs root: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
}

func TestWriteOnAFullDiskLeavesTheOldContentAndIsENOSPC(t *testing.T) {
	t.Parallel()
	s := launchertest.Sandbox(t)
	smallDisk(t, filepath.Join(s.Workdir, "disk"))
	harness.Put(t, s, "disk/file", "old")
	large := bytes.Repeat([]byte("x"), 8<<20)
	err := s.WriteFile(t.Context(), "disk/file", large, 0o666)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the write ended with %v", err)
	}
	harness.Intact(t, s, "disk", "file", "old")

	edit := fsops.Edit{Old: []byte("old"), New: large[:3<<20]}
	if _, err := s.Edit(t.Context(), "disk/file", []fsops.Edit{edit}, fsops.EditOptions{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the edit ended with %v", err)
	}
	harness.Intact(t, s, "disk", "file", "old")

	local := t.TempDir()
	if err := os.WriteFile(filepath.Join(local, "large"), large, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Push(t.Context(), local, "disk", podapi.TransferOptions{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the push ended with %v", err)
	}
	harness.Intact(t, s, "disk", "file", "old")
}
