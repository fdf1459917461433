package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// launch creates or finds the sandbox, under its lock.
func (l *Local) launch(ctx context.Context, spec Spec) (sandbox *Sandbox, err error) {
	p, unlock, err := l.lock(ctx, spec.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	created, configure := false, spec.Env != nil || spec.Protected != nil
	switch err := p.load(); {
	case errors.Is(err, ErrNotFound):
		created, p.programs = true, l.agentPaths()
		if err := p.create(ctx, spec, l.isolationRecord(), l.named()); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	default:
		if err := l.checkAdopted(p.Isolation.Ephemeral); err != nil {
			return nil, err
		}
		if !configure {
			break
		}
		if err := p.save(ctx, &spec); err != nil {
			return nil, err
		}
	}
	sandbox, err = l.connect(ctx, &p, configure)
	if err == nil && !l.isolation().Allows(sandbox.Isolation.Level) {
		err = fmt.Errorf("%w: it exists, and is isolated by %s", ErrIsolation, cmp.Or(string(sandbox.Isolation.Level), "nothing"))
		_ = sandbox.Client.Close() // nothing was written
	}
	if err == nil && spec.Egress.Require != "" {
		if err = sandbox.RequireEgress(ctx, spec.Egress.Require); err != nil {
			_ = sandbox.Client.Close() // nothing was written
		}
	}
	if err != nil {
		if created {
			err = errors.Join(err, l.remove(context.WithoutCancel(ctx), p))
		}
		return nil, err
	}
	if is := sandbox.Isolation; created && is.Level == isolation.None && is.Missing != "" {
		l.log().Warn("nothing isolates the sandbox from this machine", "sandbox", p.ID, "reason", is.Missing)
	}
	sandbox.Created, sandbox.Drift = created, append(egressDrift(p.Egress, spec.egress()), l.drift(&p)...)
	return sandbox, nil
}

func (l *Local) open(ctx context.Context, id string) (*Sandbox, error) {
	p, err := l.place(id)
	if err != nil {
		return nil, err
	}
	// Taking the lock would create a directory, so check first that the sandbox
	// exists.
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
	return l.connect(ctx, &p, false)
}

// connect returns the sandbox at p, and starts its agent if none answers. It
// configures an agent that it started, or if told to. An agent that is just ending
// may still accept a connection and then not answer, so connect tries again.
func (l *Local) connect(ctx context.Context, p *place, configure bool) (sandbox *Sandbox, err error) {
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
		if sandbox, err = p.dial(ctx, configure, started); err == nil {
			return p.keepLevel(ctx, sandbox)
		}
		if !errors.Is(err, podapi.ErrUnavailable) {
			return nil, err
		}
	}
	return nil, podapi.ErrUnavailable
}

// restartAgent starts the agent at p, after ending what an earlier agent left
// running.
func (l *Local) restartAgent(ctx context.Context, p *place) (*agentProcess, error) {
	if err := endLeftovers(ctx, *p); err != nil {
		return nil, err
	}
	if p.Started && p.Isolation.Ephemeral > 0 {
		return nil, ErrEnded
	}
	return l.startAgent(ctx, p)
}

// dial returns the sandbox at p, whose agent listens. started is that agent if this
// process has started it.
func (p place) dial(ctx context.Context, configure bool, started *agentProcess) (*Sandbox, error) {
	client, err := podapi.Dial(podapi.DialOptions{
		Dial:  dialer(p.path(socketFile)),
		Retry: giveUp,
		Lost:  func(ctx context.Context) error { return p.whyLost(ctx, started) },
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	info, err := client.Info(ctx)
	if err == nil && configure {
		err = client.Configure(ctx, podapi.Config{Env: toStrings(p.Env), Protected: toStrings(p.Protected)})
	}
	if err != nil {
		client.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("the agent did not answer within %v: try again, or terminate the sandbox: %w", answerTimeout, err)
		}
		return nil, err
	}
	return &Sandbox{Client: client, ID: p.ID, Workdir: info.Workdir, Egress: info.Egress, Isolation: info.Isolation}, nil
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
	// Without a whole record there is nothing that it could tell. But one that cannot be read may.
	if err := p.load(); errors.Is(err, fs.ErrPermission) {
		return err
	}
	return l.remove(ctx, p)
}

// remove ends the agent and the processes, and removes the sandbox's directory: the
// workspace first, so that the sandbox stays known until everything else is gone.
func (l *Local) remove(ctx context.Context, p place) error {
	if err := l.stopAgent(ctx, p); err != nil {
		return err
	}
	if err := endLeftovers(ctx, p); err != nil {
		return err
	}
	for _, dir := range []string{ownTemp, ownHome, workspace} {
		if err := removeTree(ctx, p.path(dir)); err != nil {
			return err
		}
	}
	return os.RemoveAll(p.dir)
}

func (l *Local) list(ctx context.Context) ([]Summary, error) {
	state, err := l.Dir()
	if err != nil {
		return nil, err
	}
	regainDirs(state)
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
		} else if !errors.Is(summaryErr, ErrNotFound) { // ErrNotFound: it is being created or removed
			err = errors.Join(err, summaryErr)
		}
	}
	slices.SortFunc(list, func(a, b Summary) int { return strings.Compare(a.ID, b.ID) })
	return list, err
}

func (l *Local) find(ctx context.Context, id string) (Summary, error) {
	p, err := l.place(id)
	if err != nil {
		return Summary{}, err
	}
	return p.summary(ctx)
}

func (p place) summary(ctx context.Context) (Summary, error) {
	if err := p.load(); err != nil {
		return Summary{}, err
	}
	s := Summary{ID: p.ID, State: Stopped, Workdir: p.Workdir, CreatedAt: p.Created, Labels: p.Labels}
	if mode := p.Isolation.Mode; mode != isolation.Auto && mode != isolation.Require { // else it never came to one: see keepLevel
		s.Isolation = mode
	}
	running, err := answers(ctx, p.path(socketFile))
	switch {
	case running:
		s.State = Running
	case p.Started && p.Isolation.Ephemeral > 0:
		s.State = Ended
	}
	return s, err
}
