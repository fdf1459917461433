package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools"
)

func TestBash(t *testing.T) {
	h := newHost(t, tools.Options{})
	h.put("sub/file", "")
	h.golden(t, "Bash", []goldenCase{
		{"hello", `{"command": "echo hello"}`},
		{"both outputs, in their order", `{"command": "echo one; echo two >&2; echo three; echo four >&2"}`},
		{"exit 7", `{"command": "echo out; exit 7"}`},
		{"exit 124 is no timeout", `{"command": "exit 124"}`},
		{"no output", `{"command": "true"}`},
		{"no line end", `{"command": "printf x; exit 1"}`},
		{"a directory", `{"command": "ls", "cwd": "sub"}`},
		{"a directory that is not there, and nothing runs", `{"command": "touch ran", "cwd": "sbu"}`},
		{"a directory that is a file", `{"command": "touch ran", "cwd": "sub/file"}`},
		{"nothing ran", `{"command": "ls"}`},
		{"a timeout, with the output until then", `{"command": "echo begun; sleep 60; echo not reached", "timeout": 2.5}`},
		{"a timeout as a text", `{"command": "echo fine", "timeout": "5"}`},
		{"too long a timeout", `{"command": "true", "timeout": 9999}`},
		{"no timeout at all", `{"command": "true", "timeout": 0}`},
		{"ended by a signal", `{"command": "kill -9 $$"}`},
		{"the environment", `{"command": "echo $TERM $PAGER $GIT_PAGER"}`},
		{"standard input is empty", `{"command": "cat"}`},
		{"what runs on and holds the output", `{"command": "sleep 30 & echo done"}`},
		{"several lines", `{"command": "cat <<EOF\na $((1+1))\nEOF"}`},
		{"a syntax error", `{"command": "if ["}`},
		{"no command", `{"command": ""}`},
		{"no script that there can be", `{"command": "echo a\u0000b"}`},
		{"output that is not all text", `{"command": "printf 'caf\\351\\n'"}`},
		{"nearly no time", `{"command": "sleep 60", "timeout": 1e-12}`},
	})
}

func TestBashStaysWithinItsTimeout(t *testing.T) {
	h := newHost(t, tools.Options{}, tools.Bash{MaxTimeout: time.Second})
	has(t, h.refused("Bash", `{"command": "sleep 60"}`), "timed out after 1s", "up to 1 s,")
	has(t, h.refused("Bash", `{"command": "true", "timeout": 2}`), "must be at most 1")
}

func TestBashLongOutputKeepsHeadAndTailAndTheWholeInAFile(t *testing.T) {
	h := newHost(t, tools.Options{})
	text := h.text("Bash", `{"command": "seq 1 100000; exit 3"}`)
	has(t, text, "1\n2\n3\n", "99999\n100000\n(exit code: 3)", "lines, ", " bytes left out; the whole output is in "+h.temp)
	if len(text) > tools.MaxText+300 || strings.Count(text, "\n") > tools.MaxLines+3 {
		t.Errorf("%d bytes, %d lines", len(text), strings.Count(text, "\n"))
	}
	file := keptFile(t, text)
	has(t, h.text("Read", `{"path": "`+file+`", "offset": 50000, "limit": 2}`), "(lines 50000-50001 of 100000)\n50000\n50001\n")

	// What is left out is exactly what is said.
	var lines, left int
	if _, err := fmt.Sscanf(text[strings.Index(text, "\n[")+2:], "%d lines, %d bytes left out", &lines, &left); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.TrimSuffix(text, "(exit code: 3)")
	at := strings.Index(shown, "\n[") + 1
	end := at + strings.Index(shown[at:], "]\n") + 2
	head, tail := shown[:at], shown[end:]
	if !strings.HasPrefix(string(whole), head) || !strings.HasSuffix(string(whole), tail) || len(head)+left+len(tail) != len(whole) {
		t.Errorf("%d + %d + %d bytes are not %d", len(head), left, len(tail), len(whole))
	}
	if n := strings.Count(string(whole[len(head):len(whole)-len(tail)]), "\n"); n != lines {
		t.Errorf("%d lines are left out, not %d", n, lines)
	}

	info, err := os.Stat(filepath.Dir(file))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(file)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
}

