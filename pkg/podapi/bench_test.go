package podapi_test

import (
	"bytes"
	"io"
	"os/exec"
	"testing"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// The benchmarks measure calls over a unix socket to an agent that is a
// process of its own.

func BenchmarkStat(b *testing.B) {
	s := launchertest.Sandbox(b)
	for b.Loop() {
		if _, err := s.Stat(b.Context(), "."); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExecTrue(b *testing.B) {
	s := launchertest.Sandbox(b)
	b.Run("sandbox", func(b *testing.B) {
		for b.Loop() {
			if err := s.Command(b.Context(), "/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("os-exec", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

const streamed = 256 << 20

func BenchmarkWrite256MiB(b *testing.B) {
	s := launchertest.Sandbox(b)
	data := make([]byte, streamed)
	b.SetBytes(streamed)
	for b.Loop() {
		if err := s.WriteFile(b.Context(), "file", data, 0o666); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWrite4KiB(b *testing.B) {
	s := launchertest.Sandbox(b)
	data := make([]byte, 4<<10)
	for b.Loop() {
		if err := s.WriteFile(b.Context(), "file", data, 0o666); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead256MiB(b *testing.B) {
	s := launchertest.Sandbox(b)
	if err := s.WriteFile(b.Context(), "file", make([]byte, streamed), 0o666); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(streamed)
	for b.Loop() {
		if _, err := s.Read(b.Context(), "file", io.Discard, fsops.ReadOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStdin64MiBThroughCat(b *testing.B) {
	s := launchertest.Sandbox(b)
	data := make([]byte, 64<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		cmd := s.Command(b.Context(), "cat")
		cmd.Stdin, cmd.Stdout = bytes.NewReader(data), io.Discard
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}
