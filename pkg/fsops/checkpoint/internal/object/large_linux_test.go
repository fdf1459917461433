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
func fill(t *testing.T, o *Store, h Hash) ([]byte, error) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fillErr := o.Fill(file, h)
	content, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return content, fillErr
}

// Whoever can write to the store may change what arrives, meanwhile or later: what becomes a file is compared with its hash.
func TestChangedArrivalBecomesNoFile(t *testing.T) {
	content := noisy(1, 3*CopySize+1)
	h, other := Sum(content), noisy(2, len(content))
	write := func(path string) error {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = file.WriteAt(other[:1], 0)
		return errors.Join(err, file.Close())
	}
	for name, change := range map[string]func(o *Store, in *Incoming) error{
		"as it was": func(_ *Store, in *Incoming) error { return in.Commit(h) },
		"written to while it arrived": func(_ *Store, in *Incoming) error {
			return errors.Join(write(in.path()), in.Commit(h))
		},
		"written to": func(o *Store, in *Incoming) error {
			return errors.Join(in.Commit(h), os.Chmod(o.path(h), 0o600), write(o.path(h)))
		},
		"cut off": func(o *Store, in *Incoming) error {
			return errors.Join(in.Commit(h), os.Chmod(o.path(h), 0o600), os.Truncate(o.path(h), 1))
		},
		"a directory": func(o *Store, in *Incoming) error {
			return errors.Join(in.Commit(h), os.Remove(o.path(h)), os.Mkdir(o.path(h), 0o700))
		},
		"gone": func(o *Store, in *Incoming) error { return errors.Join(in.Commit(h), os.Remove(o.path(h))) },
	} {
		dir := t.TempDir()
		o := openStore(t, dir)
		in, err := o.Incoming()
		if err == nil {
			err = in.Add(content)
		}
		if err = errors.Join(err, change(o, in)); err != nil {
			t.Fatal(err)
		}
		var want error
		if name != "as it was" {
			want = ErrCorrupt
		}
		if err := o.Check(h); !errors.Is(err, want) {
			t.Errorf("one that is %s: %v", name, err)
		}
		if got, err := fill(t, o, h); !errors.Is(err, want) || err == nil && !bytes.Equal(got, content) {
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