var keptPath = regexp.MustCompile(`in (/\S+/output-\d+\.txt), which`)

func keptFile(t *testing.T, text string) string {
	t.Helper()
	found := keptPath.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no file is named in %q", text[max(0, len(text)-500):])
	}
	return found[1]
}

func TestBashOutputOfOneLongLineIsCutInside(t *testing.T) {
	h := newHost(t, tools.Options{})
	text := h.text("Bash", `{"command": "head -c 300000 /dev/zero | tr '\\0' x"}`)
	has(t, text, "xx\n[", " bytes left out; the whole output is in ")
	if len(text) > tools.MaxText+300 || len(text) < tools.MaxText-300 {
		t.Errorf("%d bytes", len(text))
	}
}

func TestBashOutputUpToTheLimitIsWhole(t *testing.T) {
	h := newHost(t, tools.Options{})
	for _, command := range []string{"seq 1 2000", "head -c 51200 /dev/zero | tr '\\\\0' x", "seq 1 1000; head -c 40000 /dev/zero | tr '\\\\0' x"} {
		if text := h.text("Bash", `{"command": "`+command+`"}`); strings.Contains(text, "left out") {
			t.Errorf("%s: %s", command, text[:200])
		}
	}
	has(t, h.text("Bash", `{"command": "seq 1 2001"}`), "left out")
}

func TestBashSaysThatTheWholeOutputCouldNotBeKept(t *testing.T) {
	h := newHost(t, tools.Options{TempDir: "/dev/null"})
	has(t, h.text("Bash", `{"command": "seq 1 100000"}`), "the whole output could not be kept: ", "100000\n")
}

