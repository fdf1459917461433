package proc

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkTrueSideBySide runs /bin/true in three ways in turn, so that other load
// affects all of them, and reports the medians. The ways are os.StartProcess
// without a pipe, which is the floor; os/exec with two pipes; and a manager that is
// not alone in its process.
func BenchmarkTrueSideBySide(b *testing.B) {
	m := newManager(b)
	ways := []struct {
		name string
		run  func(testing.TB) error
	}{
		{"floor", runFloor},
		{"os/exec", runExec},
		{"proc", func(b testing.TB) error { return runProc(b, m) }},
	}
	took := make([][]time.Duration, len(ways))
	for b.Loop() {
		for i, way := range ways {
			begun := time.Now()
			if err := way.run(b); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(begun))
		}
	}
	floor := median(took[0])
	for i, way := range ways {
		b.ReportMetric(median(took[i])/1e3, way.name+"-µs")
		b.ReportMetric(median(took[i])/floor, way.name+"/floor")
	}
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
