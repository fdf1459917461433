package proc

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestExitCodeIsAResult(t *testing.T) {
	m := newManager(t)
	// timeout(1) exits with 124; here the code has no special meaning.
	for _, code := range []int{0, 7, 124, 255} {
		st := run(t, m, shell(t, fmt.Sprintf("exit %d", code))).status
		if st.Reason != Exited || st.Code != code || st.Signal != 0 || st.OutputOpen {
			t.Errorf("exit %d: got %+v", code, st)
		}
	}
}

func TestProcessKilledBySignal(t *testing.T) {
	m := newManager(t)
	st := run(t, m, shell(t, "kill -USR1 $$")).status
	if st.Reason != Signalled || st.Signal != int(syscall.SIGUSR1) || st.Code != 128+int(syscall.SIGUSR1) {
		t.Errorf("got %+v", st)
	}
}

func TestOutputsAreApart(t *testing.T) {
	r := run(t, newManager(t), shell(t, "echo hello; echo oops >&2; printf more"))
	if r.stdout.String() != "hello\nmore" || r.stderr.String() != "oops\n" {
		t.Errorf("stdout %q, stderr %q", &r.stdout, &r.stderr)
	}
	if r.status.Stdout != 10 || r.status.Stderr != 5 {
		t.Errorf("got sizes %d and %d", r.status.Stdout, r.status.Stderr)
	}
}

