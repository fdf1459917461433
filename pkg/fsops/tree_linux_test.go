package fsops

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"
)

func TestArchiveSkipsSpecialFiles(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "file")
	must(t, syscall.Mkfifo(at(f, "fifo"), 0o666))
	listener, err := net.Listen("unix", at(f, "socket"))
	must(t, err)
	defer listener.Close()
	archive, stats := archived(t, f, ".", ArchiveOptions{})
	if stats.Skipped != 2 || stats.Entries != 1 {
		t.Errorf("stats %+v", stats)
	}
	if got := entriesOf(t, archive); len(got) != 1 {
		t.Errorf("entries %q", got)
	}
}

// While an archive is unpacked, its target directory is swapped with a link that
// leads out. No file may ever arrive outside.
func TestExtractSymlinkRace(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "outside/", "target/dir/sub/", "target/link -> ../outside")
	var headers []tar.Header
	for i := range 300 {
		headers = append(headers, tar.Header{Name: fmt.Sprintf("dir/%d", i), Typeflag: tar.TypeReg},
			tar.Header{Name: fmt.Sprintf("dir/sub/%d", i), Typeflag: tar.TypeReg})
	}
	archive := tarOf(t, headers...)
	done := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = unix.Renameat2(unix.AT_FDCWD, at(f, "target/dir"), unix.AT_FDCWD, at(f, "target/link"), unix.RENAME_EXCHANGE)
		}
	})
	for range 10 {
		_, _ = f.Extract(t.Context(), "target", bytes.NewReader(archive), ExtractOptions{})
	}
	close(done)
	swapper.Wait()
	wantNames(t, at(f, "outside"))
}

func TestExtractIntoReadOnlyDirectoriesOfAnArchive(t *testing.T) {
	f := asNobody(t, func(f *FS) { must(t, os.Chmod(f.Workdir(), 0o777)) })
	if f == nil {
		return
	}
	archive := tarOf(t,
		tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o444},
		tar.Header{Name: "d/e/", Typeflag: tar.TypeDir, Mode: 0o444},
		tar.Header{Name: "d/e/f", Typeflag: tar.TypeReg, Mode: 0o444})
	_, err := f.Extract(t.Context(), ".", bytes.NewReader(archive), ExtractOptions{})
	must(t, err)
	info, err := os.Stat(at(f, "d"))
	must(t, err)
	if info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
	must(t, os.Chmod(at(f, "d"), 0o755))
	must(t, os.Chmod(at(f, "d/e"), 0o755))
	wantContent(t, f, "d/e/f", "evil")
}

// While a file is being unpacked, it has no name yet.
func TestAKilledExtractionLeavesOnlyWholeFiles(t *testing.T) {
	if dir := os.Getenv("FSOPS_TEST_EXTRACT_DIR"); dir != "" {
		_, err := New(dir).Extract(t.Context(), ".", os.Stdin, ExtractOptions{})
		t.Fatalf("the extraction ended: %v", err)
	}
	for _, stalled := range []string{"new", "existing"} {
		f := newTestFS(t)
		put(t, f, "existing", "former")
		cmd := exec.Command(os.Args[0], "-test.run=^TestAKilledExtractionLeavesOnlyWholeFiles$")
		cmd.Env = append(os.Environ(), "FSOPS_TEST_EXTRACT_DIR="+f.Workdir())
		in, err := cmd.StdinPipe()
		must(t, err)
		must(t, cmd.Start())
		w := tar.NewWriter(in)
		must(t, w.WriteHeader(&tar.Header{Name: "whole", Typeflag: tar.TypeReg, Mode: 0o644, Size: 5}))
		_, err = w.Write([]byte("whole"))
		must(t, err)
		must(t, w.WriteHeader(&tar.Header{Name: stalled, Typeflag: tar.TypeReg, Mode: 0o644, Size: 8 << 20}))
		// This is more than a pipe holds, so most of it has been read when the
		// write ends.
		_, err = w.Write(make([]byte, 4<<20))
		must(t, err)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		wantNames(t, f.Workdir(), "existing", "whole")
		wantContent(t, f, "whole", "whole")
		wantContent(t, f, "existing", "former")
	}
}

// Some file systems do not support files without a name.
func TestExtractUnderTemporaryNames(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "former")
	root, err := os.OpenRoot(f.Workdir())
	must(t, err)
	x := &extractor{ctx: t.Context(), fsys: f, parent: root, in: &archiveReader{}, buf: make([]byte, blockSize), size: newTreeSize(f.Workdir(), ExtractOptions{})}
	defer x.leave()
	header := &tar.Header{Mode: 0o640, ModTime: time.Unix(1234567890, 5)}
	for _, name := range []string{"file", "new"} {
		must(t, x.named(name, header, strings.NewReader("content")))
		wantContent(t, f, name, "content")
		info, err := os.Stat(at(f, name))
		must(t, err)
		if info.Mode() != 0o640 || !info.ModTime().Equal(header.ModTime) {
			t.Errorf("%s has mode %v and time %v", name, info.Mode(), info.ModTime())
		}
		broken := errors.New("connection lost")
		if err := x.named(name, header, iotest.ErrReader(broken)); err == nil {
			t.Error("half a file replaced it")
		}
		wantContent(t, f, name, "content")
	}
	wantNames(t, f.Workdir(), "file", "new")
}
