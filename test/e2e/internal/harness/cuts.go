package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// How many bytes pass a connection that is cut repeatedly, how often it is cut, and
// how many bytes may be under way at a cut: the receiver still gets them without a
// connection.
const (
	cutSize  = 200_000_000
	cuts     = 20
	cutOnWay = 4 << 20
)

// cutter is a stream that cuts the connection after given numbers of its bytes, and
// does the worst harm in the middle.
type cutter struct {
	at   []int64 // offsets, in order
	n    int64
	cuts int
	cut  func(i int) bool // reports whether there was a connection
	sum  hash.Hash
}

// newCutter cuts at random offsets in size bytes, one in each equal part. Each is
// far enough from the end of its part that the next connection is there before all
// bytes have passed.
func newCutter(t *testing.T, size int64, w *Wire, harm func()) *cutter {
	c := &cutter{sum: sha256.New()}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range int64(cuts) {
		c.at = append(c.at, size*i/cuts+random.Int64N(size/cuts-cutOnWay))
	}
	t.Logf("seed %d, cuts at %d", seed, c.at)
	c.cut = func(i int) bool {
		switch {
		case i == cuts/2:
			harm()
			return true
		case i%2 == 0:
			return w.Reset() > 0
		default:
			return w.Finish() > 0
		}
	}
	return c
}

// Write takes the bytes that pass. They may have been under way at the last cut, so
// that there is no connection to cut; then a later piece is cut.
func (c *cutter) Write(data []byte) (int, error) {
	c.n += int64(len(data))
	if c.cuts < len(c.at) && c.at[c.cuts] < c.n && c.cut(c.cuts) {
		c.cuts++
	}
	return c.sum.Write(data)
}

func (c *cutter) hex() string { return hex.EncodeToString(c.sum.Sum(nil)) }

// check checks that all bytes passed once, and that there were as many cuts as
// planned. The last ones may have found no connection, since all was under way.
func (c *cutter) check(t *testing.T, size int64, want string) {
	t.Helper()
	if c.n != size || c.hex() != want {
		t.Errorf("%d bytes of SHA-256 %s passed, want %d of %s", c.n, c.hex(), size, want)
	}
	if c.cuts < cuts-2 {
		t.Errorf("the connection was cut %d times, want %d", c.cuts, cuts)
	}
}

// TestOutputAcrossCuts moves 200 MB of a command's output over a wire that is cut
// twenty times. In the middle, harm does the worst to it.
func TestOutputAcrossCuts(t *testing.T, s *launcher.Sandbox, w *Wire, harm func()) {
	content, _, _ := Run(t, s, fmt.Sprintf("head -c %d /dev/urandom > file && sha256sum < file", cutSize), nil)
	ctx, cancel := context.WithTimeout(t.Context(), Hung)
	defer cancel()
	out := newCutter(t, cutSize, w, harm)
	cmd := s.Shell(ctx, "cat file; echo end >&2; exit 3")
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = out, &stderr
	err := cmd.Run()
	if exit := (*podapi.ExitError)(nil); !errors.As(err, &exit) || exit.Code != 3 || exit.Omitted != 0 || stderr.String() != "end\n" {
		t.Errorf("Run: %v, status %+v, stderr %q", err, cmd.Process.Status(), &stderr)
	}
	out.check(t, cutSize, strings.Fields(content)[0])
}

// TestInputAcrossCuts does the same with a command's input.
func TestInputAcrossCuts(t *testing.T, s *launcher.Sandbox, w *Wire, harm func()) {
	ctx, cancel := context.WithTimeout(t.Context(), Hung)
	defer cancel()
	in := newCutter(t, cutSize, w, harm)
	cmd := s.Shell(ctx, "sha256sum; exit 4")
	var stdout strings.Builder
	cmd.Stdin, cmd.Stdout = io.TeeReader(Pattern(cutSize, 1), in), &stdout
	err := cmd.Run()
	if exit := (*podapi.ExitError)(nil); !errors.As(err, &exit) || exit.Code != 4 {
		t.Errorf("Run: %v, status %+v", err, cmd.Process.Status())
	}
	want, _ := SHA(t, Pattern(cutSize, 1))
	in.check(t, cutSize, want)
	if got := stdout.String(); got != want+"  -\n" {
		t.Errorf("the command got SHA-256 %q, want %s", got, want)
	}
}

// TestPortAcrossCuts cuts a connection to a port in each of these ways, and checks
// that the next connection works.
func TestPortAcrossCuts(t *testing.T, s *launcher.Sandbox, cuts map[string]func()) {
	ports := StartServer(t, s)
	for what, cut := range cuts {
		conn := Dial(t, s, ports["echo"])
		cut()
		if _, err := io.Copy(io.Discard, conn); !IsCut(err) || !strings.Contains(err.Error(), "was cut, and cannot go on") {
			t.Errorf("after %s the read ended with %v", what, err)
		}
		Await(t, "a connection after "+what, func() bool {
			next, err := s.Dial(t.Context(), ports["echo"])
			if err == nil {
				next.Close()
			}
			return err == nil
		})
	}
}
