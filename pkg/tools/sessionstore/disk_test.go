package sessionstore_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/podagent/podagent/pkg/tools/sessionstore"
)

// saverEnv, in the environment of this program, names the directory into which
// it saves without end, in place of running tests.
const saverEnv = "SESSIONSTORE_TEST_SAVER"

// hung is the time after which something that should have ended counts as hung.
const hung = 2 * time.Minute

func TestMain(m *testing.M) {
	if dir := os.Getenv(saverEnv); dir != "" {
		if err := saveOn(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// content is the snapshot of a round: large, and of one byte.
func content(round int) []byte { return bytes.Repeat([]byte{byte(round)}, 1<<20+round) }

// saveOn saves one snapshot after the other, and prints the number of each that
// is saved. It contends with another process that does so, but lets that go on
// when it has won some rounds: on a busy machine one would win them all.
func saveOn(dir string) error {
	s := &sessionstore.Disk{Dir: dir}
	for mine, won := 0, 0; ; {
		old, err := s.Load(context.Background(), "a")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		round := max(0, len(old.Data)-1<<20) + 1
		if round != mine+1 {
			won = 0 // the other has saved
		}
		if won == 3 {
			time.Sleep(time.Millisecond)
			continue
		}
		_, err = s.Save(context.Background(), "a", content(round), old.Version)
		if err == nil {
			fmt.Println(round)
			mine, won = round, won+1
		} else if !errors.Is(err, sessionstore.ErrConflict) {
			return err
		}
	}
}

// startSaver starts a process that saves on, until it is killed. next waits for
// the next round that it says it has saved.
func startSaver(t *testing.T, dir string) (next func() int, kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), saverEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next = func() (round int) {
		if !lines.Scan() {
			t.Fatal("the saver has ended")
		}
		if _, err := fmt.Sscan(lines.Text(), &round); err != nil {
			t.Fatal(lines.Text())
		}
		return round
	}
	return next, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// TestDiskOutlivesProcessesThatAreKilled has two processes save to one store,
// and kills both in the midst of it. A kill leaves a temporary file only if it meets the
// instant in which the new content has two names.
func TestDiskOutlivesProcessesThatAreKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := &sessionstore.Disk{Dir: dir}
	saved := 0
	for try := range 10 {
		next1, kill1 := startSaver(t, dir)
		next2, kill2 := startSaver(t, dir)
		for range 3 {
			r1, r2 := next1(), next2()
			if r1 == r2 {
				t.Errorf("both processes have saved round %d", r1)
			}
			saved = max(saved, r1, r2)
		}
		time.Sleep(time.Duration(try) * time.Millisecond) // to meet each at another moment
		kill1()
		kill2()
		got, err := s.Load(t.Context(), "a")
		if round := len(got.Data) - 1<<20; err != nil || round < saved || !bytes.Equal(got.Data, content(round)) {
			t.Fatalf("of %d rounds that were saved there are %d, %v", saved, round, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" && len(entries) > 4 {
		t.Errorf("20 kills left %v in the store", entries)
	}
}

func TestDiskLetsNobodyElseIn(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "state", "sessions")
	s := &sessionstore.Disk{Dir: dir}
	for _, id := range []string{"../../escape", "/etc/passwd", "a\x00b", "CON", "A", "a"} {
		if _, err := s.Save(t.Context(), id, []byte(id), ""); err != nil {
			t.Error(err)
		}
	}
	files := 0
	err := filepath.WalkDir(parent, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == parent {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.Type().IsRegular() {
			files++
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || files != 7 {
		t.Errorf("%d files, %v", files, err)
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Save(t.Context(), "b", nil, ""); err == nil || !strings.Contains(err.Error(), "0700") {
		t.Errorf("a directory that others may write to: %v", err)
	}
}

func TestDiskDoesNotWaitForALockForEver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := &sessionstore.Disk{Dir: dir}
	version, err := s.Save(t.Context(), "a", []byte("1"), "")
	if err != nil {
		t.Fatal(err)
	}
	held, err := lockedfile.Edit(filepath.Join(dir, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := s.Save(ctx, "a", []byte("2"), version); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), ".lock") {
		t.Errorf("Save: %v", err)
	}
	if err := s.Delete(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Delete: %v", err)
	}
	if took := time.Since(begun); took > hung {
		t.Errorf("that took %v", took)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Save(t.Context(), "a", []byte("2"), version); err != nil {
		t.Errorf("when the lock is free: %v", err)
	}
}

func TestDiskThatWasNeverUsedIsNotMadeByADelete(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "sessions")
	s := &sessionstore.Disk{Dir: dir}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory above the store: %v", err)
	}
}

// TestDiskNeedsADirectory has no error look like that of a new session.
func TestDiskNeedsADirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	var s sessionstore.Disk
	_, loadErr := s.Load(t.Context(), "a")
	_, saveErr := s.Save(t.Context(), "a", nil, "")
	for _, err := range []error{loadErr, saveErr, s.Delete(t.Context(), "a")} {
		if !errors.Is(err, fs.ErrInvalid) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without a directory: %v", err)
		}
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 0 {
		t.Errorf("the working directory has %v, %v", entries, err)
	}
}

func TestDiskTellsADamagedSnapshot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := &sessionstore.Disk{Dir: dir}
	if _, err := s.Save(t.Context(), "a", bytes.Repeat([]byte("1"), 100), ""); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.session"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		content    []byte
	}{
		{"cut", "damaged", whole[:len(whole)-1]},
		{"changed", "damaged", bytes.Replace(whole, []byte("111"), []byte("121"), 1)},
		{"empty", "is not a snapshot of this session", nil},
		{"another's", "is not a snapshot of this session", bytes.Replace(whole, []byte(`"a"`), []byte(`"b"`), 1)},
	} {
		if err := os.WriteFile(files[0], c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(t.Context(), "a"); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}
