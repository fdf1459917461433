package spawn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// run runs a script with the descriptor of a pipe as its output.
func run(t *testing.T, script string, attr Attr) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if attr.Files == nil {
		attr.Files = []int{-1, int(w.Fd()), int(w.Fd())}
	}
	attr.Dir = "/"
	p, err := Start("/bin/sh", []string{"sh", "-c", script}, &attr)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(p.PidFD)
	w.Close()
	var out strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		if n == 0 || err != nil {
			break
		}
		out.Write(buf[:n])
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.Pid, &status, 0, nil); err != nil || status != 0 {
		t.Errorf("%q ended with %d, %v", script, status, err)
	}
	return strings.TrimSpace(out.String())
}

// A program gets the limit of open files that this one was started with, not the one to
// which Go raised it. [syscall.ForkExec] knows it, too.
func TestLimitOfOpenFilesIsTheOneFromBefore(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "ulimit -Sn; ulimit -Hn"}, &os.ProcAttr{Files: []*os.File{nil, w}})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, _ := r.Read(buf)
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	want := strings.TrimSpace(string(buf[:n]))
	if got := run(t, "ulimit -Sn; ulimit -Hn", Attr{}); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProcessHasItsLimitsAndLeadsASession(t *testing.T) {
	limits := []Limit{
		{Resource: unix.RLIMIT_CORE, Rlimit: unix.Rlimit{Cur: 512, Max: 1024}},
		{Resource: unix.RLIMIT_NOFILE, Rlimit: unix.Rlimit{Cur: 20, Max: 30}},
	}
	got := run(t, "ulimit -Sc; ulimit -Hc; ulimit -Sn; ulimit -Hn; read -r _ _ _ _ _ s _ < /proc/$$/stat; [ $s = $$ ] && echo leads", Attr{Limits: limits})
	if got != "1\n2\n20\n30\nleads" {
		t.Errorf("got %q", got)
	}
}

// The descriptors of the child name each other's places.
func TestDescriptorsThatChangePlaces(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := Start("/bin/sh", []string{"sh", "-c", "echo one; echo two >&2; echo six >&6; [ -e /proc/$$/fd/7 ] || echo closed >&2"},
		&Attr{Dir: "/", Files: []int{-1, 2, int(w.Fd()), -1, -1, -1, 1}})
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(p.PidFD)
	w.Close()
	buf := make([]byte, 4096)
	var got string
	for {
		n, err := r.Read(buf)
		if n == 0 || err != nil {
			break
		}
		got += string(buf[:n])
	}
	if _, err := syscall.Wait4(p.Pid, nil, 0, nil); err != nil {
		t.Error(err)
	}
	if got != "two\nclosed\n" {
		t.Errorf("got %q", got)
	}
}

func TestStartThatFailsSaysWhyAndLeavesNoChild(t *testing.T) {
	for _, test := range []struct {
		file, dir string
		limit     unix.Rlimit
		want      error
	}{
		{"/no/such/program", "/", unix.Rlimit{Cur: 1, Max: 1}, syscall.ENOENT},
		{"/etc/passwd", "/", unix.Rlimit{Cur: 1, Max: 1}, syscall.EACCES},
		{"/bin/true", "/no/such/directory", unix.Rlimit{Cur: 1, Max: 1}, syscall.ENOENT},
		{"/bin/true", "/", unix.Rlimit{Cur: 2, Max: 1}, syscall.EINVAL},
		{"/bin/true\x00", "/", unix.Rlimit{}, syscall.EINVAL},
	} {
		_, err := Start(test.file, []string{"it"}, &Attr{Dir: test.dir, Limits: []Limit{{Resource: unix.RLIMIT_CORE, Rlimit: test.limit}}})
		if !errors.Is(err, test.want) {
			t.Errorf("%q in %s: %v, want %v", test.file, test.dir, err, test.want)
		}
		if _, isLimit := errors.AsType[*LimitError](err); isLimit != (test.limit.Cur > test.limit.Max) {
			t.Errorf("%q: %v is about a limit: %v", test.file, err, isLimit)
		}
	}
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("a child is left: %v", err)
	}
}

