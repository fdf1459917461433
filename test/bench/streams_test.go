package bench

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// streamSize is large compared with all buffers on the way.
const streamSize = 256 << 20

// BenchmarkStreams measures large transfers: a file in each direction, through the
// API server and to the pod's address; a tree; and a process's output.
func BenchmarkStreams(b *testing.B) {
	c := launchertest.NewCluster(b, launcher.Restricted)
	direct := launchBy(b, c, launcher.ByAddress) // first, because this makes a pod that can be reached in all ways
	p := launchBy(b, c, launcher.ByPortForward)
	d := p.startSandboxd(b)
	data := random(streamSize)
	if err := p.write(b, "read", data)(); err != nil {
		b.Fatal(err)
	}
	b.Run("tree", func(b *testing.B) { streamTree(b, p) })
	b.Run("port-forward", func(b *testing.B) { streamByPortForward(b, p, d, data) })
	b.Run("output", streamOutput)
	b.Run("address", func(b *testing.B) { streamByAddress(b, direct, data) })
}

// streamRounds is small because a round takes seconds.
const streamRounds = 7

// newFile does not exist before it is written. It is removed after the timing.
// Replacing a file would measure the disk: ext4 writes out its content before the
// replacement (auto_da_alloc), or when it is closed.
const newFile = "new"

// writeNew returns podagent's side, which writes newFile with this call.
func (p *pod) writeNew(b *testing.B, data []byte, write func(b *testing.B, name string, data []byte) func() error) side {
	return side{name: "podagent", do: write(b, newFile, data), after: p.removeNew(b)}
}

func (p *pod) removeNew(b *testing.B) func() error {
	return func() error { return p.Remove(b.Context(), newFile) }
}

func streamByPortForward(b *testing.B, p *pod, d *sandboxd, data []byte) {
	raw := p.forwardRaw(b, p.startEcho(b))
	alone := p.bareSecured(b)
	local := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(local, data, 0o600); err != nil {
		b.Fatal(err)
	}
	inPod := func(name string) string { return p.PodName() + ":" + path.Join(p.Workdir, name) }
	write, read := p.writeNew(b, data, p.write), side{name: "podagent", do: p.read(b, "read", streamSize)}
	compare(b, "streams", "write 256 MiB through the API server, beside raw bytes", streamRounds, write,
		side{name: "raw port-forward", do: raw.send('w', streamSize)},
		side{name: "raw port-forward to a file", do: raw.send('f', streamSize), after: raw.remove},
		side{name: "gRPC alone, with TLS", do: alone.send(b, streamSize)},
	).want("raw port-forward", 0.8)
	compare(b, "streams", "write 256 MiB through the API server, to the disk", streamRounds,
		p.writeNew(b, data, p.writeSynced),
		side{name: "sandboxd", do: d.write(b, newFile, data), after: p.removeNew(b)},
	)
	compare(b, "streams", "write 256 MiB through the API server", streamRounds, write,
		side{name: "kubectl cp", do: p.kubectl(b, "cp", local, inPod(newFile)), after: p.removeNew(b)},
	).want("kubectl cp", 2)
	compare(b, "streams", "read 256 MiB through the API server", streamRounds, read,
		side{name: "raw port-forward", do: raw.receive(streamSize)},
		side{name: "gRPC alone, with TLS", do: alone.receive(b, streamSize)},
		side{name: "sandboxd", do: d.read(b, "read", streamSize)},
		side{name: "kubectl cp", do: p.kubectl(b, "cp", inPod("read"), local)},
	).want("raw port-forward", 0.8).want("kubectl cp", 2)
}

