package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

// A sandbox's directory is called by nameOf its id, and has these files.
const (
	recordFile = "sandbox.json"
	socketFile = "agent.sock"
	logFile    = "agent.log"
	workspace  = "workspace"
)

// record is what the launcher remembers of a sandbox.
type record struct {
	ID      string    `json:"id"`
	Workdir string    `json:"workdir"`
	Env     [][]byte  `json:"env,omitempty"` // bytes, for they need not be UTF-8
	Created time.Time `json:"created"`
}

// place is where a sandbox's state is.
type place struct {
	dir string
	record
}

func (l *Local) place(id string) (place, error) {
	state, err := l.stateDir()
	return place{dir: filepath.Join(state, nameOf(id)), record: record{ID: id}}, err
}

func (p place) path(file string) string { return filepath.Join(p.dir, file) }

// load reads the record. If there is none, the error is ErrNotFound. A place
// without an id gets that of the record.
func (p *place) load() error {
	data, err := os.ReadFile(p.path(recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotFound
	}
	if err != nil {
		return err
	}
	id := p.ID
	if err := json.Unmarshal(data, &p.record); err != nil {
		return fmt.Errorf("reading %s: %w", p.path(recordFile), err)
	}
	if id != "" && id != p.ID {
		return fmt.Errorf("%s belongs to sandbox %q", p.path(recordFile), p.ID)
	}
	return nil
}

// create makes the sandbox's directory and record. The record comes last: a
// directory without one is no sandbox, and is begun anew.
func (p *place) create(ctx context.Context, spec Spec) error {
	if err := os.RemoveAll(p.dir); err != nil {
		return err
	}
	p.record = record{ID: spec.ID, Workdir: spec.Workdir, Created: time.Now().UTC().Truncate(time.Second)}
	if p.Workdir == "" {
		p.Workdir = p.path(workspace)
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	if err := os.MkdirAll(p.Workdir, 0o755); err != nil {
		return err
	}
	return p.save(ctx, spec.Env)
}

// save writes the record with this environment.
func (p *place) save(ctx context.Context, env []string) error {
	p.Env = nil
	for _, v := range env {
		p.Env = append(p.Env, []byte(v))
	}
	data, err := json.Marshal(p.record)
	if err != nil {
		return err
	}
	w, err := fsops.New(p.dir).Create(recordFile, fsops.WriteOptions{Perm: 0o600})
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.Write(data); err != nil {
		return err
	}
	_, err = w.Commit(ctx, fsops.SumOf(data))
	return err
}

// launch makes the sandbox or finds it, under its lock.
func (l *Local) launch(ctx context.Context, spec Spec) (sandbox *Sandbox, err error) {
	p, unlock, err := l.lock(ctx, spec.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	created := false
	switch err := p.load(); {
	case errors.Is(err, ErrNotFound):
		created = true
		if err := p.create(ctx, spec); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case spec.Env != nil:
		if err := p.save(ctx, spec.Env); err != nil {
			return nil, err
		}
	}
	sandbox, err = l.connect(ctx, p, spec.Env != nil)
	if err != nil {
		if created {
			err = errors.Join(err, l.remove(context.WithoutCancel(ctx), p))
		}
		return nil, err
	}
	sandbox.Created = created
	return sandbox, nil
}

func (l *Local) open(ctx context.Context, id string) (*Sandbox, error) {
	p, err := l.place(id)
	if err != nil {
		return nil, err
	}
	// The lock would make a directory; what is not there needs none.
	if err := p.load(); err != nil {
		return nil, err
	}
	p, unlock, err := l.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := p.load(); err != nil {
		return nil, err
	}
	return l.connect(ctx, p, false)
}

// connect returns the sandbox at p, whose agent it starts if none answers. It
// sets the environment of one that it started, or if told to. An agent that is
// just ending may still let callers in and then not answer, so that it is
// tried again.
func (l *Local) connect(ctx context.Context, p place, configure bool) (sandbox *Sandbox, err error) {
	var started *agentProcess
	for range connectTries {
		running, err := answers(ctx, p.path(socketFile))
		if err == nil && !running {
			configure = true
			started, err = l.restartAgent(ctx, p)
		}
		if err != nil {
			return nil, err
		}
		if sandbox, err = p.dial(ctx, configure, started); !errors.Is(err, podapi.ErrUnavailable) {
			return sandbox, err
		}
	}
	return nil, podapi.ErrUnavailable
}

// restartAgent starts the agent at p, after what an earlier one may have left
// running.
func (l *Local) restartAgent(ctx context.Context, p place) (*agentProcess, error) {
	if err := endLeftovers(ctx, p); err != nil {
		return nil, err
	}
	return l.startAgent(ctx, p)
}

// dial returns the sandbox at p, whose agent listens; started is that agent if
// this process has started it.
func (p place) dial(ctx context.Context, configure bool, started *agentProcess) (*Sandbox, error) {
	client, err := podapi.Dial(podapi.DialOptions{
		Dialer: dialer(p.path(socketFile)),
		Retry:  giveUp,
		Lost:   func(ctx context.Context) error { return p.whyLost(ctx, started) },
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	info, err := client.Info(ctx)
	if err == nil && configure {
		err = client.Configure(ctx, podapi.Config{Env: p.environment()})
	}
	if err != nil {
		client.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("the agent did not answer within %v: try again, or terminate the sandbox: %w", answerTimeout, err)
		}
		return nil, err
	}
	return &Sandbox{Client: client, ID: p.ID, Workdir: info.Workdir}, nil
}

// environment returns the environment that the spec names.
func (p place) environment() []string {
	env := make([]string, len(p.Env))
	for i, v := range p.Env {
		env[i] = string(v)
	}
	return env
}

func (l *Local) terminate(ctx context.Context, id string) error {
	p, err := l.place(id)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(p.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	p, unlock, err := l.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	return l.remove(ctx, p)
}

// remove ends the agent and the processes, and removes the sandbox's
// directory: the workspace first, so that the sandbox is known until nothing
// of it is left.
func (l *Local) remove(ctx context.Context, p place) error {
	if err := l.stopAgent(ctx, p); err != nil {
		return err
	}
	if err := endLeftovers(ctx, p); err != nil {
		return err
	}
	if err := removeTree(ctx, p.path(workspace)); err != nil {
		return err
	}
	return os.RemoveAll(p.dir)
}

// removeTree removes a tree, however deep, also where directories in it, as
// those of Go's module cache, may not be written.
func removeTree(ctx context.Context, dir string) error {
	files := fsops.New(filepath.Dir(dir))
	opts := fsops.RemoveOptions{Recursive: true, Force: true}
	err := files.Remove(ctx, filepath.Base(dir), opts)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	walkErr := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	return errors.Join(walkErr, files.Remove(ctx, filepath.Base(dir), opts))
}

func (l *Local) list(ctx context.Context) ([]Summary, error) {
	state, err := l.stateDir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Summary
	for _, e := range entries {
		if !e.IsDir() {
			continue // a lock
		}
		s, summaryErr := place{dir: filepath.Join(state, e.Name())}.summary(ctx)
		if summaryErr == nil {
			list = append(list, s)
		} else if !errors.Is(summaryErr, ErrNotFound) { // it is being made, or removed
			err = errors.Join(err, summaryErr)
		}
	}
	slices.SortFunc(list, func(a, b Summary) int { return strings.Compare(a.ID, b.ID) })
	return list, err
}

func (p place) summary(ctx context.Context) (Summary, error) {
	if err := p.load(); err != nil {
		return Summary{}, err
	}
	s := Summary{ID: p.ID, State: Stopped, Workdir: p.Workdir, Created: p.Created}
	running, err := answers(ctx, p.path(socketFile))
	if running {
		s.State = Running
	}
	return s, err
}
