//go:build !race

package confine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// levelEnv names a level for which this program starts a thread, instead of the tests, and
// fenceEnv asks for a fence.
const (
	levelEnv = "PODAGENT_TEST_LEVEL"
	fenceEnv = "PODAGENT_TEST_FENCE"
)

func TestMain(m *testing.M) {
	level, ok := os.LookupEnv(levelEnv)
	if !ok {
		os.Exit(m.Run())
	}
	var fence *Fence
	if os.Getenv(fenceEnv) != "" {
		fence = &Fence{Ports: []uint16{1}}
	}
	thread, missing, err := Start(Level(level), fence, nil)
	fmt.Println(thread.Parts().Names(), errors.Is(err, ErrUnavailable))
	if fence != nil {
		fmt.Println(missing)
	}
}

// start starts a confined thread, and fails the test if a part of the boundary is missing
// on a kernel that has it.
func start(t *testing.T) *Thread {
	t.Helper()
	needsScopes(t)
	thread, missing, err := Start(Auto, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if missing != nil {
		t.Fatalf("the kernel cannot do everything, so this cannot be tested here: %v", missing)
	}
	return thread
}

// needsScopes fails the test on kernels without Landlock's scopes.
func needsScopes(t *testing.T) {
	t.Helper()
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi < 6 {
		t.Fatalf("this needs Linux 6.12 with Landlock: its version is %d (%v)", abi, errno)
	}
}

// output runs a command on a thread, to its end.
func output(t *testing.T, thread *Thread, name string, args ...string) (string, error) {
	t.Helper()
	return outputOf(thread, exec.CommandContext(t.Context(), name, args...))
}

// outputOf is output for a command that the test has made.
func outputOf(thread *Thread, cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var err error
	thread.Do(func() { err = cmd.Start() })
	if err == nil {
		err = cmd.Wait()
	}
	return out.String(), err
}

// compile compiles a program of testdata.
func compile(t *testing.T, source string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("cc", "-Wall", "-Werror", "-o", program, filepath.Join("testdata", source)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// refused are the calls of testdata/calls.c that a confined program cannot make, with their
// errors. It can make all others.
var refused = map[string]string{
	"prlimit64 of another":                "EPERM",
	"prlimit64 of another, wide":          "EPERM",
	"setpriority of another":              "EPERM",
	"setpriority of another, wide":        "EPERM",
	"setpriority of a user":               "EPERM",
	"setpriority of a user, wide":         "EPERM",
	"sched_setscheduler of another":       "EPERM",
	"sched_setparam of another":           "EPERM",
	"sched_setattr of another":            "EPERM",
	"ioprio_set of another":               "EPERM",
	"ioprio_set of a user":                "EPERM",
	"unshare of the user namespace":       "EPERM",
	"unshare of the user namespace, wide": "EPERM",
	"clone of the user namespace":         "EPERM",
	"clone of the user namespace, wide":   "EPERM",
	"clone as a sibling":                  "EPERM",
	"clone as a sibling, wide":            "EPERM",
	"clone3":                              "ENOSYS",
	"bpf":                                 "EPERM",
	"io_uring_setup":                      "EPERM",
	"io_uring_enter":                      "EPERM",
	"io_uring_register":                   "EPERM",
	"keyctl":                              "EPERM",
	"add_key":                             "EPERM",
	"request_key":                         "EPERM",
	"userfaultfd":                         "EPERM",
	"syslog":                              "EPERM",
	"netlink of sockets":                  "EPROTONOSUPPORT",
	"netlink of sockets, wide":            "EPROTONOSUPPORT",
	"netlink of generic families":         "EPROTONOSUPPORT",
	"vsock":                               "EAFNOSUPPORT",
	"vsock, wide":                         "EAFNOSUPPORT",
	"prctl of the memory's layout":        "EPERM",
	"prctl of the memory's layout, wide":  "EPERM",
	"kill of the thread":                  "EPERM",
	"tkill of the thread":                 "EPERM",
	"tgkill of the thread":                "EPERM",
	"rt_sigqueueinfo of the thread":       "EPERM",
	"rt_tgsigqueueinfo of the thread":     "EPERM",
	"pidfd_open of the thread":            "EPERM",
	"fcntl for the thread":                "EPERM",
	"F_SETOWN for the thread":             "EPERM",
	"F_SETOWN for the thread, wide":       "EPERM",
	"F_SETLEASE":                          "EINVAL",
	"F_SETLEASE, wide":                    "EINVAL",
	"FIOSETOWN for the thread":            "EPERM",
	"SIOCSPGRP for the thread":            "EPERM",
	"SIOCSPGRP for the thread, wide":      "EPERM",
	"TIOCSTI":                             "EPERM",
	"TIOCSTI, wide":                       "EPERM",
	"pidfd_send_signal":                   "ENOSYS",
	"getpid of x32":                       "ENOSYS",
	"getpid of i386":                      "ENOSYS",
}

// Each call that is refused behaves differently without the filter, unless this kernel has
// no such call.
func TestFilterRefusesWhatItShouldAndNothingElse(t *testing.T) {
	calls := compile(t, "calls.c")
	confinedThread := start(t)
	var tid int
	confinedThread.Do(func() { tid = unix.Gettid() })
	results := func(thread *Thread) map[string]string {
		out, err := output(t, thread, calls, strconv.Itoa(os.Getpid()), strconv.Itoa(tid))
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got := map[string]string{}
		for line := range strings.Lines(out) {
			name, result, _ := strings.Cut(strings.TrimSpace(line), ": ")
			got[name] = result
		}
		return got
	}
	free, confined := results(nil), results(confinedThread)
	for name, got := range confined {
		want, isRefused := refused[name]
		if !isRefused {
			want = "ok"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if isRefused && free[name] == want && want != "ENOSYS" {
			t.Errorf("%s: also %s without the filter", name, want)
		}
		if !isRefused && free[name] != "ok" {
			t.Errorf("%s: %s without the filter", name, free[name])
		}
	}
	for name := range refused {
		if confined[name] == "" && (runtime.GOARCH == "amd64" || !strings.HasPrefix(name, "getpid")) {
			t.Errorf("%s was not tried", name)
		}
	}
}

func TestFilterAloneKeepsSignalsToTheNumberOfTheProgram(t *testing.T) {
	thread, err := startThread(boundary{parts: NoNewPrivs | Filter})
	if err != nil {
		t.Fatal(err)
	}
	// Signal 0 only asks whether it might.
	script := fmt.Sprintf("kill -0 %d", os.Getpid())
	if out, err := output(t, thread, "sh", "-c", script); err == nil || !strings.Contains(out, "not permitted") {
		t.Errorf("confined: %v, %s", err, out)
	}
	if out, err := output(t, nil, "sh", "-c", script); err != nil {
		t.Errorf("without a boundary: %v, %s", err, out)
	}
	if out, err := output(t, thread, "sh", "-c", "sleep 300 >/dev/null 2>&1 & kill $! || exit 1; wait; :"); err != nil {
		t.Errorf("another process: %v, %s", err, out)
	}
}

// The program has two numbers by which a file's signals could reach it: the main thread's,
// which is outside of the domain, and the confined thread's, which is in it.
func TestFilesOfConfinedProgramsSignalNobodyElse(t *testing.T) {
	owner := compile(t, "owner.c")
	thread := start(t)
	var tid int
	thread.Do(func() { tid = unix.Gettid() })
	got := make(chan os.Signal, 1)
	signal.Notify(got, unix.SIGUSR2)
	defer signal.Stop(got)
	numbers := map[string]int{"the process": os.Getpid(), "the thread": tid}
	for name, number := range numbers {
		out, err := output(t, thread, owner, strconv.Itoa(number))
		awaitSignals(t)
		if len(got) > 0 {
			t.Fatalf("%s got a signal (%v): %s", name, err, out)
		}
	}
	for name, number := range numbers { // last, since a signal may come late
		if out, err := output(t, nil, owner, strconv.Itoa(number)); err != nil || out != "" {
			t.Fatalf("%s, without a boundary: %v, %s", name, err, out)
		}
		<-got
	}
}

// awaitSignals waits until the signals are there that this process was sent before.
func awaitSignals(t *testing.T) {
	t.Helper()
	last := make(chan os.Signal, 1)
	signal.Notify(last, unix.SIGWINCH) // pending signals come by their numbers
	defer signal.Stop(last)
	if err := unix.Kill(os.Getpid(), unix.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	<-last
}

func TestOnlyTheThreadIsConfined(t *testing.T) {
	thread := start(t)
	var tid int
	thread.Do(func() { tid = unix.Gettid() })
	own := statusOf(t, fmt.Sprintf("/proc/self/task/%d/status", tid))
	if !strings.Contains(own, "NoNewPrivs:\t1") || !strings.Contains(own, "Seccomp:\t2") {
		t.Errorf("the thread is not confined:\n%s", own)
	}
	if main := statusOf(t, "/proc/self/status"); !strings.Contains(main, "NoNewPrivs:\t0") {
		t.Errorf("the main thread is confined:\n%s", main)
	}
	if out, err := output(t, nil, "grep", "-c", "NoNewPrivs:\t0", "/proc/self/status"); err != nil {
		t.Errorf("what another thread starts is confined, too: %v %s", err, out)
	}
	out, err := output(t, thread, "grep", "-E", "^(NoNewPrivs|Seccomp):", "/proc/self/status")
	if err != nil || out != "NoNewPrivs:\t1\nSeccomp:\t2\n" {
		t.Errorf("what the thread starts has %q, %v", out, err)
	}
}

func statusOf(t *testing.T, path string) string {
	t.Helper()
	status, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(status)
}

func TestThreadIsNotTheMainOneEvenIfThatIsFree(t *testing.T) {
	for range 20 {
		thread := start(t)
		var tid int
		thread.Do(func() { tid = unix.Gettid() })
		if tid == os.Getpid() {
			t.Fatal("it is the main thread")
		}
	}
}

func TestLevelsTakeAllPartsThatTheKernelOffers(t *testing.T) {
	needsScopes(t)
	for _, level := range []Level{Auto, RequireFilter, RequireDomain, ""} {
		thread, missing, err := Start(level, nil, nil)
		if err != nil || missing != nil || !thread.Has(NoNewPrivs|Filter|Domain|Signals) {
			t.Errorf("%q: %v, %v, %v", level, thread.Parts().Names(), missing, err)
		}
	}
	if thread, missing, err := Start(Off, nil, nil); thread != nil || missing != nil || err != nil {
		t.Errorf("off: %v, %v, %v", thread, missing, err)
	}
	if _, err := ParseLevel("some"); err == nil {
		t.Error("some is a level")
	}
}

// A level that requires something fails where the kernel does not offer it.
func TestLevelsFailClosed(t *testing.T) {
	needsScopes(t)
	for _, test := range []struct {
		without []uint32
		level   Level
		want    string
	}{
		{[]uint32{unix.SYS_SECCOMP}, Auto, "[no-new-privileges landlock-domain signal-scope] false"},
		{[]uint32{unix.SYS_SECCOMP}, RequireFilter, "[] true"},
		{[]uint32{unix.SYS_LANDLOCK_RESTRICT_SELF}, Auto, "[no-new-privileges syscall-filter] false"},
		{[]uint32{unix.SYS_LANDLOCK_RESTRICT_SELF}, RequireFilter, "[no-new-privileges syscall-filter] false"},
		{[]uint32{unix.SYS_LANDLOCK_RESTRICT_SELF}, RequireDomain, "[] true"},
		{[]uint32{unix.SYS_SECCOMP, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_PRCTL}, Auto, "[] false"},
		{[]uint32{unix.SYS_PRCTL}, RequireFilter, "[] true"},
	} {
		var lacks []rule
		for _, number := range test.without {
			lacks = append(lacks, always(number, missing))
		}
		out, err := outputBehind(t, lacks, levelEnv+"="+string(test.level))
		if got := strings.TrimSpace(out); got != test.want || err != nil {
			t.Errorf("without system calls %v, level %s: %s, %v, want %s", test.without, test.level, got, err, test.want)
		}
	}
}

// outputBehind runs this program with variables, behind a filter of its own.
func outputBehind(t *testing.T, rules []rule, env ...string) (out string, err error) {
	t.Helper()
	over := make(chan struct{})
	onThread(func() {
		defer close(over)
		if err = errors.Join(noNewPrivs(), loadFilter(rules)); err == nil {
			out, err = output(t, nil, "env", append(env, os.Args[0])...)
		}
	})
	<-over
	return out, err
}
