package main

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

func TestWhatIsWrittenToAPipeComesWholeAndInOrder(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := newPipe(io.NopCloser(bytes.NewReader(nil)), to)
	want := make([]byte, 3<<20)
	r := rand.NewChaCha8([32]byte{})
	_, _ = r.Read(want)
	written := make(chan error, 1)
	go func() {
		rest := want
		for len(rest) > 0 {
			n := min(1+int(r.Uint64()%400_000), len(rest))
			if _, err := p.Write(rest[:n]); err != nil {
				written <- err
				return
			}
			rest = rest[n:]
		}
		written <- p.Close()
	}()
	got, err := io.ReadAll(from)
	if err = errors.Join(err, <-written); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes came: %v", len(got), len(want), err)
	}
}

func TestWritesToAPipeWithoutReaderFail(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from.Close()
	p := newPipe(io.NopCloser(bytes.NewReader(nil)), to)
	for end := time.Now().Add(hung); err == nil && time.Now().Before(end); {
		_, err = p.Write(make([]byte, 1000))
	}
	if err == nil {
		t.Error("all writes succeed")
	}
	p.Close()
	if _, err := p.Write([]byte("more")); err == nil {
		t.Error("a write after the end succeeds")
	}
}

func TestAPipeWhoseReaderTakesNothingHoldsLittleAndCloses(t *testing.T) {
	from, to := io.Pipe()
	defer from.Close()
	w := newLateWriter(to)
	written := make(chan int)
	go func() {
		n, _ := w.Write(make([]byte, 10*pipeBuffer))
		written <- n
	}()
	if _, err := io.ReadFull(from, make([]byte, 1)); err != nil { // the writer is under way
		t.Fatal(err)
	}
	w.finish()
	if n := <-written; n > 2*pipeBuffer {
		t.Errorf("%d bytes wait", n)
	}
}
