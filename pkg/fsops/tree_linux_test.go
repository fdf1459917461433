package fsops

import (
	"archive/tar"
	"bytes"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"

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

// While an archive is unpacked, somebody swaps the directory that it goes to
// with a link that leads out: nothing must ever arrive there.
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
