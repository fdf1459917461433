package e2e

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
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// The tests of this file cut the connection of a command again and again.

// What they move, how often it is cut on the way, and what may have left its
// sender when a connection is cut: it arrives although there is none.
const (
	resumeSize  = 200_000_000
	resumeCuts  = 20
	resumeOnWay = 4 << 20
)

// overEachWire runs a test over a sandbox of each launcher, and over each way to
// those in pods, with the worst that may happen to it. For a port-forward that
// is that the API server restarts.
func overEachWire(t *testing.T, test func(t *testing.T, s *launcher.Sandbox, w *wire, harm func())) {
	t.Run("local", func(t *testing.T) {
		l := launchertest.Local(t)
		launch(t, l, launcher.Spec{ID: "a"})
		w := wireToAgent(t, l)
		s, err := l.Open(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		test(t, s, w, func() { w.finish() })
	})
	t.Run("kubernetes", func(t *testing.T) {
		c := launchertest.DisruptedCluster(t, launcher.Restricted)
		w, l := wireTo(t, c)
		test(t, launch(t, l, c.Spec(t.Name())), w, func() { c.Restart(t, "apiserver") })
	})
	for _, way := range []launcher.Connection{launcher.ByExec, launcher.ByAddress} {
		t.Run("kubernetes by "+string(way), func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted).By(t, way)
			w, l := wireTo(t, c)
			test(t, launch(t, l, c.Spec(t.Name())), w, func() { w.finish() })
		})
	}
}

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
func newCutter(t *testing.T, size int64, w *wire, harm func()) *cutter {
	c := &cutter{sum: sha256.New()}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range int64(resumeCuts) {
		c.at = append(c.at, size*i/resumeCuts+random.Int64N(size/resumeCuts-resumeOnWay))
	}
	t.Logf("seed %d, cuts at %d", seed, c.at)
	c.cut = func(i int) bool {
		switch {
		case i == resumeCuts/2:
			harm()
			return true
		case i%2 == 0:
			return w.reset() > 0
		default:
			return w.finish() > 0
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
	if c.cuts != resumeCuts {
		t.Errorf("it was cut %d times, want %d", c.cuts, resumeCuts)
	}
}

func Test200MBOfOutputAcrossTwentyCutsAreIdentical(t *testing.T) {
	overEachWire(t, func(t *testing.T, s *launcher.Sandbox, w *wire, harm func()) {
		content, _, _ := run(t, s, fmt.Sprintf("head -c %d /dev/urandom > file && sha256sum < file", resumeSize), nil)
		ctx, cancel := context.WithTimeout(t.Context(), 2*hung)
		defer cancel()
		out := newCutter(t, resumeSize, w, harm)
		cmd := s.Shell(ctx, "cat file; echo end >&2; exit 3")
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = out, &stderr
		err := cmd.Run()
		if exit := (*podapi.ExitError)(nil); !errors.As(err, &exit) || exit.Code != 3 || exit.Omitted != 0 || stderr.String() != "end\n" {
			t.Errorf("Run: %v, status %+v, stderr %q", err, cmd.Status(), &stderr)
		}
		out.check(t, resumeSize, strings.Fields(content)[0])
	})
}

func Test200MBOfInputAcrossTwentyCutsAreIdentical(t *testing.T) {
	overEachWire(t, func(t *testing.T, s *launcher.Sandbox, w *wire, harm func()) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*hung)
		defer cancel()
		in := newCutter(t, resumeSize, w, harm)
		cmd := s.Shell(ctx, "sha256sum; exit 4")
		var stdout strings.Builder
		cmd.Stdin, cmd.Stdout = io.TeeReader(pattern(resumeSize, 1), in), &stdout
		err := cmd.Run()
		if exit := (*podapi.ExitError)(nil); !errors.As(err, &exit) || exit.Code != 4 {
			t.Errorf("Run: %v, status %+v", err, cmd.Status())
		}
		want, _ := sha(t, pattern(resumeSize, 1))
		in.check(t, resumeSize, want)
		if got := stdout.String(); got != want+"  -\n" {
			t.Errorf("the command got SHA-256 %q, want %s", got, want)
		}
	})
}
