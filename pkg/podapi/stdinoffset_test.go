package podapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// left starts a command whose standard input is open, and leaves it.
func left(t *testing.T, cmd *podapi.Cmd) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Detach(); err != nil {
		t.Fatal(err)
	}
	in.Close()
}

// taken returns how much input the agent has taken for a process.
func taken(t *testing.T, c *podapi.Client, id string) int64 {
	t.Helper()
	p, err := c.Attach(t.Context(), id, podapi.AttachOptions{NoFollow: true, NoOutput: true})
	if err != nil {
		t.Fatal(err)
	}
	n, err := p.StdinTaken(t.Context(), -1)
	if err != nil {
		t.Error(err)
	}
	_ = p.Wait()
	return n
}

func TestAnotherCallerSendsExactlyTheRestOfTheInput(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	got := filepath.Join(t.TempDir(), "got")
	cmd := w.client(t).Shell(t.Context(), "until [ -e "+got+".go ]; do sleep 0.01; done; exec cat > "+got)
	left(t, cmd)
	data, err := io.ReadAll(io.LimitReader(random(1), 2<<20))
	if err != nil {
		t.Fatal(err)
	}
	from := func(offset int64) podapi.AttachOptions {
		return podapi.AttachOptions{NoOutput: true, Stdin: bytes.NewReader(data[offset:]), StdinOffset: &offset}
	}
	first, err := w.client(t).Attach(t.Context(), cmd.ID, from(0))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := first.StdinTaken(t.Context(), 0); n == 0 || err != nil { // the pipe takes some
		t.Errorf("%d bytes, %v", n, err)
	}
	w.cut()
	if err := first.Detach(); err != nil {
		t.Error(err)
	}
	other := w.direct(t)
	n := taken(t, other, cmd.ID)
	if n == 0 || n >= int64(len(data)) {
		t.Fatalf("%d bytes were taken", n)
	}
	for _, wrong := range []int64{int64(len(data)) + 1, -1} { // the first caller's call may still write
		o := from(0)
		o.StdinOffset = &wrong
		if _, err := other.Attach(t.Context(), cmd.ID, o); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("from offset %d: %v", wrong, err)
		}
	}
	second, err := other.Attach(t.Context(), cmd.ID, from(n-100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(got+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := second.Wait(); err != nil {
		t.Error(err)
	}
	if all, err := os.ReadFile(got); err != nil || !bytes.Equal(all, data) {
		t.Errorf("%d bytes arrived, and not the %d that were sent: %v", len(all), len(data), err)
	}
	if n := taken(t, other, cmd.ID); n != int64(len(data)) {
		t.Errorf("%d bytes of %d were taken in the end", n, len(data))
	}
}

func TestStdinTakenWaitsForMoreOrForTheEnd(t *testing.T) {
	leakCheck(t)
	s := launchertest.Sandbox(t)
	cmd := s.Shell(t.Context(), "read -r line; exec 0<&-; exec sleep 300")
	left(t, cmd)
	in, typing := io.Pipe()
	p, err := s.Attach(t.Context(), cmd.ID, podapi.AttachOptions{Stdin: in})
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if n, err := p.StdinTaken(ended, 0); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("nothing was sent: %d, %v", n, err)
	}
	for _, text := range []string{"a", "bc\n"} {
		if _, err := io.WriteString(typing, text); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := p.StdinTaken(t.Context(), 3); n != 4 || err != nil {
		t.Errorf("a line was sent: %d, %v", n, err)
	}
	go func() { // the process does not read it
		for {
			if _, err := io.WriteString(typing, "x"); err != nil {
				return
			}
		}
	}()
	n := int64(4)
	for err == nil {
		n, err = p.StdinTaken(t.Context(), n)
	}
	if !errors.Is(err, podapi.ErrStdinClosed) {
		t.Errorf("after %d bytes: %v", n, err)
	}
	in.Close()
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	_ = p.Wait()
	if n, err := p.StdinTaken(t.Context(), 1<<40); !errors.Is(err, podapi.ErrStdinClosed) {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

func TestOutputTellsWhereItBeginsAndWhereSomeIsMissing(t *testing.T) {
	s := launchertest.Sandbox(t)
	cmd := s.Shell(t.Context(), "printf abcdef >&2; exec head -c 100M /dev/zero")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	var stdout counter
	var stderr strings.Builder
	begins := map[string][]int64{}
	p, err := s.Attach(t.Context(), cmd.ID, podapi.AttachOptions{
		Stdout: &stdout, Stderr: &stderr, StderrOffset: 4,
		StdoutAt: func(offset int64) { begins["stdout"] = append(begins["stdout"], offset-int64(stdout)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	if at := begins["stdout"]; len(at) != 1 || at[0] == 0 || at[0] != p.Omitted() || at[0]+int64(stdout) != 100<<20 {
		t.Errorf("%d bytes of stdout begin at %d: %d are missing", stdout, at, p.Omitted())
	}
	if p, err = s.Attach(t.Context(), cmd.ID, podapi.AttachOptions{
		Stderr: &stderr, StderrOffset: 4, StdoutOffset: 100 << 20,
		StderrAt: func(offset int64) { begins["stderr"] = append(begins["stderr"], offset) },
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	if at := begins["stderr"]; len(at) != 1 || at[0] != 4 || stderr.String() != "efef" {
		t.Errorf("stderr begins at %d: %q", at, &stderr)
	}
}
