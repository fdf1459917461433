package proc

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/confine"
)

// BenchmarkTrueSideBySide runs /bin/true in five ways in turn, so that other load
// affects all of them, and reports the medians. The ways are os.StartProcess
// without a pipe, which is the floor; os/exec with two pipes; and managers that are
// not alone in their process: one without boundary and marks, one with both, and one whose
// boundary also has a fence.
//
// It also reports the medians of the differences between a manager and the next, each of a
// pair of starts right after each other. Every other round goes backwards, so that neither
// is always first.
func BenchmarkTrueSideBySide(b *testing.B) {
	plain, m := newManagerOn(b, nil), newManager(b)
	plain.proc.marks.step = 0 // it gives out no marks
	fenced := newManagerOn(b, fencedThread(b))
	ways := []struct {
		name string
		run  func(testing.TB) error
	}{
		{"floor", runFloor},
		{"os/exec", runExec},
		{"plain", func(b testing.TB) error { return runProc(b, plain) }},
		{"proc", func(b testing.TB) error { return runProc(b, m) }},
		{"fenced", func(b testing.TB) error { return runProc(b, fenced) }},
	}
	took := make([][]time.Duration, len(ways))
	var bounded, fencing []time.Duration
	for round := 0; b.Loop(); round++ {
		for i := range ways {
			if round%2 == 1 {
				i = len(ways) - 1 - i
			}
			begun := time.Now()
			if err := ways[i].run(b); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(begun))
		}
		bounded = append(bounded, took[3][round]-took[2][round])
		fencing = append(fencing, took[4][round]-took[3][round])
	}
	b.ReportMetric(median(bounded)/1e3, "proc-plain-µs")
	b.ReportMetric(median(fencing)/1e3, "fenced-proc-µs")
	floor := median(took[0])
	for i, way := range ways {
		b.ReportMetric(median(took[i])/1e3, way.name+"-µs")
		b.ReportMetric(median(took[i])/floor, way.name+"/floor")
	}
}

// fencedThread is a thread with a fence.
func fencedThread(b *testing.B) *confine.Thread {
	b.Helper()
	thread, missing, err := confine.Start(confine.Auto, &confine.Fence{Ports: []uint16{1}}, nil)
	if err != nil || !thread.Has(confine.Network) {
		b.Fatal(missing, err)
	}
	return thread
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2])
}

func runFloor(testing.TB) error {
	p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{Env: []string{testPath}})
	if err == nil {
		_, err = p.Wait()
	}
	return err
}

func runExec(testing.TB) error {
	cmd := exec.Command("/bin/true")
	cmd.Env = []string{testPath}
	var out [2]nothing
	cmd.Stdout, cmd.Stderr = &out[0], &out[1]
	return cmd.Run()
}

// nothing is a writer that keeps nothing. It is not a file, so os/exec makes a
// pipe.
type nothing int

func (n *nothing) Write(b []byte) (int, error) {
	*n += nothing(len(b))
	return len(b), nil
}

func runProc(b testing.TB, m *Manager) error {
	p := start(b, m, argv(b, "/bin/true"))
	for _, err := range p.Attach(context.Background(), AttachOptions{}) {
		if err != nil {
			return err
		}
	}
	return nil
}