// Starts go well beside collections of garbage and goroutines that are preempted.
func TestStartsBesideABusyRuntime(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	for range 4 {
		go func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
					if _ = make([]byte, 1<<16); n%1000 == 0 {
						runtime.GC()
					}
				}
			}
		}()
	}
	done := make(chan error)
	const starters, starts = 4, 50
	for range starters {
		go func() {
			for range starts {
				p, err := Start("/bin/true", []string{"true"}, &Attr{Dir: "/", Files: []int{-1, -1, -1}})
				var status syscall.WaitStatus
				if err == nil {
					unix.Close(p.PidFD)
					_, err = syscall.Wait4(p.Pid, &status, 0, nil)
				}
				if err == nil && status != 0 {
					err = errors.New("it failed")
				}
				done <- err
			}
		}()
	}
	for range starters * starts {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// The kernel raises no hard limit for a process without privileges. This test has some, so
// it asks for a soft limit above the hard one.
func TestOptionalLimitIsNoReasonToFail(t *testing.T) {
	impossible := Limit{Resource: unix.RLIMIT_LOCKS, Rlimit: unix.Rlimit{Cur: 2, Max: 1}, Optional: true}
	attr := &Attr{Dir: "/", Files: []int{-1, -1, -1}, Limits: []Limit{impossible}}
	p, err := Start("/bin/true", []string{"true"}, attr)
	if err != nil || !p.Unlimited {
		t.Fatalf("got %+v, %v", p, err)
	}
	unix.Close(p.PidFD)
	if _, err := syscall.Wait4(p.Pid, nil, 0, nil); err != nil {
		t.Error(err)
	}
	attr.Limits[0].Optional = false
	if p, err := Start("/bin/true", []string{"true"}, attr); err == nil {
		t.Errorf("started is %+v", p)
	}
}

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

// A child that is stopped before its exec is ended, and the runtime does not wait for it. A
// lease on the program's file keeps it from its exec until it is stopped.
func TestChildThatIsStoppedBeforeItsExecIsEnded(t *testing.T) {
	program := leased(t)
	result := make(chan error)
	go func() {
		p, err := Start(program, []string{"true"}, &Attr{Dir: "/", Files: []int{-1, -1, -1}})
		if err == nil {
			unix.Close(p.PidFD)
			reap(p.Pid)
		}
		result <- err
	}()
	pid := awaitChild(t)
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	collected := make(chan struct{})
	go func() {
		runtime.GC()
		close(collected)
	}()
	for range 2 {
		select {
		case err := <-result:
			if !errors.Is(err, ErrHeld) {
				t.Errorf("the start: %v", err)
			}
			result = nil
		case <-collected:
			collected = nil
		case <-time.After(hung):
			_ = unix.Kill(pid, unix.SIGKILL)
			t.Fatalf("the start has ended: %v, the collection of garbage: %v", result == nil, collected == nil)
		}
	}
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("a child is left: %v", err)
	}
}

