package proc

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/confine"
	"github.com/podagent/podagent/cmd/podagent/internal/proc/cgroup"
	"github.com/podagent/podagent/cmd/podagent/internal/proc/journal"
	"github.com/podagent/podagent/cmd/podagent/internal/proc/spawn"
)

// Manager starts processes, and keeps each until retention after its end. If more than
// keptProcesses have ended, it forgets some earlier, first those whose end a reader got.
// Its methods may be called concurrently.
type Manager struct {
	log     *slog.Logger
	lim     limits
	proc    *processTable
	budget  *journal.Budget
	reaper  *reaper
	guard   *guard
	cgroup  *cgroup.Groups
	meters  *cgroup.Meters // nil without Options.OwnGroup
	waiters chan struct{}  // see [Process.waiters]
	forks   chan struct{}  // see [Manager.awaitTurn]
	touched atomic.Pointer[touch]
	// alone is Options.Alone.
	alone bool
	// oomScore is the oom_score_adj of processes, "" if it is not set.
	oomScore string
	// processLimit bounds how many processes there can be, if resource limits do.
	processLimit []spawn.Limit

	listening sync.Mutex // held for a scan of the sockets that listen

	mu      sync.Mutex
	entries map[string]*entry
	running int
	// lastEnd is when a process last ended, or, before the first end, when the manager
	// was made.
	lastEnd time.Time
	closing bool
	closed  chan struct{} // closed when closing is set
	// starts counts the starts under way.
	starts sync.WaitGroup
	kept   kept
}

// Options configure a [Manager].
type Options struct {
	// Log gets the messages; nil discards them.
	Log *slog.Logger
	// JournalDirs are directories for the output of processes, which is kept in a
	// file without a name: in the first directory that can be used and is not in
	// memory itself. Without one less is kept, in memory.
	JournalDirs []string
	// Thread starts all processes, within its boundary; nil starts them without one.
	Thread *confine.Thread
	// Alone says that the manager is the program's only one, and that nothing
	// else in it starts processes. Then the manager ends the largest exec before
	// memory runs out, and keeps threads in reserve. It adopts orphans, which
	// [Manager.ReapOrphans] reaps. As PID 1 it ends everything else at the shutdown,
	// except processes that came into its name space from outside.
	Alone bool
	// OwnGroup says that the program's control group is that of the sandbox: only what
	// belongs to it runs there. Without it [Manager.Usage] knows nothing.
	OwnGroup bool
	// ProcessLimit, if not 0, is the most processes and threads that the user of the processes may have, by a
	// resource limit of each. The program itself may have more.
	ProcessLimit int
}

// NewManager returns a manager without processes. It marks all descriptors
// that the agent has as close-on-exec, so that no process inherits one.
func NewManager(opts Options) *Manager {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	closeOnExec()
	proc := &processTable{thread: opts.Thread}
	proc.marks.open()
	proc.Reserve()
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

		oomScore: proc.childScore(),
	}
	if n := uint64(opts.ProcessLimit); n > 0 {
		m.processLimit = []spawn.Limit{{Resource: unix.RLIMIT_NPROC, Rlimit: unix.Rlimit{Cur: n, Max: n}}}
	}
	if opts.OwnGroup {
		m.meters = cgroup.OpenMeters("/")
	}
	m.guard = &guard{log: log, table: proc, groups: m.cgroup.Memory, processes: m.all, sort: m.byExec}
	m.budget = journal.NewBudget(&m.lim.Limits, log)
	m.budget.OpenIn(opts.JournalDirs)
	if m.alone {
		m.protect()
	}
	return m
}

// JournalSize is how many bytes of the output of a process are kept, of both
// streams together.
func (m *Manager) JournalSize() int64 { return m.budget.Size() }

// Usage returns what the sandbox uses, and may use. It neither waits nor starts anything.
func (m *Manager) Usage() cgroup.Usage { return m.meters.Read() }

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

// Forget drops the output and the status of an ended process. The error for a process
// that runs is [syscall.EBUSY], for an unknown one [fs.ErrNotExist]. Forget does not
// touch descendants that outlived the process: they become strays.
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

// LastActive is when a process last ran: now if one runs, or else when the last one
// ended. Before the first process it is when the manager was made.
func (m *Manager) LastActive() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running > 0 {
		return time.Now()
	}
	return m.lastEnd
}
