package e2e

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// waysTo launches a sandbox that every way reaches, and opens it by each. It
// also connects to testdata/echo there, by raw TCP to the pod's address.
func waysTo(b *testing.B) (byWay map[launcher.Connection]*launcher.Sandbox, raw *rawStream) {
	b.Helper()
	c := launchertest.NewCluster(b, launcher.Restricted)
	byWay = map[launcher.Connection]*launcher.Sandbox{}
	for _, way := range []launcher.Connection{launcher.ByAddress, launcher.ByExec, launcher.ByPortForward} {
		s, err := c.By(b, way).Launcher().Launch(b.Context(), c.Spec("bench"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		byWay[way] = s
	}
	d, err := c.Launcher().Describe(b.Context(), "bench")
	if err != nil {
		b.Fatal(err)
	}
	port := startEcho(b, byWay[launcher.ByAddress], "0.0.0.0:0")
	conn, err := net.Dial("tcp", net.JoinHostPort(d.IP, fmt.Sprint(port)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return byWay, &rawStream{conn, make([]byte, rawTCPBuffer)}
}

// rawTCPBuffer is testdata/echo's: what makes raw TCP fast.
const rawTCPBuffer = 256 << 10

// eachSide returns the sides of a comparison: the way by address first, then raw
// TCP, then the others.
func eachSide(byWay map[launcher.Connection]*launcher.Sandbox, do func(s *launcher.Sandbox) error, raw func() error) []side {
	sides := []side{{}, {name: "raw-tcp", do: raw}}
	for _, way := range launcher.Connections() {
		s := side{name: string(way), do: func() error { return do(byWay[way]) }}
		if way == launcher.ByAddress {
			sides[0] = s
		} else {
			sides = append(sides, s)
		}
	}
	return sides
}

// BenchmarkStatByEachWay compares each way with what 64 bytes take by raw TCP to
// the pod's address and back.
func BenchmarkStatByEachWay(b *testing.B) {
	byWay, raw := waysTo(b)
	if err := raw.request('e', 0); err != nil {
		b.Fatal(err)
	}
	compareFaster(b, 300, eachSide(byWay, func(s *launcher.Sandbox) error {
		_, err := s.Stat(b.Context(), ".")
		return err
	}, func() error { return raw.echo(64) })...)
}

// BenchmarkTransferByEachWay is to be 0.8 times as fast by address as raw TCP,
// which no file is made of, and which nothing encrypts.
func BenchmarkTransferByEachWay(b *testing.B) {
	byWay, raw := waysTo(b)
	data, err := io.ReadAll(pattern(transferSize, 1))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		compareTransfers(b, eachSide(byWay, func(s *launcher.Sandbox) error {
			_, err := s.WriteFile(b.Context(), "written", data, fsops.WriteOptions{})
			return err
		}, func() error { return raw.send(transferSize) })...)
	})
	b.Run("read", func(b *testing.B) {
		compareTransfers(b, eachSide(byWay, func(s *launcher.Sandbox) error {
			_, err := s.Read(b.Context(), "written", fsops.ReadOptions{}, io.Discard)
			return err
		}, func() error { return raw.receive(transferSize) })...)
	})
}
