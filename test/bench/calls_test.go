package bench

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// journalHolders is the number of commands whose output together is all that an
// agent keeps, 1 GiB.
const journalHolders = 16

// BenchmarkCalls measures calls with little data, through the API server.
func BenchmarkCalls(b *testing.B) {
	p := launch(b)
	d := p.startSandboxd(b)
	raw := p.forwardRaw(b, p.startEcho(b)).startEchoing(b)
	const small = 4 << 10
	data, inPod := random(small), path.Join(p.Workdir, "small")
	bare := p.bareForwarded(b)
	alone := side{name: "gRPC alone, 64 bytes", do: bare.call(b)}

	compare(b, "calls", "stat", 1000,
		side{name: "podagent", do: p.stat(b)},
		side{name: "raw port-forward, 64 bytes", do: raw.echo},
		alone,
	).want("raw port-forward, 64 bytes", 1)
	compare(b, "calls", "write 4 KiB, to the disk", 20,
		side{name: "podagent", times: 10, do: p.writeSynced(b, "small", data)},
		side{name: "sandboxd", times: 10, do: d.write(b, "small", data)},
	)
	compare(b, "calls", "write 4 KiB", 20,
		side{name: "podagent", times: 10, do: p.write(b, "small", data)},
		side{name: "base64 through client-go exec", do: p.writeByBase64(b, inPod, data)},
	)
	compare(b, "calls", "read 4 KiB", 20,
		side{name: "podagent", times: 10, do: p.read(b, "small", small)},
		side{name: "sandboxd", times: 10, do: d.read(b, "small", small)},
		side{name: "base64 through client-go exec", do: p.readByBase64(b, inPod, small)},
	)
	// There are several in a turn, because the node stays busy for a while after
	// the others.
	compare(b, "calls", "exec true", 20,
		side{name: "podagent", times: 10, do: p.run(b, "true")},
		side{name: "sandboxd", times: 10, do: d.run(b, "true")},
		side{name: "client-go exec", do: p.exec(b, io.Discard, "true")},
		side{name: "kubectl exec", do: p.kubectl(b, "exec", p.PodName(), "--", "true")},
	).want("sandboxd", 1/0.7).want("client-go exec", 30).want("kubectl exec", 60)
	here, there := p.vforkFloor(b)
	exec := func(what string) {
		r := compare(b, "calls", what, 300,
			side{name: "podagent", do: p.run(b, "true")},
			side{name: "vfork, exec and wait, in C, in the sandbox", timed: there},
			side{name: "raw port-forward, 64 bytes", do: raw.echo},
			side{name: "gRPC alone that runs it", do: bare.runTrue(b)},
			side{name: "vfork, exec and wait, in C, on this machine", timed: here},
		)
		r.limit("1.5 × vfork + raw", 1.5*r.Peers[0].Median+r.Peers[1].Median)
	}
	exec("exec true, one after another")
	fillJournals(b, p.Sandbox)
	exec("exec true beside 1 GiB of kept output")
}

// fillJournals makes an agent keep as much output as it may.
func fillJournals(b *testing.B, s *launcher.Sandbox) {
	b.Helper()
	for range journalHolders {
		if err := s.Shell(b.Context(), "head -c 64M /dev/zero").Run(); err != nil {
			b.Fatal(err)
		}
	}
	list, err := s.Processes(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var kept int64
	for _, process := range list {
		kept += process.StdoutKept + process.StderrKept
	}
	if kept < 900<<20 {
		b.Fatalf("only %d bytes of output are kept", kept)
	}
}

// vforkFloor returns functions that run true in the least time that the system
// allows, here and in the sandbox. They use a C program, which measures the time
// itself.
func (p *pod) vforkFloor(b *testing.B) (here, there func() (time.Duration, error)) {
	b.Helper()
	program := filepath.Join(b.TempDir(), "vfork")
	if out, err := exec.Command("gcc", "-O2", "-static", "-o", program, "testdata/vfork.c").CombinedOutput(); err != nil {
		b.Fatalf("gcc: %v\n%s", err, out)
	}
	p.put(b, "vfork", program)
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	here = timedLines(b, cmd.StdinPipe, cmd.StdoutPipe, cmd.Start, cmd.Wait)
	inPod := p.Command(b.Context(), "./vfork")
	return here, timedLines(b, inPod.StdinPipe, inPod.StdoutPipe, inPod.Start, inPod.Wait)
}

// timedLines starts a command and returns a function that sends it a line. The
// command answers with the nanoseconds that it took.
func timedLines[R io.Reader](b *testing.B, stdin func() (io.WriteCloser, error), stdout func() (R, error), start, wait func() error) func() (time.Duration, error) {
	b.Helper()
	in, err := stdin()
	if err != nil {
		b.Fatal(err)
	}
	out, err := stdout()
	if err == nil {
		err = start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); _ = wait() })
	return func() (took time.Duration, err error) {
		if _, err := in.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		_, err = fmt.Fscanln(out, &took)
		return took, err
	}
}