func TestBashKeepsOnlyTheLastWholeOutputs(t *testing.T) {
	h := newHost(t, tools.Options{})
	for range 10 {
		h.text("Bash", `{"command": "seq 1 3000"}`)
	}
	files, err := filepath.Glob(filepath.Join(h.temp, "*", "*"))
	if err != nil || len(files) != 8 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func TestBashEndsWithItsContext(t *testing.T) {
	h := newHost(t, tools.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	begun := &signalled{on: "begun", do: cancel}
	_, err := h.Do(ctx, tools.Call{Name: "Bash", Input: json.RawMessage(`{"command": "echo begun; sleep 60; touch survived"}`), Output: begun})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	until(t, func() bool {
		all, err := h.sandbox.Processes(t.Context())
		return err == nil && len(all) == 1 && all[0].Status != nil
	})
}

// signalled does something when a text was written to it.
type signalled struct {
	bytes.Buffer
	on string
	do func()
}

func (s *signalled) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	if strings.Contains(s.String(), s.on) {
		s.do()
	}
	return n, err
}

func TestBashWithoutBashIsSh(t *testing.T) {
	// A PATH without bash is what an image without it has.
	bin := t.TempDir()
	if err := os.Symlink("/bin/sh", filepath.Join(bin, "sh")); err != nil {
		t.Fatal(err)
	}
	s, err := launchertest.Local(t).Launch(t.Context(), launcher.Spec{ID: "no-bash", Env: []string{"PATH=" + bin}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := &host{Session: tools.New(s, tools.Options{}, tools.Coding()...), t: t}
	if got := h.text("Bash", `{"command": "echo \"<$BASH_VERSION>\"; echo two >&2"}`); got != "<>\ntwo\n" {
		t.Errorf("got %q", got)
	}
}

func TestBashBoundsTheFileWithTheWholeOutput(t *testing.T) {
	h := newHost(t, tools.Options{})
	text := h.text("Bash", `{"command": "head -c 70000000 /dev/zero | tr '\\0' x"}`)
	has(t, text, " bytes left out; the first 64 MiB of the output are in ")
	file := regexp.MustCompile(`/\S+/output-1\.txt`).FindString(text)
	if info, err := os.Stat(file); err != nil || info.Size() != tools.MaxKept {
		t.Errorf("%s: %v, %v", file, info, err)
	}
}

func TestBashKeepsTheWholeOutputAlsoWhenItsDirectoryWasRemoved(t *testing.T) {
	h := newHost(t, tools.Options{})
	h.text("Bash", `{"command": "seq 1 3000"}`)
	h.text("Bash", `{"command": "rm -rf `+h.temp+`/*"}`)
	has(t, h.text("Bash", `{"command": "seq 1 3000"}`), "the whole output is in ")
}

func TestCommand(t *testing.T) {
	gh := tools.Command{Name: "Command", Path: "sh", Args: []string{"-c", `echo "$0" "$@"; test -z "$1" || exit $1`}, Env: []string{"HIDDEN=value"}}
	h := newHost(t, tools.Options{}, gh)
	h.put("sub/x", "")
	h.golden(t, "Command", []goldenCase{
		{"arguments are not parsed", `{"args": ["a b", "0", "$(id)", "*", ";ls"]}`},
		{"an exit code", `{"args": ["x", "7"]}`},
		{"none", `{}`},
		{"a directory that is not there", `{"args": [], "cwd": "sbu"}`},
		{"arguments that are none", `{"args": "a b"}`},
		{"an argument that is none", `{"args": ["a", 1]}`},
		{"an unknown parameter", `{"command": "ls"}`},
	})
	missing := newHost(t, tools.Options{}, tools.Command{Path: "no-such-program"})
	has(t, missing.refused("no-such-program", `{}`), `cannot run "no-such-program": the sandbox has no such executable`)
	has(t, h.refused("Command", `{"args": ["`+strings.Repeat("x", 200_000)+`"]}`), `cannot run "sh": the arguments and the environment are too long`)
}

func TestCommandHasItsEnvironmentAndTheModelIsNotToldOfIt(t *testing.T) {
	c := tools.Command{Name: "show", Path: "sh", Args: []string{"-c", "echo $HIDDEN $TERM"}, Env: []string{"HIDDEN=value"}}
	h := newHost(t, tools.Options{}, c)
	if got := h.text("show", `{}`); got != "value dumb\n" {
		t.Errorf("got %q", got)
	}
	if spec := c.Spec(); strings.Contains(spec.Description+string(spec.InputSchema), "HIDDEN") {
		t.Errorf("the model is told: %+v", spec)
	}
}

func TestBashThatIsLostWithTheAgentSaysIt(t *testing.T) {
	t.Setenv("PODAGENT_CONFINE", "off") // otherwise the kernel refuses the signal
	h := newHost(t, tools.Options{})
	has(t, h.refused("Bash", `{"command": "echo begun; kill -9 $PPID; sleep 60"}`), "(lost: the sandbox's agent ended ", "all commands have ended")
}

func TestToolsWorkWithoutASession(t *testing.T) {
	env := &tools.Env{Sandbox: launchertest.Sandbox(t)}
	result, err := tools.Bash{}.Call(t.Context(), env, json.RawMessage(`{"command": "seq 1 3000"}`))
	if err != nil {
		t.Fatal(err)
	}
	has(t, result.Text(), "3000\n", "the whole output could not be kept: there is no session")
	result, err = tools.Bash{}.Call(t.Context(), env, json.RawMessage(`{"command": "echo fine", "run_in_background": true}`))
	if err != nil {
		t.Fatal(err)
	}
	id := execID.FindString(result.Text())
	until(t, func() bool {
		result, err = tools.BashOutput{}.Call(t.Context(), env, json.RawMessage(`{"id": "`+id+`"}`))
		return err == nil && strings.Contains(result.Text(), "ended")
	})
	has(t, result.Text(), "fine\n(ended, exit status 0;")
}