func streamByAddress(b *testing.B, p *pod, data []byte) {
	raw := dialRaw(b, p.address(b, p.startEcho(b, "0.0.0.0:0")), false)
	secure := dialRaw(b, p.address(b, p.startEcho(b, "0.0.0.0:0", "tls")), true)
	alone := p.bareAddressed(b)
	d := dialSandboxd(b, p.address(b, sandboxdGRPC), p.address(b, sandboxdREST))
	compare(b, "streams", "write 256 MiB to the pod's address", streamRounds,
		p.writeNew(b, data, p.write),
		side{name: "raw TCP", do: raw.send('w', streamSize)},
		side{name: "raw TLS", do: secure.send('w', streamSize)},
		side{name: "raw TLS to a file", do: secure.send('f', streamSize), after: secure.remove},
		side{name: "gRPC alone, with TLS", do: alone.send(b, streamSize)},
	).want("raw TCP", 0.8)
	compare(b, "streams", "write 256 MiB to the pod's address, to the disk", streamRounds,
		p.writeNew(b, data, p.writeSynced),
		side{name: "sandboxd, without TLS", do: d.write(b, newFile, data), after: p.removeNew(b)},
	)
	compare(b, "streams", "read 256 MiB from the pod's address", streamRounds,
		side{name: "podagent", do: p.read(b, "read", streamSize)},
		side{name: "raw TCP", do: raw.receive(streamSize)},
		side{name: "raw TLS", do: secure.receive(streamSize)},
		side{name: "gRPC alone, with TLS", do: alone.receive(b, streamSize)},
		side{name: "sandboxd, without TLS", do: d.read(b, "read", streamSize)},
	).want("raw TCP", 0.8)
	allocated := func(do func() error) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := do(); err != nil {
			b.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / 1e6 / (streamSize / 1e9)
	}
	publish(b, newRow("streams", "memory that a client allocates for a GB written", "MB", once("podagent", allocated(p.write(b, newFile, data)))).limit("limit", 30))
	publish(b, newRow("streams", "memory that a client allocates for a GB read", "MB", once("podagent", allocated(p.read(b, "read", streamSize)))).limit("limit", 30))
}

// A tree with this many files, in directories of a hundred.
const (
	treeFiles = 5000
	treeFile  = 4 << 10
)

// makeTree makes the tree on this machine, and returns its path.
func makeTree(b *testing.B) string {
	local := filepath.Join(b.TempDir(), "tree")
	for i := range treeFiles {
		dir := filepath.Join(local, strconv.Itoa(i/100))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), random(treeFile), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return local
}

func streamTree(b *testing.B, p *pod) {
	local := makeTree(b)
	// Each copy has a new name: ext4 takes ten times as long to create files where
	// it has just removed some.
	n, name := 0, ""
	place := func(in string) string {
		n++
		name = fmt.Sprint("tree-", n)
		return path.Join(in, name)
	}
	inPod := p.PodName() + ":" + p.Workdir
	pushed := func() error {
		return p.Shell(b.Context(), fmt.Sprintf("test $(find %s -type f -size %dc | wc -l) = %d", name, treeFile, treeFiles)).Run()
	}
	compare(b, "streams", "push a tree of 5,000 files", streamRounds,
		side{name: "podagent", after: pushed, do: func() error {
			_, err := p.Push(b.Context(), local, place(p.Workdir), podapi.TransferOptions{})
			return err
		}},
		side{name: "kubectl cp", after: pushed, do: func() error { return p.kubectl(b, "cp", local, place(inPod))() }},
	)
	source, target := name, b.TempDir()
	pulled := func() error { return checkTree(filepath.Join(target, name)) }
	compare(b, "streams", "pull a tree of 5,000 files", streamRounds,
		side{name: "podagent", after: pulled, do: func() error {
			_, err := p.Pull(b.Context(), source, place(target), podapi.TransferOptions{})
			return err
		}},
		side{name: "kubectl cp", after: pulled, do: func() error { return p.kubectl(b, "cp", inPod+"/"+source, place(target))() }},
	)
}

// checkTree checks that a tree has all of its files.
func checkTree(dir string) error {
	files := 0
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files++
		}
		return err
	})
	if err == nil && files != treeFiles {
		err = fmt.Errorf("%s has %d files", dir, files)
	}
	return err
}
