//go:build linux && !race

package launcher_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// hundred sandboxes begin and end by so many at once.
const (
	hundred = 100
	atOnce  = 8
)

// A hundred sandboxes run at once, and leave nothing behind.
func TestAHundredIsolatedSandboxes(t *testing.T) {
	for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		t.Run(string(level), func(t *testing.T) {
			l := launchertest.Local(t)
			l.Isolation = isolation.Mode(level)
			before := remains(t, l)
			begun := time.Now()
			all := make([]*launcher.Sandbox, hundred)
			each(func(i int) {
				s, err := l.Launch(t.Context(), launcher.Spec{ID: fmt.Sprint(i)})
				if err != nil {
					t.Error(err)
					return
				}
				all[i] = s
			})
			if t.Failed() {
				return
			}
			launched := time.Now()
			each(func(i int) {
				id := fmt.Sprint(i)
				// A child is left that nobody waits for.
				out, err := all[i].Command(t.Context(), "sh", "-c", `echo "$0" >f; sleep 1000 >/dev/null 2>&1 & cat f`, id).Output()
				if err != nil || strings.TrimSpace(string(out)) != id || all[i].Isolation.Level != level {
					t.Errorf("sandbox %s, isolated by %q: %q, %v", id, all[i].Isolation.Level, out, err)
				}
			})
			ran := time.Now()
			if run := remains(t, l); run.processes < 2*hundred {
				t.Errorf("%d processes run, %+v before", run.processes, before)
			}
			each(func(i int) {
				if err := l.Terminate(t.Context(), fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
				all[i].Close()
			})
			t.Logf("%d launches took %v, commands %v, ends %v", hundred, launched.Sub(begun), ran.Sub(launched), time.Since(ran))
			checkRemains(t, l, before)
		})
	}
}

func each(do func(int)) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range hundred {
		next <- i
	}
	close(next)
	workers.Wait()
}

// remaining is what sandboxes use: of the machine, and of this process.
type remaining struct {
	processes, mounts, sandboxes, descriptors, goroutines int
}

func remains(t *testing.T, l *launcher.Local) (r remaining) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range list {
		// The agent, which has the directory in its arguments, and its commands, which work in it.
		args, _ := os.ReadFile(dir + "/cmdline")
		cwd, _ := os.Readlink(dir + "/cwd")
		if bytes.Contains(args, []byte(l.StateDir)) || strings.HasPrefix(cwd, l.StateDir) {
			r.processes++
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	r.mounts = bytes.Count(mounts, []byte(l.StateDir))
	dirs, _ := filepath.Glob(filepath.Join(l.StateDir, "*", "*"))
	r.sandboxes = len(dirs)
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	r.descriptors, r.goroutines = len(descriptors), runtime.NumGoroutine()
	return r
}

// checkRemains waits until nothing is left but what was there before.
func checkRemains(t *testing.T, l *launcher.Local, before remaining) {
	t.Helper()
	var now remaining
	for end := time.Now().Add(hung); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		// Goroutines of the runtime and of tests before this one may end meanwhile, and a few begin.
		if now = remains(t, l); now.processes == 0 && now.mounts == 0 && now.sandboxes == 0 && now.descriptors <= before.descriptors+2 && now.goroutines <= before.goroutines+2 {
			return
		}
	}
	t.Errorf("left is %+v, before there was %+v", now, before)
	if now.goroutines > before.goroutines {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
	}
}
