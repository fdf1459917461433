package proc

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/journal"
)

func BenchmarkTrue(b *testing.B) {
	m := newManager(b)
	for b.Loop() {
		readToEnd(b, start(b, m, argv(b, "/bin/true")))
	}
}

// BenchmarkTrueStartProcess is the floor: no output, no journal.
func BenchmarkTrueStartProcess(b *testing.B) {
	for b.Loop() {
		p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{Env: []string{testPath}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFullJournals runs commands while the journals of others are full, and
// while there are no others. The commands print nothing, a line, or more than fits
// without taking room from others.
func BenchmarkFullJournals(b *testing.B) {
	disk := journal.DefaultLimits().Disk
	for _, script := range []string{"", "echo line", "head -c 300000 /dev/zero"} {
		for name, full := range map[string]int{"empty": 0, "full": disk.Total / disk.Process} {
			b.Run(name+"/"+script, func(b *testing.B) {
				m := newDiskManager(b)
				for range full {
					readToEnd(b, start(b, m, argv(b, "head", "-c", "100M", "/dev/zero")))
				}
				for b.Loop() {
					readToEnd(b, start(b, m, shell(b, script)))
				}
				_, used := m.budget.Used()
				b.ReportMetric(float64(used)/(1<<20), "MiB")
			})
		}
	}
}

func readToEnd(b *testing.B, p *Process) {
	for _, err := range p.Attach(context.Background(), AttachOptions{}) {
		if err != nil {
			b.Fatal(err)
		}
	}
}

const benchOutput = 256 << 20

var benchScript = []string{"head", "-c", "268435456", "/dev/zero"}

// BenchmarkOutput copies output through a journal to a reader.
func BenchmarkOutput(b *testing.B) {
	for name, newManager := range map[string]makeManager{"memory": newManager, "disk": newDiskManager} {
		b.Run(name, func(b *testing.B) {
			m := newManager(b)
			b.SetBytes(benchOutput)
			for b.Loop() {
				readToEnd(b, start(b, m, argv(b, benchScript...)))
			}
		})
	}
}

// BenchmarkOutputPipe copies the same output through a plain pipe.
func BenchmarkOutputPipe(b *testing.B) {
	b.SetBytes(benchOutput)
	for b.Loop() {
		r, w, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		p, err := os.StartProcess("/usr/bin/head", benchScript, &os.ProcAttr{Files: []*os.File{nil, w}})
		w.Close()
		if err != nil {
			b.Fatal(err)
		}
		io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, journal.ChunkSize))
		r.Close()
		p.Wait()
	}
}
