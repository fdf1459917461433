package reread_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/internal/reread"
)

// A file that is written in place may have the same size, and the same time where clocks are coarse.
func TestFileThatLooksTheSameIsReadAfterItsTime(t *testing.T) {
	path, at := filepath.Join(t.TempDir(), "file"), time.Now().Add(-time.Hour)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	var f reread.File
	expect := func(within time.Duration, want string, wantChanged bool, wantErr string) {
		t.Helper()
		data, changed, err := f.Read(path, 3, within)
		if string(data) != want || changed != wantChanged || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%q, %v, %v", data, changed, err)
		}
	}
	expect(time.Hour, "", false, "no such file")
	write("one")
	expect(time.Hour, "one", true, "")
	expect(0, "one", false, "")
	write("two")
	expect(time.Hour, "one", false, "")
	expect(0, "two", true, "")
	write("3")
	expect(time.Hour, "3", true, "")
	write("four")
	expect(time.Hour, "", false, "larger than 3 bytes")
	expect(time.Hour, "", false, "larger than 3 bytes")
	write("3")
	expect(time.Hour, "3", true, "")
	write("")
	expect(time.Hour, "", true, "")
	path = t.TempDir()
	expect(time.Hour, "", false, "not a regular file")
}
