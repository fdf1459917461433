package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// program is one of the programs of the cluster.
type program struct {
	name string
	path string
	args []string
	// listens are addresses that must be free before it starts.
	listens []string
	// healthy returns nil if the program is ready to serve, and otherwise the
	// reason.
	healthy func(ctx context.Context) error
}

// records reads the recorded process of each program.
func (c *cluster) records() (map[string]process, error) {
	records := map[string]process{}
	data, err := os.ReadFile(c.Pids)
	if errors.Is(err, fs.ErrNotExist) {
		return records, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &records)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", c.Pids, err)
	}
	return records, nil
}

// record records the process of a program; the zero process means that it has
// ended.
func (c *cluster) record(name string, p process) error {
	c.recording.Lock()
	defer c.recording.Unlock()
	records, err := c.records()
	if err != nil {
		return err
	}
	records[name] = p
	if p.PID == 0 {
		delete(records, name)
	}
	return writeJSON(c.Pids, records)
}

// running finds the process of a program. If up was killed between a start and its
// record, the marker identifies the process.
func (c *cluster) running(p program) (process, bool) {
	records, err := c.records()
	if found := records[p.name]; err == nil && found.alive() {
		return found, true
	}
	for _, found := range marked(c.dir) {
		if line := commandLine(found.PID); len(line) > 0 && line[0] == p.path {
			return found, c.record(p.name, found) == nil
		}
	}
	return process{}, false
}

// spawn starts a program in a new session, so that it outlives this process, and
// records it.
func (c *cluster) spawn(p program) (process, error) {
	log, err := openLog(c.logPath(p.name))
	if err != nil {
		return process{}, err
	}
	defer log.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir = "/"
	path := os.Getenv("PATH") + ":" + c.Bin // where containerd finds gVisor's shim
	cmd.Env = []string{marker + c.dir, "PATH=" + path, "HOME=/root"}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return process{}, fmt.Errorf("cannot start %s: %w", p.name, err)
	}
	started, err := identify(cmd.Process.Pid)
	if err == nil {
		err = c.record(p.name, started)
	}
	go func() { _ = cmd.Wait() }() // it must not stay a zombie if it ends before this process
	return started, err
}

// logPath returns the path of a program's log.
func (c *cluster) logPath(name string) string { return filepath.Join(c.Logs, name+".log") }

// openLog opens a log for appending, after setting a large one aside.
func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// stop ends processes with SIGTERM, unless atOnce is set, and with SIGKILL after
// the grace. It waits for their end.
func stop(ctx context.Context, processes []process, atOnce bool) error {
	if !atOnce {
		signalAll(processes, syscall.SIGTERM)
		grace, cancel := context.WithTimeout(ctx, stopGrace)
		defer cancel()
		if ended(grace, processes) == nil {
			return nil
		}
	}
	signalAll(processes, syscall.SIGKILL)
	// This also runs if the caller gives up: once stopping has begun, its result
	// must be known.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	return ended(last, processes)
}

// signalAll sends a signal to the processes that still run.
func signalAll(processes []process, s syscall.Signal) {
	for _, p := range processes {
		if p.alive() {
			_ = syscall.Kill(p.PID, s)
		}
	}
}

// ended waits until none of the processes runs.
func ended(ctx context.Context, processes []process) error {
	left := 0
	err := until(ctx, func() (bool, error) {
		for left < len(processes) && !processes[left].alive() {
			left++
		}
		return left == len(processes), nil
	})
	if err != nil {
		p := processes[left]
		return fmt.Errorf("process %d (%s) does not end: %w", p.PID, strings.Join(commandLine(p.PID), " "), err)
	}
	return nil
}

// tail returns the end of a program's log, for an error.
func (c *cluster) tail(name string) string {
	data, err := os.ReadFile(c.logPath(name))
	if err != nil {
		return ""
	}
	return string(data[max(0, len(data)-logTail):])
}

// command runs a short command and returns its output.
func command(ctx context.Context, limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
