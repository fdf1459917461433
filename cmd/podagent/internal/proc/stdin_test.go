package proc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"math/rand/v2"
	"syscall"
	"testing"
)

func withStdin(t testing.TB, args ...string) Spec {
	t.Helper()
	spec := argv(t, args...)
	spec.Stdin = true
	return spec
}

func TestStdinOf256MiBThroughCat(t *testing.T) {
	m := newManager(t)
	p := start(t, m, withStdin(t, "cat"))
	const size = 256 << 20
	sent := sha256.New()
	failed := make(chan error, 1)
	go func() { failed <- feed(testContext(t), p, sent, size) }()
	got := sha256.New()
	for ev, err := range p.Attach(testContext(t), AttachOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Status != nil && (ev.Status.Stdout != size || ev.Status.Code != 0) {
			t.Errorf("got %+v", ev.Status)
		}
		got.Write(ev.Data)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Error("the bytes differ")
	}
}

func feed(ctx context.Context, p *Process, sent hash.Hash, size int64) error {
	block := make([]byte, 1<<20)
	random := rand.NewChaCha8([32]byte{})
	for next := int64(0); next < size; {
		random.Read(block)
		sent.Write(block)
		var err error
		if next, err = p.WriteStdin(ctx, next, block); err != nil {
			return err
		}
	}
	return p.CloseStdin()
}

func TestStdinRepeatsAreSkipped(t *testing.T) {
	m := newManager(t)
	p := start(t, m, withStdin(t, "cat"))
	ctx := testContext(t)
	for _, w := range []struct {
		offset int64
		data   string
		next   int64
	}{{0, "hello", 5}, {0, "hello", 5}, {3, "lo wor", 9}, {9, "", 9}, {1, "ello", 9}, {8, "rld", 11}} {
		if next, err := p.WriteStdin(ctx, w.offset, []byte(w.data)); err != nil || next != w.next {
			t.Errorf("%q at %d: got %d, %v", w.data, w.offset, next, err)
		}
	}
	for _, offset := range []int64{-1, 12} {
		if next, err := p.WriteStdin(ctx, offset, []byte("x")); !errors.Is(err, syscall.EINVAL) || next != 11 {
			t.Errorf("at %d: got %d, %v", offset, next, err)
		}
	}
	for range 2 {
		if err := p.CloseStdin(); err != nil {
			t.Error(err)
		}
	}
	if got := finish(t, p).stdout.String(); got != "hello world" {
		t.Errorf("got %q", got)
	}
	if next, err := p.WriteStdin(ctx, 6, []byte("world")); err != nil || next != 11 {
		t.Errorf("a repeat after the end: got %d, %v", next, err)
	}
	if next, err := p.WriteStdin(ctx, 6, []byte("worlds")); !errors.Is(err, ErrStdinClosed) || next != 11 {
		t.Errorf("more after the end: got %d, %v", next, err)
	}
}

func TestStdinThatIsNotOpen(t *testing.T) {
	m := newManager(t)
	p := start(t, m, argv(t, "cat"))
	if _, err := p.WriteStdin(testContext(t), 0, []byte("x")); !errors.Is(err, ErrStdinClosed) {
		t.Errorf("got %v", err)
	}
	if r := finish(t, p); r.status.Code != 0 || r.stdout.Len() != 0 {
		t.Errorf("got %+v", r.status)
	}
}

func TestStdinOfAProcessThatDoesNotRead(t *testing.T) {
	m := newManager(t)
	gate := fifo(t)
	spec := shell(t, "read x < "+gate)
	spec.Stdin = true
	p := start(t, m, spec)
	type answer struct {
		next int64
		err  error
	}
	answers := make(chan answer)
	go func() {
		next, err := p.WriteStdin(testContext(t), 0, make([]byte, 8<<20))
		answers <- answer{next, err}
	}()
	eventually(t, "a blocked write", p.in.blocked)
	if n := p.StdinAccepted(); n < 0 || n >= 8<<20 {
		t.Errorf("%d bytes were accepted", n)
	}
	send(t, gate)
	if a := <-answers; !errors.Is(a.err, ErrStdinClosed) || a.next >= 8<<20 {
		t.Errorf("got %d, %v", a.next, a.err)
	}
	if st := finish(t, p).status; st.Code != 0 {
		t.Errorf("got %+v", st)
	}
}

// Another caller writes behind what the process has read. What it writes must not be taken
// for bytes of the first caller.
func TestWhatTheProcessHasReadCounts(t *testing.T) {
	p := start(t, newManager(t), withStdin(t, "cat"))
	const bytes = 20_000
	failed := make(chan error, 1)
	go func() {
		for i := range int64(bytes) {
			if _, err := p.WriteStdin(testContext(t), i, []byte("x")); err != nil {
				failed <- err
				return
			}
		}
		failed <- p.CloseStdin()
	}()
	var read int64
	for ev, err := range p.Attach(testContext(t), AttachOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		read += int64(len(ev.Data))
		if n := p.StdinAccepted(); n < read {
			t.Fatalf("%d bytes are read, and %d accepted", read, n)
		}
	}
	if err := <-failed; err != nil || read != bytes {
		t.Errorf("%d bytes are read, %v", read, err)
	}
}

// blocked reports whether a write is under way. A write of more bytes than a pipe
// holds cannot end before the process reads.
func (in *input) blocked() bool { return len(in.turn) == 1 }

func TestStdinThatTheProcessCloses(t *testing.T) {
	m := newManager(t)
	ready := fifo(t)
	spec := shell(t, "exec <&-; echo > "+ready+"; sleep 300")
	spec.Stdin = true
	p := start(t, m, spec)
	receive(t, ready)
	if _, err := p.WriteStdin(testContext(t), 0, []byte("x")); !errors.Is(err, ErrStdinClosed) {
		t.Errorf("got %v", err)
	}
	p.Signal(syscall.SIGKILL)
	finish(t, p)
}

func TestStdinWriteEndsWithItsContext(t *testing.T) {
	m := newManager(t)
	gate := fifo(t)
	spec := shell(t, "read x < "+gate+"; exec sha256sum")
	spec.Stdin = true
	p := start(t, m, spec)
	data := bytes.Repeat([]byte("0123456789abcdef"), 512<<10)
	ctx, cancel := context.WithCancel(testContext(t))
	answers := make(chan error)
	var next int64
	go func() {
		var err error
		next, err = p.WriteStdin(ctx, 0, data)
		answers <- err
	}()
	eventually(t, "a blocked write", p.in.blocked)
	cancel()
	if err := <-answers; !errors.Is(err, context.Canceled) || next >= int64(len(data)) {
		t.Fatalf("got %d, %v", next, err)
	}
	send(t, gate)
	// The same write continues where the first one was cut off.
	if next, err := p.WriteStdin(testContext(t), 0, data); err != nil || next != int64(len(data)) {
		t.Fatalf("got %d, %v", next, err)
	}
	p.CloseStdin()
	want := sha256.Sum256(data)
	if got := finish(t, p).stdout.String()[:64]; got != hexOf(want[:]) {
		t.Errorf("got %s", got)
	}
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var s []byte
	for _, c := range b {
		s = append(s, digits[c>>4], digits[c&15])
	}
	return string(s)
}
