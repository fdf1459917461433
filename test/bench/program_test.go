package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// program is a process that answers each line of its input with a line, and ends with its
// input.
type program struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
	errors bytes.Buffer // its standard error; read it only after its end
}

func startProgram(b *testing.B, path string, args ...string) *program {
	b.Helper()
	p := &program{cmd: exec.Command(path, args...)}
	p.cmd.Stderr = &p.errors
	output, err := p.cmd.StdoutPipe()
	if err == nil {
		p.input, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	p.output = bufio.NewReader(output)
	b.Cleanup(func() {
		p.input.Close()
		_ = p.cmd.Process.Kill() // whatever it does
		_ = p.cmd.Wait()
		if b.Failed() {
			b.Logf("%s: %s", filepath.Base(path), &p.errors)
		}
	})
	return p
}

// ask returns the answer to a request.
func (p *program) ask(b *testing.B, request string) string {
	b.Helper()
	if _, err := fmt.Fprintln(p.input, request); err != nil {
		b.Fatal(err)
	}
	return p.line(b)
}

// line returns the next line that the program prints.
func (p *program) line(b *testing.B) string {
	b.Helper()
	line, err := p.output.ReadString('\n')
	if err != nil || strings.HasPrefix(line, "error: ") {
		b.Fatalf("%s printed %q: %v", filepath.Base(p.cmd.Path), line, err)
	}
	return strings.TrimSpace(line)
}

// askNumber is ask for a number.
func (p *program) askNumber(b *testing.B, request string) float64 {
	b.Helper()
	number, err := strconv.ParseFloat(p.ask(b, request), 64)
	if err != nil {
		b.Fatal(err)
	}
	return number
}

// residentMemory returns the process's resident memory in MiB: see proc_pid_status(5).
func (p *program) residentMemory(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); fields[0] == "VmRSS:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib / 1024
		}
	}
	b.Fatal("the process has no VmRSS")
	return 0
}

// The 14th and 15th fields of /proc/PID/stat are the process's time in user and kernel mode,
// in ticks: see proc_pid_stat(5). Linux has had a hundred ticks a second, for programs, since
// 2.6.
const (
	userTicks   = 14
	kernelTicks = 15
	tick        = 10 * time.Millisecond
)

// processorTime returns how much processor time the process has used.
func (p *program) processorTime(b *testing.B) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the second field may have spaces
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[userTicks-3])
	kernel, _ := strconv.Atoi(fields[kernelTicks-3])
	return time.Duration(user+kernel) * tick
}
