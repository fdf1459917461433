package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// smallDisk returns a directory on a file system of the given size, such as "3m".
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

// openIn returns a budget whose journals are on disk in a directory, even if that
// is in memory, and which expects no readers.
func openIn(t *testing.T, dir string, log *logged) *Budget {
	t.Helper()
	lim := DefaultLimits()
	lim.AttachGrace = 0
	b := NewBudget(&lim, log.Logger)
	if err := b.OpenAny(dir); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDirectoryOfJournals(t *testing.T) {
	disk, err := os.MkdirTemp("/var/tmp", "journals") // this is not in memory
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(disk)
	for what, test := range map[string]struct {
		dirs []string
		says string
		size int64
	}{
		"a directory":          {[]string{disk}, "is kept on disk", processSize},
		"none":                 {nil, "is kept in memory", memorySize},
		"one without a name":   {[]string{""}, "no such file", memorySize},
		"a missing one":        {[]string{filepath.Join(disk, "missing")}, "no such file", memorySize},
		"a file":               {[]string{"/proc/self/cmdline"}, "not a directory", memorySize},
		"one in memory":        {[]string{smallDisk(t, "3m")}, "its file system is in memory", memorySize},
		"the first usable one": {[]string{filepath.Join(disk, "missing"), "", "/dev/shm", disk}, "directory=" + disk, processSize},
		"the first of two":     {[]string{disk, "/var/tmp"}, "directory=" + disk, processSize},
		"two, neither usable":  {[]string{"/proc", "/dev/shm"}, "its file system is in memory", memorySize},
	} {
		log := newLog()
		lim := DefaultLimits()
		b := NewBudget(&lim, log.Logger)
		b.OpenIn(test.dirs)
		if n := b.Size(); n != test.size || !strings.Contains(log.String(), test.says) {
			t.Errorf("%s: the journals have %d bytes: %s", what, n, log)
		}
	}
	if names, err := os.ReadDir(disk); err != nil || len(names) > 0 {
		t.Errorf("the directory has %v, %v", names, err)
	}
}

// long is the size of the outputs in these tests: more than a small disk holds.
const long = 23_000_000

func TestFullDiskIsNotTheWritersProblem(t *testing.T) {
	dir, log, all := smallDisk(t, "3m"), newLog(), numbers(1, long)
	b := openIn(t, dir, log)
	o := b.NewOutput(nil)
	write(o.Stream(0), all)
	end(o)
	got := finish(t, o)
	if out := got.streams[0].Bytes(); !bytes.Equal(out, all[got.omitted[0]:]) || len(out) < memorySize/2 {
		t.Errorf("omitted %d, got %d bytes", got.omitted[0], len(out))
	}
	if n := strings.Count(log.String(), "cannot keep the output"); n != 1 {
		t.Errorf("it was logged %d times: %s", n, log)
	}
	o.Forget()
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size=100m"); err != nil {
		t.Fatal(err)
	}
	b.store.again = time.Time{}
	o = b.NewOutput(nil)
	write(o.Stream(0), all)
	end(o)
	if got := finish(t, o); got.omitted[0] > 0 || takes(o)[onDisk] < len(all) {
		t.Errorf("omitted %d, %d bytes are kept", got.omitted[0], takes(o))
	}
	if !strings.Contains(log.String(), "on disk again") {
		t.Errorf("the log says %s", log)
	}
}

func TestFullDiskLosesNothingOfWhatIsRead(t *testing.T) {
	o, all := openIn(t, smallDisk(t, "3m"), newLog()).NewOutput(nil), numbers(1, long)
	reader, err := o.Attach(ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		write(o.Stream(0), all)
		end(o)
	}()
	got, err := drain(testContext(t), reader, [2]int64{})
	if err != nil || got.omitted[0] > 0 || !bytes.Equal(got.streams[0].Bytes(), all) {
		t.Errorf("omitted %d, got %d bytes, %v", got.omitted[0], got.streams[0].Len(), err)
	}
}

// TestDiskThatFailsLosesWhatWasOnIt makes the disk fail under a running output and
// an ended one.
func TestDiskThatFailsLosesWhatWasOnIt(t *testing.T) {
	log, all := newLog(), numbers(1, long)
	b := openIn(t, t.TempDir(), log)
	ended, running := b.NewOutput(nil), b.NewOutput(nil)
	write(ended.Stream(0), all)
	write(running.Stream(0), all)
	end(ended)
	if err := b.store.file.Close(); err != nil {
		t.Fatal(err)
	}
	write(running.Stream(0), []byte("end\n"))
	end(running)
	for o, size := range map[*Output]int64{ended: long, running: long + 4} {
		r := finish(t, o)
		if n := int64(r.streams[0].Len()); o.State().Written[0] != size || r.omitted[0]+n != size || r.omitted[0] == 0 {
			t.Errorf("omitted %d, got %d bytes of %d", r.omitted[0], n, size)
		}
	}
	if !strings.Contains(log.String(), "output of a process was lost") {
		t.Errorf("the log says %s", log)
	}
}

// onDiskNow returns the size of the journals' file on disk.
func onDiskNow(t *testing.T, b *Budget) int64 {
	t.Helper()
	info, err := b.store.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

func TestForgottenOutputLeavesTheDisk(t *testing.T) {
	all := numbers(1, long)
	for what, holes := range map[string]bool{"with holes": true, "without holes": false} {
		t.Run(what, func(t *testing.T) {
			b := newDiskBudget(t)
			b.store.holes = holes
			for range 2 {
				o := b.NewOutput(nil)
				write(o.Stream(0), all)
				end(o)
				if r := finish(t, o); r.omitted[0] > 0 {
					t.Errorf("omitted %d", r.omitted[0])
				}
				if n := onDiskNow(t, b); n < long {
					t.Errorf("%d bytes are on disk", n)
				}
				o.Forget()
				eventually(t, "giving the room back", func() bool { return onDiskNow(t, b) == 0 && used(b) == [2]int{} })
			}
		})
	}
}

// TestSlotsAreTakenAgain writes a hundred times as much as there is room for.
func TestSlotsAreTakenAgain(t *testing.T) {
	b := newDiskBudget(t, func(l *Limits) { l.Disk.Total = 4 << 20 })
	for i := range 400 {
		o := unread(b)
		write(o.streams[0], make([]byte, slotMin<<(i%5)))
		write(o.streams[0], make([]byte, 100_000))
		o.Seal()
		if n := onDiskNow(t, b); n > 4<<20 {
			t.Fatalf("%d bytes are on disk after %d outputs", n, i)
		}
	}
	info, err := b.store.file.Stat()
	if err != nil || info.Size() > 5*4<<20 {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
}

func TestReaderKeepsAForgottenOutputUntilItLeaves(t *testing.T) {
	o := newDiskBudget(t).NewOutput(nil)
	write(o.Stream(0), numbers(1, long))
	end(o)
	reader, err := o.Attach(ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ev, err := range reader.Events(testContext(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			o.Forget()
		}
		n += len(ev.Data)
	}
	if n != long {
		t.Errorf("got %d bytes", n)
	}
	if n := takes(o); n != [2]int{} {
		t.Errorf("%d are still taken", n)
	}
	if r := finish(t, o); r.omitted[0] != long {
		t.Errorf("a later reader: omitted %v", r.omitted)
	}
}