func TestUsageIsReported(t *testing.T) {
	st := run(t, newManager(t), shell(t, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")).status
	if st.Wall <= 0 || st.User+st.System <= 0 || st.MaxRSS < 100<<10 {
		t.Errorf("got %+v", st)
	}
}

func TestEnvironmentIsExact(t *testing.T) {
	t.Setenv("PODAGENT_TEST_SECRET", "of the agent")
	spec := argv(t, "/usr/bin/env", "-0")
	spec.Env = []string{"A=1", "B=two words\nand lines", markerEnv + "=forged", "EMPTY="}
	r := run(t, newManager(t), spec)
	got := strings.Split(strings.TrimSuffix(r.stdout.String(), "\x00"), "\x00")
	want := []string{"A=1", "B=two words\nand lines", "EMPTY=", markerEnv + "=" + spec.ID}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBytesThatAreNotUTF8(t *testing.T) {
	odd := "\xff\xfe \x80'\"$(x)\n"
	spec := argv(t, "sh", "-c", `printf %s "$1"; printf %s "$ODD" >&2`, "sh", odd)
	spec.Env = append(spec.Env, "ODD="+odd)
	r := run(t, newManager(t), spec)
	if r.stdout.String() != odd || r.stderr.String() != odd {
		t.Errorf("argument %q, environment %q", &r.stdout, &r.stderr)
	}
}

func TestDirectoryIsTheProcesss(t *testing.T) {
	dir := t.TempDir()
	spec := argv(t, "pwd")
	spec.Dir = dir
	if got := run(t, newManager(t), spec).stdout.String(); got != dir+"\n" {
		t.Errorf("got %q", got)
	}
}

func TestProcessInheritsNoDescriptor(t *testing.T) {
	// A descriptor without close-on-exec, which the agent itself may have
	// inherited.
	fd, err := syscall.Open("/etc/passwd", syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	m := newManager(t)
	other := start(t, m, Spec{ID: newID(t), Argv: []string{"cat"}, Dir: "/", Env: []string{testPath}, Stdin: true})
	r := run(t, m, shell(t, "ls /proc/$$/fd"))
	if got := strings.Fields(r.stdout.String()); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("got %v", got)
	}
	other.CloseStdin()
	finish(t, other)
}

func TestCommandIsLookedUpInTheSpecsPath(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("a/greet", "not executable", 0o644)
	write("b/greet", "#!/bin/sh\necho b $0", 0o755)
	write("greet", "#!/bin/sh\necho top", 0o755)
	if err := os.MkdirAll(filepath.Join(dir, "c/greet"), 0o755); err != nil {
		t.Fatal(err)
	}
	m := newManager(t)
	for path, want := range map[string]string{
		dir + "/a:" + dir + "/c:" + dir + "/b": "b " + dir + "/b/greet\n",
		"b":                                    "b " + dir + "/b/greet\n",
		"/nowhere::b":                          "top\n",
	} {
		spec := Spec{ID: newID(t), Argv: []string{"greet"}, Dir: dir, Env: []string{"PATH=" + path}}
		if got := run(t, m, spec).stdout.String(); got != want {
			t.Errorf("PATH=%s: got %q, want %q", path, got, want)
		}
	}
	spec := Spec{ID: newID(t), Argv: []string{"./greet"}, Dir: dir, Env: []string{}}
	if got := run(t, m, spec).stdout.String(); got != "top\n" {
		t.Errorf("a relative command: got %q", got)
	}
}

func TestStartErrorsNameTheirCause(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "data")
	if err := os.WriteFile(file, []byte("data"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := newManager(t)
	for _, c := range []struct {
		name, command, dir string
		op, path           string
		err                syscall.Errno
	}{
		{"missing command", "no-such-command", dir, "exec", "no-such-command", syscall.ENOENT},
		{"missing file", dir + "/none", dir, "exec", dir + "/none", syscall.ENOENT},
		{"not executable", file, dir, "exec", file, syscall.EACCES},
		{"a directory", dir, dir, "exec", dir, syscall.EACCES},
		{"missing directory", "true", dir + "/none", "chdir", dir + "/none", syscall.ENOENT},
		{"both missing", "no-such-command", dir + "/none", "chdir", dir + "/none", syscall.ENOENT},
		{"directory is a file", "true", file, "chdir", file, syscall.ENOTDIR},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := argv(t, c.command)
			spec.Dir = c.dir
			_, _, err := m.Start(t.Context(), spec)
			var pe *fs.PathError
			if !errors.As(err, &pe) || pe.Op != c.op || pe.Path != c.path || !errors.Is(pe.Err, c.err) {
				t.Errorf("got %#v", err)
			}
			if _, err := m.Get(t.Context(), spec.ID); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a failed start left an entry: %v", err)
			}
		})
	}
}

func TestFailedStartMayBeRepeated(t *testing.T) {
	m := newManager(t)
	spec := argv(t, filepath.Join(t.TempDir(), "late"))
	if _, _, err := m.Start(t.Context(), spec); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
	if err := os.WriteFile(spec.Argv[0], []byte("#!/bin/sh\necho here"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := run(t, m, spec).stdout.String(); got != "here\n" {
		t.Errorf("got %q", got)
	}
}

func TestFileThatIsJustBeingWrittenIsTriedAgain(t *testing.T) {
	spec := argv(t, filepath.Join(t.TempDir(), "busy"))
	f, err := os.OpenFile(spec.Argv[0], os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("#!/bin/sh\n"); err != nil {
		t.Fatal(err)
	}
	var pauses []time.Duration
	closeAfter := 0 // number of pauses; 0 keeps the file open
	m := newManager(t, func(l *limits) {
		l.busyPause = func(d time.Duration) {
			if pauses = append(pauses, d); len(pauses) == closeAfter {
				f.Close()
			}
		}
	})
	if _, _, err := m.Start(t.Context(), spec); !errors.Is(err, syscall.ETXTBSY) {
		t.Errorf("with the file open: got %v", err)
	}
	if want := []time.Duration{1e6, 2e6, 4e6, 8e6, 16e6}; !slices.Equal(pauses, want) {
		t.Errorf("paused for %v, want %v", pauses, want)
	}
	pauses, closeAfter = nil, 3
	if got := run(t, m, spec); got.status.Code != 0 || len(pauses) < closeAfter {
		t.Errorf("exit status %d after the pauses %v", got.status.Code, pauses)
	}
}

func TestInvalidSpecsAreRefused(t *testing.T) {
	m := newManager(t)
	for name, change := range map[string]func(*Spec){
		"empty id":           func(s *Spec) { s.ID = "" },
		"other uuid":         func(s *Spec) { s.ID = "6ba7b810-9dad-41d1-80b4-00c04fd430c8" },
		"upper case id":      func(s *Spec) { s.ID = strings.ToUpper(s.ID) },
		"no command":         func(s *Spec) { s.Argv = nil },
		"empty command":      func(s *Spec) { s.Argv = []string{""} },
		"command and script": func(s *Spec) { s.Script = "true" },
		"NUL in argument":    func(s *Spec) { s.Argv = []string{"true", "a\x00b"} },
		"NUL in script":      func(s *Spec) { s.Argv, s.Script = nil, "a\x00b" },
		"NUL in environment": func(s *Spec) { s.Env = []string{"A=\x00"} },
		"NUL in directory":   func(s *Spec) { s.Dir = "/\x00" },
		"relative directory": func(s *Spec) { s.Dir = "tmp" },
		"no directory":       func(s *Spec) { s.Dir = "" },
		"negative timeout":   func(s *Spec) { s.Timeout = -1 },
	} {
		spec := argv(t, "true")
		change(&spec)
		if _, _, err := m.Start(t.Context(), spec); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSameStartAttachesAndAnotherConflicts(t *testing.T) {
	m := newManager(t)
	spec := shell(t, "echo once; exit 3")
	p := start(t, m, spec)
	for range 2 {
		again, started, err := m.Start(t.Context(), spec)
		if err != nil || started || again != p {
			t.Fatalf("got %p, %v, %v", again, started, err)
		}
		finish(t, p)
	}
	for name, change := range map[string]func(*Spec){
		"argv":    func(s *Spec) { s.Argv = []string{"sh", "-c", "echo once;", " exit 3"} },
		"dir":     func(s *Spec) { s.Dir = "/tmp" },
		"env":     func(s *Spec) { s.Env = nil },
		"stdin":   func(s *Spec) { s.Stdin = true },
		"timeout": func(s *Spec) { s.Timeout = time.Hour },
	} {
		other := spec
		change(&other)
		if _, _, err := m.Start(t.Context(), other); !errors.Is(err, ErrConflict) {
			t.Errorf("another %s: got %v", name, err)
		}
	}
}

func TestDigestDecidesWhetherStartsAreEqual(t *testing.T) {
	m := newManager(t)
	spec := shell(t, "exit 3")
	spec.Digest[0] = 1
	p := start(t, m, spec)
	other := spec
	other.Env, other.Dir = append(other.Env, "DEFAULT=changed"), "/tmp"
	if again, started, err := m.Start(t.Context(), other); err != nil || started || again != p {
		t.Errorf("with other defaults: %p, %v, %v", again, started, err)
	}
	for _, digest := range [][sha256.Size]byte{{}, {2}} {
		other := spec
		other.Digest = digest
		if _, _, err := m.Start(t.Context(), other); !errors.Is(err, ErrConflict) {
			t.Errorf("with the digest %d: %v", digest[0], err)
		}
	}
	finish(t, p)
}

func TestConcurrentStartsOfOneIDRunOnce(t *testing.T) {
	m := newManager(t)
	log := filepath.Join(t.TempDir(), "log")
	spec := shell(t, "echo ran >> "+log)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			p, _, err := m.Start(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			p.Wait(testContext(t))
		})
	}
	wg.Wait()
	if b, _ := os.ReadFile(log); string(b) != "ran\n" {
		t.Errorf("got %q", b)
	}
}

func TestManyConcurrentExecs(t *testing.T) {
	m := newManager(t)
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			p, _, err := m.Start(t.Context(), shell(t, fmt.Sprintf("echo out %d; echo err %d >&2; exit %d", i, i, i%200)))
			if err != nil {
				t.Error(err)
				return
			}
			r, err := collect(testContext(t), p, 0, 0)
			if err != nil || r.status.Code != i%200 || r.stdout.String() != fmt.Sprintf("out %d\n", i) ||
				r.stderr.String() != fmt.Sprintf("err %d\n", i) {
				t.Errorf("exec %d: %v, %+v, %q, %q", i, err, r.status, &r.stdout, &r.stderr)
			}
		})
	}
	wg.Wait()
	if n := m.Running(); n != 0 {
		t.Errorf("%d still run", n)
	}
}

func TestShortScript(t *testing.T) {
	spec := Spec{ID: newID(t), Script: "echo \"$0 $#\"; exit 4", Dir: "/", Env: []string{testPath}}
	r := run(t, newManager(t), spec)
	if r.stdout.String() != "bash 0\n" || r.status.Code != 4 {
		t.Errorf("got %q, %+v", &r.stdout, r.status)
	}
}

func TestScriptOverTheArgumentLimit(t *testing.T) {
	long := "echo \"$0 ${BASH:+$LINENO}\"\n" + strings.Repeat("# a comment that makes it long\n", 200<<10/31+1) +
		"[ -e /proc/$$/fd/3 ] || echo closed; cat; exit 5"
	if len(long) < 200<<10 {
		t.Fatal(len(long))
	}
	m := newManager(t)
	for shell, first := range map[string]string{"bash": "bash 1", "sh": "sh "} {
		spec := Spec{ID: newID(t), Script: long, Dir: "/", Env: []string{testPath}}
		if shell == "sh" {
			spec.Env = []string{"PATH=" + pathWithoutBash(t)}
		}
		r := run(t, m, spec)
		if r.stdout.String() != first+"\nclosed\n" || r.status.Code != 5 {
			t.Errorf("%s: got %q, %q, %+v", shell, &r.stdout, &r.stderr, r.status)
		}
	}
}

func pathWithoutBash(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"sh", "ls", "head", "tr", "cat"} {
		if err := os.Symlink("/bin/"+name, filepath.Join(dir, name)); err != nil {
			if err := os.Symlink("/usr/bin/"+name, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func TestScriptWithoutBashIsRunBySh(t *testing.T) {
	m := newManager(t)
	spec := Spec{ID: newID(t), Script: "echo $0", Dir: "/", Env: []string{"PATH=" + pathWithoutBash(t)}}
	if got := run(t, m, spec).stdout.String(); got != "sh\n" {
		t.Errorf("got %q", got)
	}
	spec = Spec{ID: newID(t), Script: "echo $0", Dir: "/", Env: []string{"PATH=" + t.TempDir()}}
	_, _, err := m.Start(t.Context(), spec)
	if pe := (*fs.PathError)(nil); !errors.As(err, &pe) || pe.Op != "exec" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a shell: got %v", err)
	}
}

func TestGetListAndForget(t *testing.T) {
	m := newManager(t)
	first := start(t, m, Spec{ID: newID(t), Argv: []string{"cat"}, Dir: "/", Env: []string{testPath}, Stdin: true})
	second := start(t, m, shell(t, "exit 9"))
	finish(t, second)
	if p, err := m.Get(t.Context(), first.ID()); err != nil || p != first {
		t.Errorf("got %v, %v", p, err)
	}
	list := m.List()
	if len(list) != 2 || list[0].ID != first.ID() || list[0].Status != nil || list[0].PID != first.PID() ||
		list[1].ID != second.ID() || list[1].Status.Code != 9 {
		t.Errorf("got %+v", list)
	}
	if err := m.Forget(first.ID()); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("forgetting a running process: got %v", err)
	}
	if err := m.Forget(second.ID()); err != nil {
		t.Error(err)
	}
	if _, err := m.Get(t.Context(), second.ID()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := m.Forget(second.ID()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("forgetting twice: got %v", err)
	}
	if m.Running() != 1 {
		t.Errorf("%d run", m.Running())
	}
	first.CloseStdin()
	finish(t, first)
}

func TestLastActive(t *testing.T) {
	made := time.Now()
	m := newManager(t)
	before := time.Now()
	if first := m.LastActive(); first.Before(made) || first.After(before) {
		t.Errorf("before the first process: %v", first)
	}
	finish(t, start(t, m, argv(t, "true")))
	ended := m.LastActive()
	if ended.Before(before) || ended.After(time.Now()) {
		t.Errorf("got %v", ended)
	}
	if again := m.LastActive(); !again.Equal(ended) {
		t.Errorf("moved from %v to %v without a process", ended, again)
	}
}

func TestStolenStatusIsAnError(t *testing.T) {
	m := newManager(t)
	p := start(t, m, Spec{ID: newID(t), Argv: []string{"cat"}, Dir: "/", Env: []string{testPath}, Stdin: true})
	if !p.pin() {
		t.Fatal("it ended")
	}
	p.CloseStdin()
	<-p.gone
	if _, err := syscall.Wait4(p.PID(), nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	p.unpin()
	if _, err := p.Wait(testContext(t)); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("Wait: got %v", err)
	}
	if _, err := collect(testContext(t), p, 0, 0); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("Attach: got %v", err)
	}
}
