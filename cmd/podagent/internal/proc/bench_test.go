package proc

import (
	"context"
	"io"
	"os"
	"testing"
)

func BenchmarkTrue(b *testing.B) {
	m := newManager(b)
	for b.Loop() {
		p := start(b, m, argv(b, "/bin/true"))
		for _, err := range p.Attach(context.Background(), 0, 0) {
			if err != nil {
				b.Fatal(err)
			}
		}
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

const benchOutput = 256 << 20

var benchScript = []string{"head", "-c", "268435456", "/dev/zero"}

func BenchmarkOutput(b *testing.B) {
	m := newManager(b)
	b.SetBytes(benchOutput)
	for b.Loop() {
		p := start(b, m, argv(b, benchScript...))
		for _, err := range p.Attach(context.Background(), 0, 0) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkOutputPipe is what the same output takes through a plain pipe.
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
		io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, chunkSize))
		r.Close()
		p.Wait()
	}
}
