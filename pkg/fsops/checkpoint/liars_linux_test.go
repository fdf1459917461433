package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// receive takes a checkpoint of another store, whose parts change may replace.
func receive(t *testing.T, from, to *Store, id ID, change func([]Part) []Part) (objects int64, err error) {
	t.Helper()
	return receiveAs(t, from, to, id, ReceiveOptions{}, change)
}

func receiveAs(t *testing.T, from, to *Store, id ID, opts ReceiveOptions, change func([]Part) []Part) (objects int64, err error) {
	t.Helper()
	x, err := from.Send(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	r, err := to.Receive(t.Context(), id, x.Manifest(), opts)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	for wants := r.Wants(); len(wants) > 0; wants = r.Wants() {
		if err := x.Objects(t.Context(), wants, func(parts []Part) error { return r.Take(t.Context(), change(parts)) }); err != nil {
			return r.Objects, err
		}
	}
	_, _, err = r.Commit(t.Context())
	return r.Objects, err
}

func honest(parts []Part) []Part { return parts }

// lies change the parts that a source sends.
var lies = map[string]func([]Part) []Part{
	"another content": func(p []Part) []Part { p[0].Data[0] ^= 1; return p },
	"not asked for":   func(p []Part) []Part { p[0].Object[0] ^= 1; return p },
	"too many bytes":  func(p []Part) []Part { p[0].Size--; return p },
	"too few bytes":   func(p []Part) []Part { p[0].Size++; return append(p, Part{First: true}) },
	"a negative size": func(p []Part) []Part { p[0].Size = -1; return p },
	"no first part":   func(p []Part) []Part { p[0].First = false; return p },
	"no encoding":     func(p []Part) []Part { p[0].Encoding = 9; return p },
	"empty parts":     func(p []Part) []Part { p[0].Size++; return append(p[:1], Part{}) },
	"a huge claim":    func(p []Part) []Part { p[0].Size = 1 << 62; return p },
	"the same again":  func(p []Part) []Part { return append(p, p[0]) },
}

// A source that lies gets nothing into a store but what the hashes name.
func TestSourceThatLiesIsRefused(t *testing.T) {
	root, from := openForForgery(t)
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "large"), make([]byte, 3<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := from.Create(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, lie := range lies {
		_, to := openForForgery(t)
		if _, err := receive(t, from, to, c.ID, lie); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if list, err := to.List(t.Context()); err != nil || len(list) > 0 {
			t.Errorf("%s: there is %v, %v", name, list, err)
		}
		if _, err := receive(t, from, to, c.ID, honest); err != nil {
			t.Errorf("%s, and then the truth: %v", name, err)
		}
	}
	if _, err := from.Receive(t.Context(), c.ID, []byte("{}"), ReceiveOptions{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another manifest: %v", err)
	}
	if _, err := from.Receive(t.Context(), c.ID, make([]byte, MaxManifest+1), ReceiveOptions{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a huge manifest: %v", err)
	}
}

// No file has a checkpoint that is not what its id says.
func TestFileOfASourceThatLiesIsRefused(t *testing.T) {
	root, from := openForForgery(t)
	if err := os.WriteFile(filepath.Join(root, "large"), make([]byte, 3<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := from.Create(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(lie func([]Part) []Part) error {
		x, err := from.Send(t.Context(), c.ID)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		w, err := NewFileWriter(io.Discard, c.ID, x.Manifest(), FileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.All(t.Context(), func(parts []Part) error { return w.Write(lie(parts)) }); err != nil {
			return err
		}
		return w.Close()
	}
	for name, lie := range lies {
		if err := write(lie); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := write(func([]Part) []Part { return nil }); !errors.Is(err, ErrCorrupt) {
		t.Errorf("nothing: %v", err)
	}
	if err := write(honest); err != nil {
		t.Errorf("the truth: %v", err)
	}
	if _, err := NewFileWriter(io.Discard, c.ID, []byte("{}"), FileOptions{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another manifest: %v", err)
	}
}

// Directories that are deeper, or more, than a tree can have are refused, however few bytes they take.
func TestForgedDirectoriesOfASourceAreRefused(t *testing.T) {
	for name, depth := range map[string]int{"deep": 10 * tree.MaxDepth, "many": 60} {
		_, from := openForForgery(t)
		_, to := openForForgery(t)
		if _, err := receive(t, from, to, forge(t, from, depth), honest); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nobody gets by a transfer what another checkpoint has, or a file that another one has in its place.
func TestSenderSendsObjectsOfItsCheckpointAlone(t *testing.T) {
	root, from := openForForgery(t)
	deep := filepath.Join(root, "d", "e")
	if err := errors.Join(os.MkdirAll(deep, 0o755), os.WriteFile(filepath.Join(deep, "f"), []byte("first"), 0o644)); err != nil {
		t.Fatal(err)
	}
	var points []Checkpoint
	for _, text := range []string{"second", "third"} {
		c, err := from.Create(t.Context(), CreateOptions{})
		if err = errors.Join(err, os.WriteFile(filepath.Join(deep, "f"), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		points = append(points, c)
	}
	for _, test := range []struct {
		of, object string
		want       error
	}{
		{"first", "first", nil}, // though its directories were not asked for
		{"first", "second", ErrNotFound},
		{"second", "first", ErrNotFound},
		{"second", "second", nil},
		{"second", "in no checkpoint", ErrNotFound},
	} {
		id := points[0].ID
		if test.of == "second" {
			id = points[1].ID
		}
		x, err := from.Send(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		sent := ""
		send := func(parts []Part) error {
			sent += string(parts[0].Data)
			return nil
		}
		err = x.Objects(t.Context(), []Hash{sha256.Sum256([]byte(test.object))}, send)
		x.Close()
		if !errors.Is(err, test.want) || (sent == test.object) != (err == nil) {
			t.Errorf("%q of the checkpoint with %q: %q, %v", test.object, test.of, sent, err)
		}
	}
}

// What has arrived when a transfer is cut is not sent again, and goes when it is not needed.
func TestTransferThatIsCutGoesOn(t *testing.T) {
	for name, opts := range map[string]ReceiveOptions{"for the store": {}, "for a tree": {Populates: true}} {
		t.Run(name, func(t *testing.T) { cutTransfer(t, opts) })
	}
}

func cutTransfer(t *testing.T, opts ReceiveOptions) {
	root, from := openForForgery(t)
	for n := range 40 {
		if err := os.WriteFile(filepath.Join(root, string(rune('A'+n))), bytes.Repeat([]byte{byte(n), 1, byte(n * 7)}, 60000), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := from.Create(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	empty, to := openForForgery(t)
	if err := os.Remove(filepath.Join(empty, "x")); err != nil {
		t.Fatal(err)
	}
	x, err := from.Send(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	r, err := to.Receive(t.Context(), c.ID, x.Manifest(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Objects(t.Context(), r.Wants(), func(p []Part) error { return r.Take(t.Context(), p) }); err != nil {
		t.Fatal(err)
	}
	err = x.Objects(t.Context(), r.Wants()[:20], func(p []Part) error { return r.Take(t.Context(), p) })
	r.Close()
	if err != nil {
		t.Fatal(err)
	}
	again, err := receiveAs(t, from, to, c.ID, opts, honest)
	if err != nil || again != 41-20 { // and x
		t.Errorf("%d objects were sent again, %v", again, err)
	}
	if err := to.Remove(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	if all, err := receiveAs(t, from, to, c.ID, opts, honest); err != nil || all != 42 {
		t.Errorf("after a collection %d objects were sent, %v", all, err)
	}
}

// What has arrived and is damaged in the store since is sent again, and takes the place of the damaged object.
func TestDamagedArrivalIsSentAgain(t *testing.T) {
	for what, text := range map[string]string{"the directory": "shared", "a file": string(sharedText[:20])} {
		from, to, root, id := openFork(t)
		if _, err := receive(t, from, to, id, honest); err != nil {
			t.Fatal(err)
		}
		if err := to.remove(manifestFile(id)); err != nil { // the transfer is cut off at its end
			t.Fatal(err)
		}
		packs, err := filepath.Glob(filepath.Join(to.dir, packsDir, "*"))
		if err != nil || len(packs) != 1 {
			t.Fatalf("%q, %v", packs, err)
		}
		pack, err := os.ReadFile(packs[0])
		if err != nil {
			t.Fatal(err)
		}
		damaged := bytes.Replace(pack, []byte(text), bytes.ToUpper([]byte(text)), 1)
		if err := errors.Join(os.Chmod(packs[0], 0o600), os.WriteFile(packs[0], damaged, 0)); err != nil || bytes.Equal(pack, damaged) {
			t.Fatalf("damaging %s: %v", what, err)
		}
		sent := 0
		if err := fork(t, from, to, id, func(p []Part) []Part { sent += len(p); return p }); err != nil || sent != 1 {
			t.Errorf("%s: %v, %d parts were sent", what, err, sent)
		}
		if got, err := os.ReadFile(filepath.Join(root, "shared")); err != nil || !bytes.Equal(got, sharedText) {
			t.Errorf("%s: the tree has other content, %v", what, err)
		}
	}
}

// What is being sent stays when its checkpoint is removed, and what is being received when others are.
func TestTransferSurvivesCollections(t *testing.T) {
	_, from := openForForgery(t)
	c, err := from.Create(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, to := openForForgery(t)
	other, err := to.Create(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	removed := false
	if _, err := receive(t, from, to, c.ID, func(p []Part) []Part {
		if !removed {
			removed = true
			if err := errors.Join(from.Remove(t.Context(), c.ID), to.Remove(t.Context(), other.ID)); err != nil {
				t.Error(err)
			}
		}
		return p
	}); err != nil {
		t.Error(err)
	}
}

// Whatever a file has: it is read to its end, or refused, and a file that is written of what was read is read as the same.
func FuzzFileReader(f *testing.F) {
	var file bytes.Buffer
	manifest := []byte("{}")
	w, err := NewFileWriter(&file, ID(Hash(sha256.Sum256(manifest)).String()), manifest, FileOptions{Unverified: true})
	if err == nil {
		err = errors.Join(w.Write([]Part{{First: true, Size: 3, Data: []byte("ab")}, {Data: []byte("c")}, {First: true}}), w.Close())
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte(fileHeader))
	f.Fuzz(func(t *testing.T, b []byte) {
		var again bytes.Buffer
		first, whole := copyFile(t, b, &again)
		if !whole {
			return
		}
		if second, whole := copyFile(t, again.Bytes(), io.Discard); !whole || first != second {
			t.Errorf("what was written of %x is read as %x (whole: %v)", first, second, whole)
		}
	})
}

// copyFile reads a file, and writes what is in it to another. It returns a hash of that, and whether the file was whole.
func copyFile(t *testing.T, b []byte, to io.Writer) (sum Hash, whole bool) {
	t.Helper()
	r, err := NewFileReader(bytes.NewReader(b))
	if err != nil {
		return sum, false
	}
	defer r.Close()
	w, err := NewFileWriter(to, r.ID, r.Manifest, FileOptions{Unverified: true})
	h := sha256.New()
	fmt.Fprintf(h, "%s %q", r.ID, r.Manifest)
	for total := 0; err == nil && total < 64<<20; { // a few bytes may be gigabytes of zeros
		var parts []Part
		if parts, err = r.Next(); err != nil {
			break
		}
		for _, p := range parts {
			if p.First {
				fmt.Fprintf(h, "%s %d %d ", p.Object, p.Size, p.Encoding)
			}
			h.Write(p.Data)
			total += len(p.Data) + 1
		}
		if err := w.Write(parts); err != nil {
			t.Fatal(err)
		}
	}
	if err != io.EOF {
		return sum, false
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return Hash(h.Sum(nil)), true
}
