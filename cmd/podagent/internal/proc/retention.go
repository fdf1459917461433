package proc

import (
	"slices"
	"time"
)

// kept are the ended processes. It is guarded by the mutex of the Manager.
type kept struct {
	// ended has the process that ended first at the front.
	ended []keptProcess
	// commands is the size of their commands together, in bytes.
	commands int
	graves   tombstones
	// timer forgets the oldest when nothing else happens.
	timer *time.Timer
}

type keptProcess struct {
	*Process
	at time.Time
}

func (k *kept) has(p *Process) bool {
	return slices.ContainsFunc(k.ended, func(e keptProcess) bool { return e.Process == p })
}

func (m *Manager) graves() *tombstones {
	g := &m.kept.graves
	g.limit, g.most = m.lim.tombstones, max(m.lim.tombstones, maxTombstones)
	g.age, g.fresh = m.lim.retention-m.lim.skew, freshAge
	return g
}

// processEnded counts a process as ended, and makes room for it.
func (m *Manager) processEnded(p *Process) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !p.aside {
		m.running--
		m.lastEnd = now
	}
	p.out.Seal()
	p.commandWeight = p.commandSize()
	m.kept.commands += p.commandWeight
	m.kept.ended = append(m.kept.ended, keptProcess{p, now})
	m.sweep(now)
}

func (p *Process) commandSize() int {
	n := len(p.script)
	for _, a := range p.argv {
		n += len(a)
	}
	return n
}

// sweep forgets the processes that ended too long ago, and if too many are left, the
// least needed ones.
func (m *Manager) sweep(now time.Time) {
	k := &m.kept
	for len(k.ended) > 0 {
		if now.Sub(k.ended[0].at) >= m.lim.retention {
			m.forget(k.ended[0].Process, now)
			continue
		}
		if len(k.ended) <= m.lim.kept && k.commands <= m.lim.keptCommands {
			break
		}
		m.forget(k.leastNeeded(), now)
	}
	m.schedule(now)
}

// leastNeeded is the first process in the older half whose end a reader got. If there is
// none, it is the oldest, although its caller may still come back.
func (k *kept) leastNeeded() *Process {
	for _, e := range k.ended[:len(k.ended)/2] {
		if e.told.Load() {
			return e.Process
		}
	}
	return k.ended[0].Process
}

// schedule sets the timer for the oldest process.
func (m *Manager) schedule(now time.Time) {
	k := &m.kept
	if k.timer != nil || len(k.ended) == 0 || m.closing {
		return
	}
	k.timer = time.AfterFunc(k.ended[0].at.Add(m.lim.retention).Sub(now), func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		k.timer = nil
		m.sweep(time.Now())
	})
}

// forget removes an ended process. Callers that still hold it can go on reading.
func (m *Manager) forget(p *Process, now time.Time) {
	k := &m.kept
	if k.ended[0].Process == p { // as mostly; then the others need not be moved
		k.ended[0] = keptProcess{}
		k.ended = k.ended[1:]
	} else {
		i := slices.IndexFunc(k.ended, func(e keptProcess) bool { return e.Process == p })
		k.ended = slices.Delete(k.ended, i, i+1)
	}
	p.out.Forget()
	k.commands -= p.commandWeight
	m.graves().bury(m.entries[p.id].uuid, now)
	delete(m.entries, p.id)
}
