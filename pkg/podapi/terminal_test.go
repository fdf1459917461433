package podapi_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// untilText reads until text has come, and returns all.
func untilText(t *testing.T, r io.Reader, text string) string {
	t.Helper()
	var all []byte
	for one := make([]byte, 1); !bytes.HasSuffix(all, []byte(text)); all = append(all, one[0]) {
		if _, err := io.ReadFull(r, one); err != nil {
			t.Fatalf("%q did not come after %q: %v", text, all, err)
		}
	}
	return string(all)
}

func TestTerminalTakesInputAndIsResizedAlsoDuringACut(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	cmd := w.client(t).Shell(t.Context(), `
		stty -echo; last=$(stty size); echo $last; echo to stderr >&2
		while :; do
			size=$(stty size); [ "$size" = "$last" ] || echo $size; last=$size
			read -r -t 0.1 line || { part=$part$line; continue; } # it may return within a line
			line=$part$line part=
			case $line in "") ;; end) exit 6;; *) echo "got $line";; esac
		done`)
	cmd.Terminal = &podapi.TerminalSize{Rows: 24, Columns: 80}
	in, out := startPiped(t, cmd)
	if !cmd.Process.HasTerminal() {
		t.Error("it has no terminal")
	}
	untilText(t, out, "24 80\r\nto stderr\r\n")
	if err := cmd.Process.Resize(podapi.TerminalSize{Rows: 30, Columns: 100}); err != nil {
		t.Error(err)
	}
	untilText(t, out, "30 100\r\n")
	w.setAway(true)
	w.cut()
	if err := cmd.Process.Resize(podapi.TerminalSize{Rows: 31, Columns: 101}); err != nil {
		t.Error(err)
	}
	w.setAway(false)
	untilText(t, out, "31 101\r\n")
	if _, err := io.WriteString(in, "typed\nend\n"); err != nil {
		t.Fatal(err)
	}
	untilText(t, out, "got typed\r\n")
	if _, err := io.ReadAll(out); err != nil {
		t.Error(err)
	}
	if exit, ok := errors.AsType[*podapi.ExitError](cmd.Wait()); !ok || exit.Code != 6 {
		t.Errorf("it ended with %v", exit)
	}
}

func TestResizeOfWhatCannotBe(t *testing.T) {
	s := launchertest.Sandbox(t)
	cmd := s.Command(t.Context(), "sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, size := range []podapi.TerminalSize{{Rows: 24, Columns: 80}, {Rows: -1}, {Columns: 1 << 16}} {
		if err := cmd.Process.Resize(size); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v: %v", size, err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil { // it was not disturbed
		t.Error(err)
	}
	if exit, ok := errors.AsType[*podapi.ExitError](cmd.Wait()); !ok || exit.Signal != 9 {
		t.Errorf("it ended with %v", exit)
	}
	cmd = s.Command(t.Context(), "true")
	cmd.Terminal = &podapi.TerminalSize{Rows: 1 << 16}
	if err := cmd.Start(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Start: %v", err)
	}
}

func TestAttachToAScreenBeginsAtItsLastClear(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	c := w.client(t)
	cmd := c.Shell(t.Context(), `stty -echo; trap 'stty size' WINCH
		seq 1000; printf '\033[2Jdrawn\n'; while :; do
			if read -r -t 0.1 line; then echo "got $part$line"; part=; else part=$part$line; fi # it may return within a line
		done`)
	cmd.Terminal = &podapi.TerminalSize{Rows: 24, Columns: 80}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	untilText(t, out, "drawn\r\n")
	go io.Copy(io.Discard, out)
	if err := cmd.Process.Detach(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	input, typing := io.Pipe()
	out, output := io.Pipe()
	again, err := c.Attach(t.Context(), cmd.ID, podapi.AttachOptions{
		Stdin: input, Stdout: output, Screen: &podapi.TerminalSize{Rows: 25, Columns: 81},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- again.Wait()
		output.Close()
	}()
	if got := untilText(t, out, "drawn\r\n"); strings.Contains(got, "1000") {
		t.Errorf("it began before the clear: %q", got)
	}
	untilText(t, out, "25 81\r\n")
	w.cut()
	if _, err := io.WriteString(typing, "typed\n"); err != nil {
		t.Fatal(err)
	}
	if got := untilText(t, out, "got typed\r\n"); strings.Contains(got, "drawn") {
		t.Errorf("after a cut it began again: %q", got)
	}
	if err := again.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(out); err != nil {
		t.Error(err)
	}
	if exit, ok := errors.AsType[*podapi.ExitError](<-ended); !ok || exit.Signal != 9 {
		t.Errorf("it ended with %v", exit)
	}
	input.Close()
}

func TestRlimitsHoldForTheCommand(t *testing.T) {
	s := launchertest.Sandbox(t)
	cmd := s.Shell(t.Context(), "ulimit -Sn; ulimit -Hn; ulimit -c")
	cmd.Rlimits = []podapi.Rlimit{{Resource: "nofile", Soft: 64, Hard: 128}, {Resource: "core", Soft: 0, Hard: podapi.Unlimited}}
	if out, err := cmd.Output(); string(out) != "64\n128\n0\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	cmd = s.Command(t.Context(), "true")
	cmd.Rlimits = []podapi.Rlimit{{Resource: "patience"}}
	if err := cmd.Run(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("an unknown limit: %v", err)
	}
}
