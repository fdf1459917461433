package main

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// cli is the CLI as a program, with a sandbox called box.
type cli struct {
	t   *testing.T
	bin string
	env []string
}

func newCLI(t *testing.T) *cli {
	t.Helper()
	return newCLIOf(t, buildPrograms(t))
}

// newCLIOf is newCLI for the programs in a directory.
func newCLIOf(t *testing.T, bin string) *cli {
	t.Helper()
	c := &cli{t: t, bin: bin, env: append(os.Environ(), "PODAGENT_BACKEND=local", "PODAGENT_ISOLATION=none", "PODAGENT_CONFIG=/dev/null",
		"PODAGENT_BIN="+filepath.Join(bin, "podagent"), "XDG_STATE_HOME="+filepath.Join(t.TempDir(), "state"))}
	c.run(nil, io.Discard, "up", "box")
	t.Cleanup(func() { c.run(nil, io.Discard, "down", "box") })
	return c
}

// run runs the CLI, which must succeed.
func (c *cli) run(in io.Reader, out io.Writer, args ...string) {
	c.t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(filepath.Join(c.bin, "orchestrator"), args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.env, in, out, &stderr
	if err := cmd.Run(); err != nil {
		c.t.Errorf("orchestrator %q: %v: %s", args, err, &stderr)
	}
}

// content returns size bytes that do not repeat; every call returns the same bytes.
func content(size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{1}), size)
}

// roundTrip sends size bytes to name and back, by put and cat and by cp.
func (c *cli) roundTrip(name string, size int64) {
	c.t.Helper()
	want := sha256.New()
	if _, err := io.Copy(want, content(size)); err != nil {
		c.t.Fatal(err)
	}
	c.run(content(size), io.Discard, "put", "box", "--", name)
	got := sha256.New()
	c.run(nil, got, "cat", "box", "--", name)
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		c.t.Errorf("%d bytes of %q came back different through put and cat", size, name)
	}
	local := filepath.Join(c.t.TempDir(), "local")
	c.run(nil, io.Discard, "cp", "box:"+name, local)
	c.run(nil, io.Discard, "cp", local, "box:copy of "+name)
	got.Reset()
	c.run(nil, got, "cat", "box", "copy of "+name)
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		c.t.Errorf("%d bytes of %q came back different through cp", size, name)
	}
}

// full says that the tests use the sizes of a full test.
var full = os.Getenv("PODAGENT_TEST_FULL") != ""

// The largest size fills eight flow-control windows; more would take the same path.
// A full test sends a gigabyte.
func TestRoundTripOfSizesThroughTheCLI(t *testing.T) {
	c := newCLI(t)
	largest := int64(64<<20 + 1)
	if full {
		largest = 1 << 30
	}
	for _, size := range []int64{0, 1, 256 << 10, largest} {
		c.roundTrip("file", size)
	}
}

func TestRoundTripOfNamesThroughTheCLI(t *testing.T) {
	c := newCLI(t)
	for _, name := range []string{"with space", "new\nline", "invalid \xff\xfe UTF-8", "-dash", "a:b", "$(touch x)", "🙂"} {
		c.roundTrip(name, 1000)
	}
	var list bytes.Buffer
	c.run(nil, &list, "ls", "box")
	if bytes.Contains(list.Bytes(), []byte("\nx\n")) {
		t.Error("a shell ran a name")
	}
}

func TestStdinAndOutputAreBytesThroughTheCLI(t *testing.T) {
	c := newCLI(t)
	want, err := io.ReadAll(content(3 << 20))
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	c.run(bytes.NewReader(want), &got, "exec", "box", "-i", "--", "cat")
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d of %d bytes came back, or they differ", got.Len(), len(want))
	}
}
