package object

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// arrive takes an object of its own file from elsewhere.
func arrive(t *testing.T, o *Store, content []byte) Hash {
	t.Helper()
	in, err := o.Incoming()
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Add(content); err != nil {
		t.Fatal(err)
	}
	h := Sum(content)
	if err := in.Commit(h); err != nil {
		t.Fatal(err)
	}
	return h
}

// damage changes a byte of an object with a file of its own.
func damage(t *testing.T, o *Store, h Hash) {
	t.Helper()
	if err := os.Chmod(o.path(h), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(o.path(h), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte{'x'}, 1); err != nil {
		t.Fatal(err)
	}
}

// fill returns what Fill writes.
func fill(t *testing.T, o *Store, h Hash, believed bool) ([]byte, error) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fillErr := o.Fill(file, h, believed)
	content, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return content, fillErr
}

// What has arrived is not read again to be believed, but only as long as somebody uses the store, and only if the caller
// believes it. What is gone is missed at once.
func TestWhatHasArrivedIsBelievedWhileTheStoreIsInUse(t *testing.T) {
	dir := t.TempDir()
	o := openStore(t, dir)
	content := noisy(1, 3*CopySize+1)
	h := arrive(t, o, content)
	for _, believed := range []bool{true, false} {
		if got, err := fill(t, o, h, believed); err != nil || !bytes.Equal(got, content) {
			t.Errorf("believed %t: %d bytes, %v", believed, len(got), err)
		}
	}
	damage(t, o, h)
	if err := o.Check(h); err != nil {
		t.Errorf("while the store is in use, it is read again: %v", err)
	}
	if got, err := fill(t, o, h, true); err != nil || len(got) != len(content) {
		t.Errorf("one that is believed: %d bytes, %v", len(got), err)
	}
	if _, err := fill(t, o, h, false); !errors.Is(err, ErrCorrupt) {
		t.Errorf("one that is not: %v", err)
	}
	later := openStore(t, dir)
	if err := later.Check(h); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the next to use the store: %v", err)
	}
	if _, err := fill(t, later, h, true); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the next to use the store, who would believe it: %v", err)
	}
	if err := os.Remove(o.path(h)); err != nil {
		t.Fatal(err)
	}
	if err := o.Check(h); !errors.Is(err, ErrCorrupt) {
		t.Errorf("one that is gone: %v", err)
	}
}

// HasOf asks for what was listed, and says what is there now.
func TestListedObjectsMayGo(t *testing.T) {
	o := openStore(t, t.TempDir())
	stays, goes := arrive(t, o, noisy(1, 10)), arrive(t, o, noisy(2, 10))
	packed := putAll(t, o, noisy(3, 10))
	listed, err := o.Large()
	if err != nil || len(listed) != 2 {
		t.Fatalf("%d objects are listed, %v", len(listed), err)
	}
	if err := os.Remove(o.path(goes)); err != nil {
		t.Fatal(err)
	}
	came := arrive(t, o, noisy(4, 10))
	want := map[Hash]bool{stays: true, goes: false, came: false}
	for h := range packed {
		want[h] = true
	}
	for h, has := range want {
		if o.HasOf(h, listed) != has {
			t.Errorf("object %s: %t", h, !has)
		}
	}
}