// A child that does not get to its exec keeps no other from it, though one thread forks them,
// nor does it keep what this program closes: the end of a pipe, or a program that was written.
func TestChildThatWaitsForItsProgramHoldsUpNoOther(t *testing.T) {
	written, err := os.OpenFile(filepath.Join(t.TempDir(), "written"), os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	forks := make(chan func())
	defer close(forks)
	go func() {
		for fork := range forks {
			fork()
		}
	}()
	on := func(fork func()) {
		done := make(chan struct{})
		forks <- func() { fork(); close(done) }
		<-done
	}
	program := leased(t)
	waiting := make(chan error)
	go func() {
		_, err := Start(program, []string{"true"}, &Attr{Dir: "/", Files: []int{-1, -1, -1}, On: on})
		waiting <- err
	}()
	pid := awaitChild(t)
	if got := run(t, "echo runs", Attr{On: on}); got != "runs" {
		t.Errorf("got %q", got)
	}
	if _, err := written.WriteString("#!/bin/sh\necho written"); err != nil {
		t.Fatal(err)
	}
	written.Close()
	if got := run(t, written.Name(), Attr{On: on}); got != "written" {
		t.Errorf("the program that was written: %q", got)
	}
	w.Close()
	if err := r.SetReadDeadline(time.Now().Add(hung)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the pipe's end: %v", err)
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil { // and is ended for it
		t.Fatal(err)
	}
	if err := <-waiting; !errors.Is(err, ErrHeld) {
		t.Errorf("the start that waited: %v", err)
	}
}

// Signals that this program ignores stay ignored, and those that it handles or blocks do not.
func TestProgramHasTheSignalsOfItsParent(t *testing.T) {
	signal.Ignore(unix.SIGUSR1)
	defer signal.Reset(unix.SIGUSR1)
	signal.Notify(make(chan os.Signal, 1), unix.SIGUSR2)
	defer signal.Reset(unix.SIGUSR2)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, ignored, _ := strings.Cut(string(status), "SigIgn:\t") // who started this program may have had it ignore others
	ignored, _, _ = strings.Cut(ignored, "\n")
	if n, err := strconv.ParseUint(ignored, 16, 64); err != nil || n&(1<<(unix.SIGUSR1-1)) == 0 {
		t.Fatalf("this program ignores %q: %v", ignored, err)
	}
	got := run(t, "sed -n '/Sig[BIC]/p' /proc/self/status", Attr{})
	if want := fmt.Sprintf("SigBlk:\t%016x\nSigIgn:\t%s\nSigCgt:\t%016x", 0, ignored, 0); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// leased returns a copy of /bin/true with a lease: who opens it waits.
func leased(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, content, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal("cannot take a lease: ", err)
	}
	return name
}

// awaitChild returns the only child of this program when it sleeps.
func awaitChild(t *testing.T) int {
	t.Helper()
	self := strconv.Itoa(os.Getpid())
	for begun := time.Now(); time.Since(begun) < hung; time.Sleep(time.Millisecond) {
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, name := range stats {
			text, _ := os.ReadFile(name)
			_, rest, _ := strings.Cut(string(text), ") ")
			if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == self && fields[0] == "S" {
				pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
				return pid
			}
		}
	}
	t.Fatal("there is no child")
	return 0
}

// The kernel takes a change of oom_score_adj for one of all processes that share a memory. A
// process that Start has returned shares none with this program.
func TestStartedProcessHasAScoreOfItsOwn(t *testing.T) {
	own := func() string {
		score, err := os.ReadFile("/proc/self/oom_score_adj")
		if err != nil {
			t.Fatal(err)
		}
		return string(score)
	}
	before := own()
	stop := make(chan struct{})
	var busy, all sync.WaitGroup
	busy.Go(func() { // what makes the kernel take its time to give a child another memory
		for {
			select {
			case <-stop:
				return
			default:
			}
			if b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err == nil {
				b[0] = 1
				_ = unix.Munmap(b)
			}
		}
	})
	for range 4 {
		all.Go(func() {
			for range 100 {
				p, err := Start("/bin/true", []string{"true"}, &Attr{Dir: "/", Files: []int{-1, -1, -1}})
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.Pid), []byte("500"), 0); err != nil {
					t.Error(err)
				}
				unix.Close(p.PidFD)
				reap(p.Pid)
			}
		})
	}
	all.Wait()
	close(stop)
	busy.Wait()
	if after := own(); after != before {
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte(before), 0)
		t.Errorf("this program's oom_score_adj was %s, and is %s", before, after)
	}
}
