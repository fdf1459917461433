package object

import (
	"bytes"
	"errors"
	"io/fs"
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

// What has arrived need not be read again while somebody uses the store, as long as nobody changes it.
func TestWhatHasArrivedIsBelievedWhileTheStoreIsInUse(t *testing.T) {
	dir := t.TempDir()
	o := openStore(t, dir)
	content := noisy(1, 3*CopySize+1)
	h := arrive(t, o, content)
	for store, want := range map[*Store]bool{o: true, openStore(t, dir): false} {
		file, err := os.Open(store.path(h))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if got := store.isAsArrived(file, h); got != want {
			t.Errorf("it is as it has arrived: %t", got)
		}
	}
	for _, believed := range []bool{true, false} {
		if err := o.Check(h, believed); err != nil {
			t.Error(err)
		}
		if got, err := fill(t, o, h, believed); err != nil || !bytes.Equal(got, content) {
			t.Errorf("believed %t: %d bytes, %v", believed, len(got), err)
		}
	}
}

// Whoever can write to the store may change what has arrived before it becomes a file.
func TestChangedArrivalIsNotBelieved(t *testing.T) {
	content := noisy(1, 3*CopySize+1)
	other := noisy(2, len(content))
	for name, change := range map[string]func(path string) error{
		"written to":  func(path string) error { return os.WriteFile(path, other[:1], 0) },
		"cut off":     func(path string) error { return os.Truncate(path, 1) },
		"longer":      func(path string) error { return os.Truncate(path, 1<<40) },
		"replaced":    func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, other, 0o400)) },
		"a directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"gone":        os.Remove,
	} {
		o := openStore(t, t.TempDir())
		h := arrive(t, o, content)
		if err := errors.Join(os.Chmod(o.path(h), 0o600), change(o.path(h))); err != nil {
			t.Fatal(err)
		}
		if name == "longer" { // so that nobody reads a TiB
			file, err := os.Open(o.path(h))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if o.isAsArrived(file, h) {
				t.Errorf("one that is %s is believed", name)
			}
			continue
		}
		if err := o.Check(h, true); !errors.Is(err, ErrCorrupt) {
			t.Errorf("one that is %s is %v", name, err)
		}
		if _, err := fill(t, o, h, true); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a file of one that is %s: %v", name, err)
		}
	}
}

// HasOf asks for what was listed, and says what is there now.
func TestListedObjectsMayGo(t *testing.T) {
	o := openStore(t, t.TempDir())
	stays, goes := arrive(t, o, noisy(1, 10)), arrive(t, o, noisy(2, 10))
	packed := putAll(t, o, noisy(3, 10))
	listed, err := o.List()
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
	if !o.HasOf(came, nil) {
		t.Error("without a list it is not there")
	}
}

// An object that arrives again, or cannot be kept, is not counted for what it does not take.
func TestObjectThatArrivesTwiceCountsOnce(t *testing.T) {
	o := openStore(t, t.TempDir())
	content := noisy(1, 1<<20)
	for range 3 {
		arrive(t, o, content)
	}
	if o.Used() != 1<<20 {
		t.Errorf("1 MiB counts as %d bytes", o.Used())
	}
	in, err := o.Incoming()
	if err == nil {
		err = in.Add(content[1:])
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(o.dir); err != nil {
		t.Fatal(err)
	}
	if err := in.Commit(Sum(content[1:])); !errors.Is(err, fs.ErrNotExist) || o.Used() != 1<<20 {
		t.Errorf("what cannot be kept: %v, and %d bytes count", err, o.Used())
	}
}
