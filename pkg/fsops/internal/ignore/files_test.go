package ignore

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestRulesInAFileThatIsTooLargeAreAnError(t *testing.T) {
	top := t.TempDir()
	write(t, top+"/.gitignore", "a\n")
	write(t, top+"/.ignore", "b\n")
	if err := os.Truncate(top+"/.ignore", maxFile+1); err != nil {
		t.Fatal(err)
	}
	d, err := Open(top, top)
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("error is %v, want EFBIG", err)
	}
	if !d.Ignored("a", false) || d.Ignored("b", false) {
		t.Error("not the rules of the other file alone")
	}
}

// A stream such as kmsg looks like a regular file, but has no end.
func TestRulesAreNotWaitedFor(t *testing.T) {
	top := t.TempDir()
	write(t, top+"/.gitignore", "a\n")
	if err := os.Symlink("/proc/kmsg", top+"/.ignore"); err != nil {
		t.Fatal(err)
	}
	d, err := Open(top, top)
	if !d.Ignored("a", false) {
		t.Errorf("the other rules do not hold, error %v", err)
	}
}
