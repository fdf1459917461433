package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the scripts in testdata/script with the real programs. Each
// script has its own sandboxes, which are removed at its end.
func TestScripts(t *testing.T) {
	p := localScript(t, buildPrograms(t), goCache(t))
	p.Dir = filepath.Join("testdata", "script")
	testscript.Run(t, p)
}

// localScript returns how a script runs with the local backend.
func localScript(t *testing.T, bin, cache string) testscript.Params {
	return testscript.Params{
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("PODAGENT_BACKEND", "local")
			env.Setenv("PODAGENT_ISOLATION", "none")                   // scripts look at what commands do outside, and at their own programs
			env.Setenv("PODAGENT_IMAGE", "registry.example/runtime:1") // for sandboxes that would be pods
			env.Setenv("PODAGENT_BIN", filepath.Join(bin, "podagent"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, ".state"))
			env.Setenv("EDITORS", editorScripts(t))
			env.Defer(func() {
				if err := takeDown(env); err != nil {
					t.Errorf("taking down what a script left: %v", err)
				}
			})
			return setHome(env, cache)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":       exits,
			"interrupted": interrupted,
			"await":       await,
			"keep":        keep,
			"newids":      newIDs,
		},
	}
}

// editorScripts returns the directory of what editors do to connect, which scripts share.
func editorScripts(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("testdata", "editors"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// goCache returns the directory of the go command's build cache.
func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// setHome gives the script a home that contains the build cache, because a sandbox
// does not inherit the variable that names the cache.
func setHome(env *testscript.Env, cache string) error {
	home := filepath.Join(env.WorkDir, ".home")
	env.Setenv("HOME", home)
	if err := os.MkdirAll(filepath.Join(home, ".cache"), 0o700); err != nil {
		return err
	}
	return os.Symlink(cache, filepath.Join(home, ".cache", "go-build"))
}

// takeDown removes the sandboxes that a script left behind, running or not.
func takeDown(env *testscript.Env) error {
	orchestrator := func(args ...string) *exec.Cmd {
		path := filepath.Join(filepath.Dir(env.Getenv("PODAGENT_BIN")), "orchestrator")
		cmd := exec.Command(path, append([]string{"--backend", "local"}, args...)...)
		cmd.Env = env.Vars
		return cmd
	}
	list, err := orchestrator("list", "-o", "json").Output()
	if err != nil {
		return err
	}
	for lines := json.NewDecoder(bytes.NewReader(list)); ; {
		var sandbox struct{ ID string }
		if err := lines.Decode(&sandbox); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if out, err := orchestrator("down", "--", sandbox.ID).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
}

// exits runs a program that must exit with the given status:
//
//	exits STATUS PROGRAM [ARG]...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM [ARG]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := status(ts, ts.Exec(args[1], args[2:]...))
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// status returns the exit status of a program.
func status(ts *testscript.TestScript, err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

// interrupted runs a program, sends it a signal as soon as a file has content, and
// requires that it exits with 128 plus the signal's number, or that KILL ends it.
// Its output goes to the files out and err:
//
//	interrupted INT|TERM|HUP|QUIT|KILL FILE PROGRAM [ARG]...
func interrupted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: interrupted INT|TERM|HUP|QUIT|KILL FILE PROGRAM [ARG]...")
	}
	sig := map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL,
	}[args[0]]
	cmd := exec.Command(filepath.Join(filepath.Dir(ts.Getenv("PODAGENT_BIN")), args[2]), args[3:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"HOME", "PATH", "PODAGENT_BACKEND", "PODAGENT_BIN", "PODAGENT_GATEWAY", "PODAGENT_GATEWAY_TOKEN_FILE", "PODAGENT_ISOLATION", "TMPDIR", "XDG_STATE_HOME"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.Stdout, cmd.Stderr = create(ts, "out"), create(ts, "err")
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	awaitContent(ts, ts.MkAbs(args[1]), ended)
	ts.Check(cmd.Process.Signal(sig))
	want := 128 + int(sig)
	if sig == syscall.SIGKILL {
		want = -1
	}
	if got := status(ts, <-ended); got != want {
		ts.Fatalf("exit status %d after %v, want %d", got, sig, want)
	}
}

// create makes a file for the output of a program. It is closed when the script
// ends.
func create(ts *testscript.TestScript, name string) *os.File {
	file, err := os.Create(ts.MkAbs(name))
	ts.Check(err)
	ts.Defer(func() { file.Close() })
	return file
}

func awaitContent(ts *testscript.TestScript, file string, ended <-chan error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			return
		}
		select {
		case err := <-ended:
			ts.Fatalf("ended before %s was written: %v", file, err)
		case <-tick.C:
		}
	}
}

// keep sets a variable to the output of the last program:
//
//	keep NAME
func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keep NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// newIDs sets variables to new exec ids of the same time:
//
//	newids NAME...
func newIDs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: newids NAME...")
	}
	first, err := uuid.NewV7()
	ts.Check(err)
	for i, name := range args {
		id := first
		id[len(id)-1] += byte(i)
		ts.Setenv(name, id.String())
	}
}
