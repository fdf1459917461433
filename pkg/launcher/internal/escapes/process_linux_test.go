//go:build linux && !race

package escapes_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// outsideProcess runs testdata/outside.py.
type outsideProcess struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	where map[string]any
}

// startOutside starts the process outside.
func (e *escapee) startOutside(ctx context.Context) error {
	facts, err := json.Marshal(map[string]any{"mark": e.mark(), "signals": signals(), "sockets": e.sockets(nil)})
	if err == nil {
		err = os.WriteFile(e.path("outside.json"), facts, 0o600)
	}
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "python3", e.path("escape/outside.py"), e.path("outside.json"), e.mark())
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = e.home(), os.Stderr, &unix.SysProcAttr{Setpgid: true}
	p := &outsideProcess{cmd: cmd}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return err
	}
	e.process = p
	return p.read(&p.where)
}

func (p *outsideProcess) read(v any) error {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// arrived returns the names of tries that have reached the process since it was asked last.
func (p *outsideProcess) arrived() (names []string, err error) {
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		return nil, err
	}
	return names, p.read(&names)
}

func (p *outsideProcess) end() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// startBeside starts a process with a secret in the other sandbox.
func (e *escapee) startBeside(ctx context.Context, p *pair) error {
	n, mark := p.neighbour, e.mark()+"-beside-"+string(p.level)
	facts, err := json.Marshal(map[string]any{"mark": mark, "signals": map[string]int{}})
	if err != nil {
		return err
	}
	program, err := os.ReadFile(e.path("escape/outside.py"))
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"outside.json": facts, "outside.py": program, "secret": []byte(e.Secret)} {
		if err := n.WriteFile(ctx, name, data, 0o600); err != nil {
			return err
		}
	}
	cmd := n.Command(ctx, "sh", "-c", `[ "$HOME" = "$2" ] || cp secret "$HOME"/secret; exec python3 outside.py outside.json "$1"`, "sh", mark, e.home())
	cmd.Env = []string{"SECRET=" + e.Secret}
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &p.process)
	}
	if err == nil {
		p.process["pid"], err = pidOf(mark)
	}
	return err
}

// pidOf returns the number outside of the process that was started with a mark.
func pidOf(mark string) (int, error) {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		text, _ := os.ReadFile(path)
		if strings.HasPrefix(string(text), "python3\x00") && strings.HasSuffix(string(text), mark+"\x00") {
			var pid int
			_, err := fmt.Sscanf(path, "/proc/%d/", &pid)
			return pid, err
		}
	}
	return 0, errors.Join(err, fmt.Errorf("there is no process %s", mark))
}
