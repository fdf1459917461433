package object

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// openStore returns the store in a directory, in use until the test ends.
func openStore(t testing.TB, dir string) *Store {
	t.Helper()
	for _, name := range []string{"objects", "packs", "unverified", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	o := New(Dirs{
		Large: filepath.Join(dir, "objects"), Packs: filepath.Join(dir, "packs"),
		Unverified: filepath.Join(dir, "unverified"), Temporary: filepath.Join(dir, "tmp"),
	})
	t.Cleanup(o.Use())
	return o
}

// noisy returns content that does not compress.
func noisy(seed byte, size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

func putAll(t testing.TB, o *Store, contents ...[]byte) (all map[Hash][]byte) {
	t.Helper()
	all = map[Hash][]byte{}
	for _, content := range contents {
		h, err := o.Put(content)
		if err != nil {
			t.Fatal(err)
		}
		all[h] = content
	}
	return all
}

func mustHave(t testing.TB, o *Store, want map[Hash][]byte) {
	t.Helper()
	c := new(Coder)
	for h, content := range want {
		if got, err := o.Read(c, h, MaxDir); err != nil || !bytes.Equal(got, content) {
			t.Errorf("object %s of %d bytes: %d bytes, %v", h, len(content), len(got), err)
		}
	}
}

func packFiles(t testing.TB, o *Store) []os.DirEntry {
	t.Helper()
	files, err := os.ReadDir(o.packs.dir)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// What many put at once comes back, from packs that are being written, from full ones, and in the next process.
func TestPacksHaveWhatWasPut(t *testing.T) {
	dir := t.TempDir()
	o := openStore(t, dir)
	o.packs.full = 512 << 10
	all := map[Hash][]byte{}
	var mu sync.Mutex
	var writers sync.WaitGroup
	for n := range 4 {
		writers.Go(func() {
			for i := range 60 {
				content := noisy(byte(i), i*i*50) // some are put by others, too
				if i%2 == 0 {
					content = bytes.Repeat([]byte{byte(n), byte(i)}, i*1000)
				}
				mine := putAll(t, o, content)
				mustHave(t, o, mine)
				mu.Lock()
				maps.Copy(all, mine)
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	mustHave(t, o, all)
	if err := o.Seal(); err != nil {
		t.Fatal(err)
	}
	mustHave(t, o, all)
	mustHave(t, openStore(t, dir), all)
	if n := len(packFiles(t, o)); n < 3 {
		t.Errorf("there are %d packs: none was full", n)
	}
}

// What was not sealed is not there afterwards, and neither is its file.
func TestAbandonedPacksLeaveNothing(t *testing.T) {
	o := openStore(t, t.TempDir())
	kept := putAll(t, o, []byte("kept"))
	if err := o.Seal(); err != nil {
		t.Fatal(err)
	}
	for h := range putAll(t, o, []byte("abandoned")) {
		o.packs.abandon()
		if o.Has(h) {
			t.Error("it is still there")
		}
	}
	mustHave(t, o, kept)
	if left, err := os.ReadDir(o.tmp); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// A collection writes packs anew that are mostly of objects that nobody has, and puts small ones together.
func TestCollectionWritesWastefulPacksAnew(t *testing.T) {
	dir := t.TempDir()
	o := openStore(t, dir)
	var contents [][]byte
	for i := range 100 {
		contents = append(contents, noisy(byte(i), 4<<10))
	}
	all := putAll(t, o, contents...)
	if err := o.Seal(); err != nil {
		t.Fatal(err)
	}
	for _, part := range []struct{ kept, size int }{{100, 100}, {60, 100}, {40, 40}, {0, 0}} {
		kept := map[Hash][]byte{}
		for h, content := range all {
			if len(kept) < part.kept {
				kept[h] = content
			}
		}
		if err := o.packs.sweep(t.Context(), func(h Hash) bool { return kept[h] != nil }); err != nil {
			t.Fatal(err)
		}
		all = kept
		mustHave(t, o, all)
		mustHave(t, openStore(t, dir), all)
		total, err := o.packs.total()
		if want := int64(part.size * (4<<10 + packRecord)); err != nil || total < want || total > want+int64(packTail) {
			t.Errorf("with %d objects, the packs have %d bytes, %v", part.kept, total, err)
		}
	}
	for i := range manySmall + 1 {
		maps.Copy(all, putAll(t, o, noisy(byte(i), 100)))
		if err := o.Seal(); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.packs.sweep(t.Context(), func(Hash) bool { return true }); err != nil {
		t.Fatal(err)
	}
	mustHave(t, openStore(t, dir), all)
	if n := len(packFiles(t, o)); n != 1 {
		t.Errorf("there are %d packs", n)
	}
}

// A collection that has no room to write a pack anew loses nothing.
func TestCollectionWithoutRoomLosesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Fatalf("cannot mount tmpfs, for which this test needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	o := openStore(t, dir)
	var contents [][]byte
	for i := range 30 {
		contents = append(contents, noisy(byte(i), 100<<10))
	}
	all := putAll(t, o, contents...)
	if err := o.Seal(); err != nil {
		t.Fatal(err)
	}
	_ = os.WriteFile(filepath.Join(dir, "rest"), make([]byte, 4<<20), 0o600) // until nothing is left
	kept := map[Hash][]byte{}
	for h, content := range all {
		if len(kept) < 10 {
			kept[h] = content
		}
	}
	if err := o.packs.sweep(t.Context(), func(h Hash) bool { return kept[h] != nil }); err != nil {
		t.Error(err)
	}
	mustHave(t, o, kept)
	mustHave(t, openStore(t, dir), kept)
}

// A pack that cannot be written takes its objects with it, and its room: they are put again, also those of others.
func TestPackThatCannotBeWrittenHasNoObjects(t *testing.T) {
	for name, write := range map[string]func(o *Store) error{
		"when its buffer is full": func(o *Store) error { _, err := o.Put(noisy(1, packBuffer)); return err },
		"when it is sealed":       func(o *Store) error { return o.Seal() },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := openStore(t, dir)
			lost := putAll(t, o, []byte("put before"))
			o.packs.idle[0].file.Close() // as a full disk: no write succeeds
			if err := write(o); err == nil {
				t.Fatal("it was written")
			}
			for h := range lost {
				if o.Has(h) {
					t.Error("its object is still there")
				}
			}
			if left, err := os.ReadDir(o.tmp); err != nil || len(left) > 0 {
				t.Errorf("%v are left, %v", left, err)
			}
			putAll(t, o, []byte("put before"))
			if err := o.Seal(); err != nil {
				t.Fatal(err)
			}
			mustHave(t, openStore(t, dir), lost)
		})
	}
}

// An object that is not what its hash says is not taken from another store.
func TestForgedObjectIsNotTaken(t *testing.T) {
	from, to, sending, c := openStore(t, t.TempDir()), openStore(t, t.TempDir()), new(Coder), new(Coder)
	// Of these, one is compressed where it is stored, one when it is sent, and one is not.
	all := putAll(t, from, bytes.Repeat([]byte("text "), 2000), bytes.Repeat([]byte("text "), 500), []byte("short"))
	for h, content := range all {
		r, size, how, err := from.OpenToSend(sending, h)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if compressed := len(content) > 1000; err != nil || len(text) != int(size) || compressed != (how == S2) || compressed && len(text) > len(content)/10 {
			t.Fatalf("%d of %d bytes, encoded as %d, %v", len(text), size, how, err)
		}
		for name, err := range map[string]error{
			"longer than it may be":  to.PutPacked(c, h, text, how, int64(len(content))-1),
			"of another encoding":    to.PutPacked(c, h, text, 1-how, MaxDir),
			"of an unknown encoding": to.PutPacked(c, h, text, 2, MaxDir),
			"short":                  to.PutPacked(c, h, text[1:], how, MaxDir),
			"another one's":          to.PutPacked(c, Hash{1}, text, how, MaxDir),
		} {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("an object that is %s: %v", name, err)
			}
		}
		if err := to.PutPacked(c, h, text, how, int64(len(content))); err != nil {
			t.Error(err)
		}
	}
	mustHave(t, to, all)
}

// packOf returns a pack with this list behind some bytes.
func packOf(objects []byte, count uint32, list []byte) []byte {
	b := append(bytes.Clone(objects), list...)
	b = binary.LittleEndian.AppendUint32(b, count)
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(list))
	return append(b, packMagic...)
}

// Whoever can write to the store can make packs.
func TestForgedPacksCountForNothing(t *testing.T) {
	o := openStore(t, t.TempDir())
	record := binary.LittleEndian.AppendUint32(make([]byte, len(Hash{})), 5<<1)
	for i, forged := range [][]byte{
		packOf(nil, 1<<31, nil), packOf([]byte("12345"), 2, record), packOf([]byte("1234"), 1, record), packOf([]byte("123456"), 1, record),
		packOf(nil, 0, nil)[1:],
		{},
		packOf([]byte("12345"), 1, record),
	} {
		if err := os.WriteFile(filepath.Join(o.packs.dir, packName(uint64(i+1))), forged, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.Read(new(Coder), Hash{}, MaxDir); !errors.Is(err, ErrCorrupt) {
		t.Errorf("reading what is another object: %v", err)
	}
	mustHave(t, o, putAll(t, o, []byte("12345")))
	if len(o.packs.places) != 2 {
		t.Errorf("the packs have %d objects", len(o.packs.places))
	}
	last := openStore(t, t.TempDir())
	if err := os.WriteFile(filepath.Join(last.packs.dir, packName(maxNumber)), packOf(nil, 0, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(last.packs.dir, packName(7)))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	mustHave(t, last, putAll(t, last, []byte("x")))
}

// A pack may say that an object has 2 GiB, and cost nothing, since it is a sparse file. Whoever reads it to send it or
// to put it into another pack takes no memory for it, and writes nothing of it.
func TestForgedLengthTakesNoMemory(t *testing.T) {
	o := openStore(t, t.TempDir())
	kept, dropped := Hash{1}, Hash{2}
	const keptSize, droppedSize = 2 * MaxDir, 3 * MaxDir // so that a collection writes the pack anew
	list := binary.LittleEndian.AppendUint32(kept[:], keptSize<<1)
	list = binary.LittleEndian.AppendUint32(append(list, dropped[:]...), droppedSize<<1)
	file, err := os.Create(filepath.Join(o.packs.dir, packName(1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(packOf(nil, 2, list), keptSize+droppedSize); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	c := new(Coder)
	_, _, _, err = o.OpenToSend(c, kept)
	if !errors.Is(err, ErrCorrupt) || cap(c.packed) > 0 || cap(c.Content) > 0 {
		t.Errorf("to send it, there is a buffer of %d bytes, %v", cap(c.packed), err)
	}
	if err := o.Sweep(t.Context(), func(h Hash) bool { return h == kept }); err != nil {
		t.Fatal(err)
	}
	if used := o.Used(); used != 0 {
		t.Errorf("a collection leaves %d bytes", used)
	}
}

// Whatever a pack has, only what its hash says is read.
func FuzzPack(f *testing.F) {
	o := openStore(f, f.TempDir())
	putAll(f, o, bytes.Repeat([]byte("text "), 100), []byte("short"), nil)
	if err := o.Seal(); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(o.packs.dir, packName(1)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, b []byte) {
		o := openStore(t, t.TempDir())
		if err := os.WriteFile(filepath.Join(o.packs.dir, packName(1)), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := o.packs.find(Hash{}); err != nil {
			t.Fatal(err)
		}
		for h := range maps.Clone(o.packs.places) {
			if _, err := o.Read(new(Coder), h, 1<<20); err != nil && !errors.Is(err, ErrCorrupt) {
				t.Error(fmt.Errorf("reading %s: %w", h, err))
			}
		}
	})
}
