package sshserver_test

import (
	"bytes"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pkg/sftp"

	"github.com/podagent/podagent/pkg/sshserver"
)

// counter counts what servers keep.
type counter struct {
	limit int64

	mu         sync.Mutex
	used, most int64
}

func (c *counter) keep(n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 && c.used+n > c.limit {
		return false
	}
	c.used += n
	c.most = max(c.most, c.used)
	return true
}

func (c *counter) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

func (c *counter) peak() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

// firstOf opens a file, and reads as much of it that the server has fetched more by then.
func firstOf(t *testing.T, c *sftp.Client, want []byte) *sftp.File {
	t.Helper()
	f, err := c.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want)/2)
	if _, err := io.ReadFull(f, got); err != nil || !bytes.Equal(got, want[:len(got)]) {
		t.Fatalf("the first half is wrong: %v", err)
	}
	return f
}

func TestFilesThatAreOpenForReadingAreBoundedInMemory(t *testing.T) {
	p, ahead := newPlace(t), &counter{limit: 3 << 20}
	p.set = func(s *sshserver.Server) { s.Ahead = ahead.keep }
	want := content(longFile)
	if err := p.WriteFile(t.Context(), "f", want, 0o600); err != nil {
		t.Fatal(err)
	}
	c := p.sftpOf(t)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	var open []*sftp.File
	for range 12 {
		open = append(open, firstOf(t, c, want))
	}
	// Each would keep some 6 MiB. What is not files is a few.
	if grown := heap() - before; grown > ahead.limit+24<<20 {
		t.Errorf("%d open files keep %d MiB", len(open), grown>>20)
	}
	if most := ahead.peak(); most < ahead.limit/2 {
		t.Errorf("%d bytes were counted at most", most)
	}
	for _, f := range open[:2] {
		rest, err := io.ReadAll(f) // there is as good as no room
		if err != nil || !bytes.Equal(rest, want[len(want)/2:]) {
			t.Fatalf("the other half is wrong: %v", err)
		}
	}
	for _, f := range open {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "all room is free", func() bool { return ahead.now() == 0 })
}

func TestAnOpenFileThatNobodyReadsKeepsNothing(t *testing.T) {
	p, ahead := newPlace(t), &counter{limit: 32 << 20}
	p.set = func(s *sshserver.Server) {
		s.Ahead = ahead.keep
		s.ForgetAfter(time.Second) // the client reads more often, until it has half of the file
	}
	want := content(longFile)
	if err := p.WriteFile(t.Context(), "f", want, 0o600); err != nil {
		t.Fatal(err)
	}
	c := p.sftpOf(t)
	f := firstOf(t, c, want)
	await(t, "it is forgotten", func() bool { return ahead.now() == 0 })
	if most := ahead.peak(); most < 1<<20 {
		t.Errorf("%d bytes were counted at most", most)
	}
	if rest, err := io.ReadAll(f); err != nil || !bytes.Equal(rest, want[len(want)/2:]) {
		t.Errorf("after a pause: %d bytes, %v", len(rest), err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	await(t, "all room is free", func() bool { return ahead.now() == 0 })
}
