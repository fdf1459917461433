package spawn

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

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

func TestLimitsAndSession(t *testing.T) {
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

func TestErrors(t *testing.T) {
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
