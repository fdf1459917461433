package proc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/cgroup"
	"github.com/podagent/podagent/cmd/podagent/internal/proc/journal"
)

// Manager starts processes and keeps them until they are forgotten: those that
// ended more than retention ago, and when there are more than keptProcesses the
// oldest. Its methods may be called concurrently.
type Manager struct {
	log     *slog.Logger
	lim     limits
	proc    *procfs
	budget  *journal.Budget
	reaper  *reaper
	guard   *guard
	cgroup  *cgroup.Groups
	waiters chan struct{} // see [Process.waiters]
	forks   chan struct{} // see [Manager.awaitTurn]
	// alone is that of the [Options].
	alone bool
	// oomScore is the oom_score_adj of processes, "" where it is not set.
	oomScore string

	mu      sync.Mutex
	entries map[string]*entry
	running int
	// lastEnd is when a process last ended; before that, when the manager was
	// made.
	lastEnd time.Time
	closing bool
	closed  chan struct{} // when closing is set
	// starts counts the starts under way.
	starts sync.WaitGroup
	kept   kept
}

// entry is a process under its id, from the moment that its start is tried.
type entry struct {
	uuid   uuid.UUID
	digest [sha256.Size]byte
	// ready is closed when process or err is set.
	ready   chan struct{}
	process *Process
	err     error
	// withdrawn says that the caller left before its turn. Nothing was started,
	// and another caller with the same id may start it.
	withdrawn bool
}

// Options are those of a [Manager].
type Options struct {
	// Log gets the messages; nil discards them.
	Log *slog.Logger
	// JournalDirs are directories for the output of processes, which is kept in a
	// file without a name: in the first directory that can be used and is not in
	// memory itself. Without one less is kept, in memory.
	JournalDirs []string
	// Alone says that the manager is the program's only one, and that nothing
	// else in it starts processes. Then the manager ends the largest exec before
	// memory runs out, and keeps threads in reserve. It gets the orphans, and
	// [Manager.ReapOrphans] may be called for them. As PID 1 it ends everything
	// else at the shutdown, except processes that came into its name space from
	// outside.
	Alone bool
}

// NewManager returns a manager without processes. It marks all descriptors
// that the agent has as close-on-exec, so that no process inherits one.
func NewManager(opts Options) *Manager {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	closeOnExec()
	proc := &procfs{}
	proc.replenish()
	m := &Manager{
		log:     log,
		lim:     defaultLimits(),
		proc:    proc,
		entries: map[string]*entry{},
		lastEnd: time.Now(),
		alone:   opts.Alone,
		reaper:  newReaper(log),
		cgroup:  cgroup.Open("/"),
		waiters: make(chan struct{}, shortWaiters),
		forks:   make(chan struct{}, forksAtOnce),
		closed:  make(chan struct{}),

		oomScore: childScore(),
	}
	m.guard = &guard{log: log, fs: proc, groups: m.cgroup.Memory, processes: m.all, forgotten: m.hasForgotten}
	m.budget = journal.NewBudget(&m.lim.Limits, log)
	m.budget.OpenIn(opts.JournalDirs)
	if m.alone {
		m.protect()
	}
	return m
}

// hasForgotten reports whether an exec that has a process was this manager's. As
// PID 1 the manager sees no others, and an exec that is being started has an entry.
func (m *Manager) hasForgotten(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alone && os.Getpid() == 1 && m.entries[id] == nil
}

// JournalSize is how many bytes of the output of a process are kept, of both
// streams together.
func (m *Manager) JournalSize() int64 { return m.budget.Size() }

// Start starts a process. If one with the same id and an equal spec was
// started before, Start returns that one, and started is false; with another spec
// it is [ErrConflict]. A spec that makes no sense is [syscall.EINVAL]; an id
// whose process may have been forgotten is [ErrTooOld].
//
// A command or a directory that can't be used is an [*fs.PathError] with the
// Op "exec" or "chdir". A start that failed leaves nothing behind and may be
// repeated. If ctx ends before the turn of the process to be started, Start returns
// its error and has started nothing; later it has no effect.
//
// Without stdin and terminal, Start waits briefly (shortWait) for the end, unless the
// process is aside.
func (m *Manager) Start(ctx context.Context, spec Spec) (p *Process, started bool, err error) {
	id, err := spec.validate()
	if err != nil {
		return nil, false, err
	}
	for {
		e, mine, err := m.claim(spec.ID, id, spec.digest())
		if err != nil {
			return nil, false, fmt.Errorf("cannot start exec %s: %w", spec.ID, err)
		}
		if mine {
			p, err := m.startClaimed(ctx, &spec, e)
			return p, err == nil, err
		}
		if err := e.await(ctx); err != nil {
			return nil, false, err
		}
		if !e.withdrawn {
			return e.process, false, e.err
		}
	}
}

