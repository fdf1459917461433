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

// What passes a connection that is cut again and again, how often it is cut on the
// way, and what may have left its sender when a connection is cut: it arrives
// although there is none.
const (
	cutSize  = 200_000_000
	cuts     = 20
	cutOnWay = 4 << 20
)

// cutter is a stream that has the connection cut when so many of its bytes
// have passed, and the worst happen in the middle.
type cutter struct {
	at   []int64 // where, in order
	n    int64
	cuts int
	cut  func(i int) bool // reports whether there was a connection
	sum  hash.Hash
}

// newCutter cuts at random places of size bytes, one in each equal part and so
// far from its end that the next connection is there before all has passed.
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

// Write takes what passes. That may be what was on its way when the connection
// was cut the last time: then it is cut at a later piece.
func (c *cutter) Write(data []byte) (int, error) {
	c.n += int64(len(data))
	if c.cuts < len(c.at) && c.at[c.cuts] < c.n && c.cut(c.cuts) {
		c.cuts++
	}
	return c.sum.Write(data)
}

func (c *cutter) hex() string { return hex.EncodeToString(c.sum.Sum(nil)) }

// check checks that all passed once, and was cut as often as it should be.
func (c *cutter) check(t *testing.T, size int64, want string) {
	t.Helper()
	if c.n != size || c.hex() != want {
		t.Errorf("%d bytes of SHA-256 %s passed, want %d of %s", c.n, c.hex(), size, want)
	}
	if c.cuts != cuts {
		t.Errorf("it was cut %d times, want %d", c.cuts, cuts)
	}
}

// TestOutputAcrossCuts moves 200 MB of a command's output by a wire that is cut
// twenty times, and has the worst happen to it in the middle: harm.
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

// TestInputAcrossCuts is the same for a command's input.
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

// TestPortAcrossCuts has a connection to a port cut in each of these ways, and
// checks that the next one works.
func TestPortAcrossCuts(t *testing.T, s *launcher.Sandbox, cuts map[string]func()) {
	ports := StartServer(t, s)
	for what, cut := range cuts {
		conn := Dial(t, s, ports["echo"])
		cut()
		if _, err := io.Copy(io.Discard, conn); !IsCut(err) || !strings.Contains(err.Error(), "was cut, and cannot go on") {
			t.Errorf("after %s of the way the read ended with %v", what, err)
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
