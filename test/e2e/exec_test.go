package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestExecPrintsExactlyHello(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		out, err := s.Command(t.Context(), "echo", "hello").Output()
		if err != nil || string(out) != "hello\n" {
			t.Errorf("%q, %v", out, err)
		}
	})
}

func TestExecExitCodes(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		for _, code := range []int{0, 7, 124, 255} {
			_, _, status := harness.Run(t, s, fmt.Sprint("exit ", code), nil)
			if status.Reason != podapi.Exited || status.Code != code {
				t.Errorf("exit %d: %+v", code, status)
			}
		}
		_, _, status := harness.Run(t, s, "kill -TERM $$", nil)
		if status.Reason != podapi.Signalled || status.Signal != 15 || status.Code != 143 {
			t.Errorf("killed by TERM: %+v", status)
		}
	})
}

func TestExecKeepsStreamsApart(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		out, errOut, _ := harness.Run(t, s, "echo out; echo err >&2", nil)
		if out != "out\n" || errOut != "err\n" {
			t.Errorf("stdout %q, stderr %q", out, errOut)
		}
	})
}

func TestExecOutputOf100MBIsCompleteAndInOrder(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		const lines = "13000000" // a little over 100 MB
		cmd := s.Command(t.Context(), "seq", lines)
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		got, n := harness.SHA(t, pipe)
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		want := exec.Command("seq", lines)
		out, err := want.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := want.Start(); err != nil {
			t.Fatal(err)
		}
		defer want.Wait()
		if wantSum, wantN := harness.SHA(t, out); got != wantSum || n != wantN {
			t.Errorf("%d bytes with SHA-256 %s, want %d with %s", n, got, wantN, wantSum)
		}
		if status := cmd.Process.Status(); status.Stdout != n || status.Omitted != 0 {
			t.Errorf("the status says %+v of %d bytes", status, n)
		}
	})
}

func Test500ExecsAtOnce(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() {
				want := fmt.Sprint(i)
				out, err := s.Command(t.Context(), "sh", "-c", fmt.Sprintf("echo %d; exit %d", i, i%256)).Output()
				code := 0
				if exit := (*podapi.ExitError)(nil); errors.As(err, &exit) {
					code = exit.Code
				} else if err != nil {
					t.Error(err)
				}
				if strings.TrimSpace(string(out)) != want || code != i%256 {
					t.Errorf("exec %d: %q, code %d", i, out, code)
				}
			})
		}
		all.Wait()
	})
}

func TestExecEnvironmentAndWorkdir(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		harness.Put(t, s, "sub/file", "")
		cmd := s.Command(t.Context(), "sh", "-c", `printf %s "$A-$B-$PODAGENT_LISTEN-"; ls`)
		cmd.Dir, cmd.Env = "sub", []string{"A=first", "A=a b", "B=\xff"}
		out, err := cmd.Output()
		if err != nil || string(out) != "a b-\xff--file\n" {
			t.Errorf("%q, %v", out, err)
		}
		cmd = s.Command(t.Context(), "/usr/bin/env")
		cmd.ClearEnv, cmd.Env = true, []string{"ONLY=this"}
		out, err = cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for v := range strings.Lines(string(out)) {
			// The markers are always set.
			if v != "ONLY=this\n" && !strings.HasPrefix(v, "PODAGENT_EXEC_ID=") && !strings.HasPrefix(v, "PODAGENT_SANDBOX=") {
				t.Errorf("a clear environment has %q", v)
			}
		}
	})
}

func TestExecOfMissingProgram(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		harness.Put(t, s, "plain", "no program")
		for _, test := range []struct {
			name, dir string
			op        string
			want      error
		}{
			{"no-such-command", "", "exec", fs.ErrNotExist},
			{"./plain", "", "exec", fs.ErrPermission},
			{"true", "no/such/dir", "chdir", fs.ErrNotExist},
			{"true", "plain", "chdir", syscall.ENOTDIR},
		} {
			cmd := s.Command(t.Context(), test.name)
			cmd.Dir = test.dir
			err := cmd.Run()
			var pathErr *fs.PathError
			if !errors.As(err, &pathErr) || pathErr.Op != test.op || !errors.Is(err, test.want) {
				t.Errorf("%s in %q: %v, want %s: %v", test.name, test.dir, err, test.op, test.want)
			}
		}
	})
}

func TestExecWithoutStdinReadsNothing(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		out, err := s.Command(t.Context(), "cat").Output()
		if err != nil || len(out) != 0 {
			t.Errorf("%q, %v", out, err)
		}
	})
}

func TestExecReportsStdinThatFails(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		broken := errors.New("the disk of the caller")
		cmd := s.Command(t.Context(), "cat")
		cmd.Stdin = io.MultiReader(strings.NewReader("half"), failing{broken})
		out, err := cmd.Output()
		if !errors.Is(err, broken) || string(out) != "half" {
			t.Errorf("%q, %v", out, err)
		}
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestOutputErrorCarriesHeadAndTailOfStderr(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		_, err := s.Shell(t.Context(), `echo first >&2; seq 100000 >&2; echo last >&2; exit 1`).Output()
		var exit *podapi.ExitError
		if !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(exit.Stderr, []byte("first\n")) || !bytes.HasSuffix(exit.Stderr, []byte("last\n")) || !bytes.Contains(exit.Stderr, []byte("... omitting")) {
			t.Errorf("stderr is %d bytes: %.40q … %q", len(exit.Stderr), exit.Stderr, exit.Stderr[max(0, len(exit.Stderr)-40):])
		}
	})
}

func TestProcessRunsOnWithoutItsCaller(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		first, err := l.Launch(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Open(t.Context(), spec.ID)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		cmd := first.Shell(t.Context(), "read line")
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		first.Close()
		if err := cmd.Wait(); err == nil {
			t.Error("Wait succeeded although the connection is gone")
		}
		list, err := s.Processes(t.Context())
		if err != nil || len(list) != 1 || list[0].ID != cmd.ID || list[0].Status != nil {
			t.Errorf("the process did not continue: %+v, %v", list, err)
		}
		if err := s.Forget(t.Context(), cmd.ID); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("Forget of a running process: %v", err)
		}
		if err := s.Signal(t.Context(), cmd.ID, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
}

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestTwoOutputPipesAreReadOneAfterTheOther(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		cmd := s.Shell(t.Context(), "head -c 60000 /dev/zero >&2; echo out")
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(stdout)
		if err != nil || string(out) != "out\n" {
			t.Errorf("stdout: %q, %v", out, err)
		}
		if n, err := io.Copy(io.Discard, stderr); n != 60000 || err != nil {
			t.Errorf("stderr: %d bytes, %v", n, err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestExecOneWriterForBothOutputsIsNotWrittenToAtOnce(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		out, err := s.Shell(t.Context(), "for i in $(seq 200); do echo o; echo e >&2; done").CombinedOutput()
		if err != nil || len(out) != 800 {
			t.Errorf("%d bytes, %v", len(out), err)
		}
	})
}

func TestListOfProcessesWithLargeScripts(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		const large = 2 << 20
		for range 5 {
			if _, _, status := harness.Run(t, s, "# "+strings.Repeat("x", large), nil); !status.Success() {
				t.Fatal(status)
			}
		}
		list, err := s.Processes(t.Context())
		if err != nil || len(list) != 5 {
			t.Fatalf("%d processes, %v", len(list), err)
		}
		if p := list[0]; int64(len(p.Script))+p.CommandCut != large+2 || !strings.HasPrefix(p.Script, "# xx") {
			t.Errorf("%d bytes of the script, %d left out", len(p.Script), p.CommandCut)
		}
	})
}
