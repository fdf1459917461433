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
)

// journalHolders are the commands whose output together is all that an agent
// keeps, 1 GiB.
const journalHolders = 16

// BenchmarkCalls measures calls that carry next to nothing, through the API server.
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
	// More than one in a turn, since the node is at work for a while after the others.
	compare(b, "calls", "exec true", 20,
		side{name: "podagent", times: 10, do: p.run(b, "true")},
		side{name: "sandboxd", times: 10, do: d.run(b, "true")},
		side{name: "client-go exec", do: p.exec(b, io.Discard, "true")},
		side{name: "kubectl exec", do: p.kubectl(b, "exec", p.PodName(), "--", "true")},
	).want("sandboxd", 1/0.7).want("client-go exec", 30).want("kubectl exec", 60)
	floor := vforkFloor(b)
	exec := func(what string) {
		r := compare(b, "calls", what, 300,
			side{name: "podagent", do: p.run(b, "true")},
			side{name: "vfork, exec and wait, in C, here", timed: floor},
			side{name: "raw port-forward, 64 bytes", do: raw.echo},
			side{name: "gRPC alone that runs it", do: bare.runTrue(b)},
		)
		r.limit("1.5 × vfork + raw", 1.5*r.Peers[0].Median+r.Peers[1].Median)
	}
	exec("exec true, one after another")
	for range journalHolders {
		if err := p.Shell(b.Context(), "head -c 64M /dev/zero").Run(); err != nil {
			b.Fatal(err)
		}
	}
	if kept := p.kept(b); kept < 0.9 {
		b.Fatalf("%.2f GiB of output are kept", kept)
	}
	exec("exec true beside 1 GiB of kept output")
}

// kept returns how much output the agent keeps, in GiB.
func (p *pod) kept(b *testing.B) float64 {
	b.Helper()
	list, err := p.Processes(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var sum int64
	for _, process := range list {
		sum += process.StdoutKept + process.StderrKept
	}
	return float64(sum) / (1 << 30)
}

// vforkFloor returns what runs true in the least time that the system takes for
// it: a program in C, which says how long it was.
func vforkFloor(b *testing.B) func() (time.Duration, error) {
	b.Helper()
	program := filepath.Join(b.TempDir(), "vfork")
	if out, err := exec.Command("gcc", "-O2", "-static", "-o", program, "testdata/vfork.c").CombinedOutput(); err != nil {
		b.Fatalf("gcc: %v\n%s", err, out)
	}
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	return func() (took time.Duration, err error) {
		if _, err := in.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		_, err = fmt.Fscanln(out, &took)
		return took, err
	}
}
