package sshserver_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
)

// The sizes of blocks matter here: a file of many, and of a part.
const longFile = 9<<20 + 77

func TestReadsInAnyOrderGetWhatTheFileHas(t *testing.T) {
	p := newPlace(t)
	want := content(longFile)
	if err := p.WriteFile(t.Context(), "f", want, 0o600); err != nil {
		t.Fatal(err)
	}
	c := p.sftpOf(t)
	random := rand.New(rand.NewPCG(1, 2))
	for what, offset := range map[string]func(i int) int64{
		"in order":           func(i int) int64 { return int64(i) * 100_000 },
		"backwards":          func(i int) int64 { return longFile - int64(i)*100_000 },
		"at random":          func(int) int64 { return random.Int64N(longFile + 1000) },
		"from two places":    func(i int) int64 { return int64(i/2)*100_000 + int64(i%2)*(longFile/2) },
		"with a leap":        func(i int) int64 { return int64(i)*100_000 + int64(i/10)*600_000 },
		"a few blocks again": func(i int) int64 { return int64(i%30) * 100_000 },
	} {
		t.Run(what, func(t *testing.T) {
			f, err := c.Open("f")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got := make([]byte, 120_000)
			for i := range 90 {
				at := max(offset(i), 0)
				n, err := f.ReadAt(got, at)
				part := want[min(at, longFile):min(at+int64(len(got)), longFile)]
				if !bytes.Equal(got[:n], part) || (err == nil) != (len(part) == len(got)) || err != nil && err != io.EOF {
					t.Fatalf("at %d: %d of %d bytes, %v", at, n, len(part), err)
				}
			}
		})
	}
}

func TestReadersOfOneHandleAtOnceGetWhatTheFileHas(t *testing.T) {
	p := newPlace(t)
	want := content(longFile)
	if err := p.WriteFile(t.Context(), "f", want, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := p.sftpOf(t).Open("f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var readers sync.WaitGroup
	for begin := range int64(4) {
		readers.Go(func() {
			section := io.NewSectionReader(f, begin*longFile/4, longFile/2)
			got, err := io.ReadAll(section)
			if part := want[begin*longFile/4 : min(begin*longFile/4+longFile/2, longFile)]; err != nil || !bytes.Equal(got, part) {
				t.Errorf("from %d: %d of %d bytes, %v", begin*longFile/4, len(got), len(part), err)
			}
		})
	}
	readers.Wait()
}

func TestAReaderSeesAFileGrow(t *testing.T) {
	p := newPlace(t)
	if err := p.WriteFile(t.Context(), "f", content(600<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := p.sftpOf(t).Open("f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || len(got) != 600<<10 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	grown, err := os.OpenFile(p.Workdir+"/f", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer grown.Close()
	if _, err := grown.Write(content(700 << 10)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, content(700<<10)) {
		t.Errorf("%d bytes more, %v", len(got), err)
	}
}

func TestAFileIsClosedWhileMoreOfItComes(t *testing.T) {
	p := newPlace(t)
	if err := p.WriteFile(t.Context(), "f", content(longFile), 0o600); err != nil {
		t.Fatal(err)
	}
	c := p.sftpOf(t)
	for range 150 { // more than may be open
		f, err := c.Open("f")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(f, make([]byte, 600<<10)); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
} // the server has to end
