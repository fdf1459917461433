package proc

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// logged is a log that a test reads while it is written.
type logged struct {
	*slog.Logger
	mu   sync.Mutex
	text bytes.Buffer
}

func newLog() *logged {
	l := &logged{}
	l.Logger = slog.New(slog.NewTextHandler(l, nil))
	return l
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// smallDisk returns a directory on a file system of a size, such as "3m".
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("cannot mount a file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// openIn returns a manager whose journals are on disk in a directory, also if
// that is in memory, and in which nobody is expected to read.
func openIn(t *testing.T, dir string, log *logged) *Manager {
	t.Helper()
	m := NewManager(Options{Log: log.Logger})
	m.lim.attachGrace = 0
	t.Cleanup(func() { m.Shutdown(testContext(t)) })
	file, err := openUnlinked(dir)
	if err != nil {
		t.Fatal(err)
	}
	m.budget.store.use(file)
	return m
}

func TestDirectoryOfJournals(t *testing.T) {
	disk, err := os.MkdirTemp("/var/tmp", "journals") // which is not in memory
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(disk)
	for what, test := range map[string]struct {
		dirs []string
		says string
		size int64
	}{
		"a directory":                  {[]string{disk}, "is kept on disk", journalSize},
		"none":                         {nil, "is kept in memory", memorySize},
		"one without a name":           {[]string{""}, "no such file", memorySize},
		"a missing one":                {[]string{filepath.Join(disk, "missing")}, "no such file", memorySize},
		"a file":                       {[]string{"/proc/self/cmdline"}, "not a directory", memorySize},
		"one in memory":                {[]string{smallDisk(t, "3m")}, "its file system is in memory", memorySize},
		"the first that can be used":   {[]string{filepath.Join(disk, "missing"), "", "/dev/shm", disk}, "directory=" + disk, journalSize},
		"the first of two":             {[]string{disk, "/var/tmp"}, "directory=" + disk, journalSize},
		"none of two that can be used": {[]string{"/proc", "/dev/shm"}, "its file system is in memory", memorySize},
	} {
		log := newLog()
		m := NewManager(Options{Log: log.Logger, JournalDirs: test.dirs})
		if n := m.JournalSize(); n != test.size || !strings.Contains(log.String(), test.says) {
			t.Errorf("%s: the journals have %d bytes: %s", what, n, log)
		}
	}
	if names, err := os.ReadDir(disk); err != nil || len(names) > 0 {
		t.Errorf("the directory has %v, %v", names, err)
	}
}

// printed is what a process prints.
func printed(t *testing.T, script string) []byte {
	t.Helper()
	r := run(t, newDiskManager(t), shell(t, script))
	return r.stdout.Bytes()
}

const numbersScript = "seq 1 3000000" // 22.9 MB

func TestFullDiskIsNotTheProcesssProblem(t *testing.T) {
	dir, log := smallDisk(t, "3m"), newLog()
	m := openIn(t, dir, log)
	p := start(t, m, shell(t, numbersScript))
	if st, err := p.Wait(testContext(t)); err != nil || st.Code != 0 {
		t.Fatalf("got %+v, %v", st, err)
	}
	all, r := printed(t, numbersScript), finish(t, p)
	if !bytes.Equal(r.stdout.Bytes(), all[r.omitted[0]:]) || r.stdout.Len() < memorySize/2 {
		t.Errorf("omitted %d, got %d bytes", r.omitted[0], r.stdout.Len())
	}
	if n := strings.Count(log.String(), "cannot keep the output"); n != 1 {
		t.Errorf("it was logged %d times: %s", n, log)
	}
	if err := m.Forget(p.ID()); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size=100m"); err != nil {
		t.Fatal(err)
	}
	m.budget.store.again = time.Time{}
	p = start(t, m, shell(t, numbersScript))
	if r := finish(t, p); r.omitted[0] > 0 || takes(p)[onDisk] < len(all) {
		t.Errorf("omitted %d, %d bytes are kept", r.omitted[0], takes(p))
	}
	if !strings.Contains(log.String(), "on disk again") {
		t.Errorf("the log says %s", log)
	}
}

func TestFullDiskLosesNothingOfWhatIsRead(t *testing.T) {
	m := openIn(t, smallDisk(t, "3m"), newLog())
	all, r := printed(t, numbersScript), run(t, m, shell(t, numbersScript))
	if r.omitted[0] > 0 || !bytes.Equal(r.stdout.Bytes(), all) {
		t.Errorf("omitted %d, got %d bytes", r.omitted[0], r.stdout.Len())
	}
}

// TestDiskThatFailsLosesWhatWasOnIt takes the disk away under two processes:
// one that goes on, and one that has ended.
func TestDiskThatFailsLosesWhatWasOnIt(t *testing.T) {
	log := newLog()
	m := openIn(t, t.TempDir(), log)
	ended := start(t, m, shell(t, numbersScript))
	running := start(t, m, withStdin(t, "sh", "-c", numbersScript+"; read x; echo end"))
	ended.Wait(testContext(t))
	total := int64(len(printed(t, numbersScript)))
	eventually(t, "output", func() bool { n, _, _ := running.out.sizes(); return n == total })
	if err := m.budget.store.file.Close(); err != nil {
		t.Fatal(err)
	}
	running.CloseStdin()
	for p, size := range map[*Process]int64{ended: total, running: total + 4} {
		r := finish(t, p)
		if r.status.Code != 0 || r.status.Stdout != size || r.omitted[0]+int64(r.stdout.Len()) != size || r.omitted[0] == 0 {
			t.Errorf("omitted %d, got %d bytes of %d, %+v", r.omitted[0], r.stdout.Len(), size, r.status)
		}
	}
	if !strings.Contains(log.String(), "output of a process was lost") {
		t.Errorf("the log says %s", log)
	}
}

// onDiskNow is what the file of the journals takes.
func onDiskNow(t *testing.T, m *Manager) int64 {
	t.Helper()
	info, err := m.budget.store.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

func TestForgottenOutputLeavesTheDisk(t *testing.T) {
	for what, holes := range map[string]bool{"with holes": true, "without holes": false} {
		t.Run(what, func(t *testing.T) {
			m := newDiskManager(t)
			m.budget.store.holes = holes
			p := start(t, m, shell(t, numbersScript))
			if r := finish(t, p); r.omitted[0] > 0 {
				t.Errorf("omitted %d", r.omitted[0])
			}
			if n := onDiskNow(t, m); n < 22e6 {
				t.Errorf("%d bytes are on disk", n)
			}
			if err := m.Forget(p.ID()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "giving the room back", func() bool { return onDiskNow(t, m) == 0 && used(m) == [2]int{} })
			if r := run(t, m, shell(t, numbersScript)); r.omitted[0] > 0 {
				t.Errorf("omitted %d afterwards", r.omitted[0])
			}
		})
	}
}

// TestSlotsAreTakenAgain churns through a hundred times of what there is room
// for.
func TestSlotsAreTakenAgain(t *testing.T) {
	m := newDiskManager(t, func(l *limits) { l.disk.total = 4 << 20 })
	for i := range 400 {
		o := idleOutput(m)
		o.streams[0].append(make([]byte, slotMin<<(i%5)))
		o.streams[0].append(make([]byte, 100_000))
		o.processEnded()
		if n := onDiskNow(t, m); n > 4<<20 {
			t.Fatalf("%d bytes are on disk after %d outputs", n, i)
		}
	}
	info, err := m.budget.store.file.Stat()
	if err != nil || info.Size() > 5*4<<20 {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
}

func TestReaderKeepsAForgottenOutputUntilItLeaves(t *testing.T) {
	m := newDiskManager(t)
	p := start(t, m, shell(t, numbersScript))
	n := 0
	for ev, err := range p.Attach(testContext(t), AttachOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			p.Wait(testContext(t))
			if err := m.Forget(p.ID()); err != nil {
				t.Fatal(err)
			}
		}
		n += len(ev.Data)
	}
	if n < 22e6 {
		t.Errorf("got %d bytes", n)
	}
	if n := takes(p); n != [2]int{} {
		t.Errorf("%d are still taken", n)
	}
	if _, err := m.Get(t.Context(), p.ID()); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if r, err := collect(testContext(t), p, 0, 0); err != nil || r.omitted[0] != int64(n) {
		t.Errorf("a later reader: omitted %v, %v", r.omitted, err)
	}
}