// startClaimed makes the process of an entry that the caller has claimed.
func (m *Manager) startClaimed(ctx context.Context, spec *Spec, e *entry) (*Process, error) {
	p, err := m.makeProcess(ctx, spec)
	m.publish(spec.ID, e, p, err)
	if err != nil {
		return nil, err
	}
	m.log.Debug("process started", "exec", p.id, "pid", p.pid)
	p.run()
	return p, nil
}

// await waits until the start has succeeded, failed or been withdrawn.
func (e *entry) await(ctx context.Context) error {
	select {
	case <-e.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// claim returns the entry of an id, and whether the caller made it and has to
// publish it.
func (m *Manager) claim(name string, id uuid.UUID, digest [sha256.Size]byte) (e *entry, mine bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(time.Now())
	if e = m.entries[name]; e != nil {
		if e.digest != digest {
			return nil, false, ErrConflict
		}
		return e, false, nil
	}
	if m.closing {
		return nil, false, ErrShutdown
	}
	if m.graves().refuses(id, time.Now()) {
		return nil, false, ErrTooOld
	}
	e = &entry{uuid: id, digest: digest, ready: make(chan struct{})}
	m.entries[name] = e
	m.starts.Add(1)
	return e, true, nil
}

// publish ends the start of an entry, with its process or its error.
func (m *Manager) publish(name string, e *entry, p *Process, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.process, e.err = p, err
	e.withdrawn = errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if err != nil {
		delete(m.entries, name)
	} else if !p.aside {
		m.running++
	}
	close(e.ready)
	m.starts.Done()
}

// Get returns the process with this id, running or ended. It waits for one that is
// about to be started, until ctx ends. If there is none the error wraps
// [fs.ErrNotExist].
func (m *Manager) Get(ctx context.Context, id string) (*Process, error) {
	for {
		e := m.entry(id)
		if e == nil {
			return nil, fmt.Errorf("cannot find exec %q: %w", id, fs.ErrNotExist)
		}
		if err := e.await(ctx); err != nil {
			return nil, fmt.Errorf("cannot find exec %q: %w", id, err)
		}
		if e.process != nil {
			return e.process, nil
		}
	}
}

// entry returns the entry of an id, or nil.
func (m *Manager) entry(id string) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(time.Now())
	return m.entries[id]
}

// List describes all processes, the oldest first.
func (m *Manager) List() []Info {
	m.mu.Lock()
	m.sweep(time.Now())
	all := m.processes()
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b *Process) int { return a.started.Compare(b.started) })
	infos := make([]Info, len(all))
	for i, p := range all {
		infos[i] = p.info()
		infos[i].Argv = slices.Clone(p.argv)
	}
	return infos
}

// all are the processes, running or ended.
func (m *Manager) all() []*Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.processes()
}

func (m *Manager) processes() []*Process {
	all := make([]*Process, 0, len(m.entries))
	for _, e := range m.entries {
		if e.process != nil {
			all = append(all, e.process)
		}
	}
	return all
}

// Forget drops the output and the status of an ended process. For a process that
// runs it is [syscall.EBUSY], for an unknown one [fs.ErrNotExist]. Descendants
// that outlived the process are not touched.
func (m *Manager) Forget(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[id]
	if e == nil || e.process == nil {
		return fmt.Errorf("cannot forget exec %q: %w", id, fs.ErrNotExist)
	}
	if !m.kept.has(e.process) {
		return fmt.Errorf("cannot forget exec %s: it still runs: %w", id, syscall.EBUSY)
	}
	m.forget(e.process, time.Now())
	return nil
}

// Running is the number of processes whose status is not known yet, without
// those aside.
func (m *Manager) Running() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running
}

// LastActive is when a process last ran: now while one does, else when the
// last one ended. If there never was one it is when the manager was made.
func (m *Manager) LastActive() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running > 0 {
		return time.Now()
	}
	return m.lastEnd
}
