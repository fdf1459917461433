package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher/ledger"
)

// dirEnv tells the test binary to count in the ledger of a directory, and nothing else.
const dirEnv = "LEDGER_TEST_DIR"

const perWriter = 50

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirEnv); dir != "" {
		if err := count(context.Background(), ledger.Files{Dir: dir}, perWriter); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// count adds n to the number in the ledger "n", one by one.
func count(ctx context.Context, f ledger.Files, n int) error {
	for range n {
		err := f.Amend(ctx, "n", func(_ context.Context, old []byte) ([]byte, time.Time, error) {
			now, _ := strconv.Atoi(string(old)) // none is 0
			return []byte(strconv.Itoa(now + 1)), time.Time{}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func read(t *testing.T, f ledger.Files) (text string) {
	t.Helper()
	err := f.Amend(t.Context(), "n", func(_ context.Context, old []byte) ([]byte, time.Time, error) {
		text = string(old)
		return old, time.Time{}, nil
	})
	if err != nil {
		t.Error(err)
	}
	return text
}

func TestNoChangeIsLostAmongProcesses(t *testing.T) {
	f := ledger.Files{Dir: filepath.Join(t.TempDir(), "made")}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), dirEnv+"="+f.Dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		all.Go(func() {
			if err := count(t.Context(), f, perWriter); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := read(t, f); got != strconv.Itoa(8*perWriter) {
		t.Errorf("the sum is %s, want %d", got, 8*perWriter)
	}
}

func TestEmptyTextLeavesNothing(t *testing.T) {
	f := ledger.Files{Dir: t.TempDir()}
	if err := count(t.Context(), f, 1); err != nil {
		t.Fatal(err)
	}
	err := f.Amend(t.Context(), "n", func(context.Context, []byte) ([]byte, time.Time, error) { return nil, time.Time{}, nil })
	left, readErr := os.ReadDir(f.Dir)
	if err != nil || readErr != nil || len(left) > 0 {
		t.Errorf("left are %v: %v, %v", left, err, readErr)
	}
}

func TestChangeThatFailsChangesNothing(t *testing.T) {
	f := ledger.Files{Dir: t.TempDir()}
	if err := count(t.Context(), f, 3); err != nil {
		t.Fatal(err)
	}
	wrong := errors.New("wrong")
	err := f.Amend(t.Context(), "n", func(context.Context, []byte) ([]byte, time.Time, error) { return []byte("x"), time.Time{}, wrong })
	if !errors.Is(err, wrong) {
		t.Errorf("the error is %v", err)
	}
	err = f.Amend(t.Context(), "n", func(context.Context, []byte) ([]byte, time.Time, error) {
		return make([]byte, ledger.Limit+1), time.Time{}, nil
	})
	if !errors.Is(err, ledger.ErrFull) {
		t.Errorf("the error is %v, want ErrFull", err)
	}
	if got := read(t, f); got != "3" {
		t.Errorf("the text is %q, want 3", got)
	}
}

func TestChangeWaitsNoLongerThanItsContext(t *testing.T) {
	f := ledger.Files{Dir: t.TempDir()}
	err := f.Amend(t.Context(), "n", func(context.Context, []byte) ([]byte, time.Time, error) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		err := count(ctx, f, 1) // which waits for this change
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		return nil, time.Time{}, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNamesThatCannotBeFiles(t *testing.T) {
	f := ledger.Files{Dir: t.TempDir()}
	for _, name := range []string{"", "../n", "a/b", ".", "A", "a\x00", strings.Repeat("a", 101)} {
		err := f.Amend(t.Context(), name, func(_ context.Context, old []byte) ([]byte, time.Time, error) {
			t.Errorf("%q has the text %q", name, old)
			return nil, time.Time{}, nil
		})
		if err == nil {
			t.Errorf("%q is a name", name)
		}
	}
}
