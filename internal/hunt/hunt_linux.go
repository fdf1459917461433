package hunt

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Hunt looks for a secret that must not be there, and for a control, a text that is.
type Hunt struct {
	since   time.Time
	texts   [][]byte
	control []byte

	found  map[string]int // places that have the control, by kind
	places int
	size   int64
}

// New returns a hunt for a value of at least 16 bytes. The control, such as the value's placeholder, is in
// places where the value would be, too. Files that have not changed since a time are not read.
func New(value, control string, since time.Time) *Hunt {
	return &Hunt{since: since.Add(-time.Second), texts: spellings(value), control: []byte(control), found: map[string]int{}}
}

// spellings are the ways in which programs, and HTTP, write a credential. The last bytes of base64 depend
// on what follows.
func spellings(value string) [][]byte {
	inner := func(text string) []byte {
		return []byte(base64.StdEncoding.EncodeToString([]byte(text))[:8*len(value)/6-8])
	}
	return [][]byte{[]byte(value), []byte(hex.EncodeToString([]byte(value))), inner("me:" + value), inner(value)}
}

// Has reports whether a text has the secret.
func (h *Hunt) Has(text []byte) bool {
	for _, s := range h.texts {
		if bytes.Contains(text, s) {
			return true
		}
	}
	return false
}

// Text searches a text.
func (h *Hunt) Text(t testing.TB, place string, text []byte) {
	t.Helper()
	h.look(t, "texts", place, bytes.NewReader(text))
}

// Check fails the test if the control was not found in each of the kinds of places where it is: files,
// and the environment, the memory and the open files of processes.
func (h *Hunt) Check(t testing.TB) {
	t.Helper()
	for _, kind := range []string{"files", "memory", "environment", "open files"} {
		if h.found[kind] == 0 {
			t.Errorf("the search did not find the control in %s, where it is", kind)
		}
	}
	t.Logf("searched %d MiB in %d places; the control was in %v", h.size>>20, h.places, h.found)
}

// look searches what is read.
func (h *Hunt) look(t testing.TB, kind, place string, r io.Reader) {
	t.Helper()
	h.places++
	const overlap = 256
	buffer := make([]byte, overlap+1<<20)
	has := false
	for kept := 0; ; {
		n, err := io.ReadFull(r, buffer[kept:])
		h.size += int64(n)
		piece := buffer[:kept+n]
		if h.Has(piece) {
			t.Errorf("%s has the secret", place)
		}
		has = has || bytes.Contains(piece, h.control)
		if err != nil { // the end, or a page that nobody may read
			break
		}
		kept = copy(buffer, piece[len(piece)-overlap:])
	}
	if has {
		h.found[kind]++
	}
}

// Files searches those below a directory.
func (h *Hunt) Files(t testing.TB, dir string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), "go-") {
			return fs.SkipDir // of the go command, which builds other tests
		}
		if err != nil || !entry.Type().IsRegular() {
			return nil // it is another test's, and has gone
		}
		if info, err := entry.Info(); err == nil && h.changed(info) {
			h.file(t, "files", name)
		}
		return nil
	})
}

// changed reports whether a file has changed in the test's time, whatever time somebody gave it.
func (h *Hunt) changed(info fs.FileInfo) bool {
	return time.Unix(info.Sys().(*syscall.Stat_t).Ctim.Unix()).After(h.since)
}

// Root searches the files that a process sees, but for those of the kernel.
func (h *Hunt) Root(t testing.TB, pid int) {
	t.Helper()
	root := fmt.Sprintf("/proc/%d/root", pid)
	entries, err := os.ReadDir(root + "/")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "proc" && e.Name() != "sys" {
			h.Files(t, filepath.Join(root, e.Name()))
		}
	}
}

func (h *Hunt) file(t testing.TB, kind, name string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		return // it has gone
	}
	defer f.Close()
	h.look(t, kind, name, f)
}

// Processes searches a process and its descendants: the environment, the memory, and the files that are
// open, as journals are, which have no names.
func (h *Hunt) Processes(t testing.TB, pid int) {
	t.Helper()
	h.process(t, pid)
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range children {
		text, _ := os.ReadFile(file) // a thread that has ended has none
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				h.Processes(t, child)
			}
		}
	}
}

func (h *Hunt) process(t testing.TB, pid int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d", pid)
	h.file(t, "environment", dir+"/environ")
	h.file(t, "arguments", dir+"/cmdline")
	opened, _ := os.ReadDir(dir + "/fd")
	for _, fd := range opened {
		name := filepath.Join(dir, "fd", fd.Name())
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			h.file(t, "open files", name)
		}
	}
	maps, err := os.ReadFile(dir + "/maps")
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open(dir + "/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil {
			continue // an address of the kernel's
		}
		if mode[0] == 'r' {
			h.look(t, "memory", dir+"/mem: "+line, io.NewSectionReader(memory, from, to-from))
		}
	}
}
