package proc

import (
	"slices"
	"time"
)

// kept are the ended processes. It is guarded by the mutex of the Manager.
type kept struct {
	// ended holds the one that ended first at the front.
	ended []keptProcess
	// journals and commands are what they weigh together, in bytes.
	journals, commands int
	graves             tombstones
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
	g.limit, g.age = m.lim.tombstones, m.lim.retention-m.lim.skew
	return g
}

// processEnded counts a process as ended, and makes room for it.
func (m *Manager) processEnded(p *Process) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	m.lastEnd = now
	p.journalWeight = p.out.weight()
	p.commandWeight = p.commandSize()
	m.kept.journals += p.journalWeight
	m.kept.commands += p.commandWeight
	m.kept.ended = append(m.kept.ended, keptProcess{p, now})
	m.sweep(now)
	m.dropJournals(now, m.lim.keptBytes, false)
	m.dropJournals(now, m.lim.keptHard, true)
}

func (p *Process) commandSize() int {
	n := len(p.script)
	for _, a := range p.argv {
		n += len(a)
	}
	return n
}

// sweep forgets the processes that ended too long ago, and the oldest of those
// that are too many.
func (m *Manager) sweep(now time.Time) {
	k := &m.kept
	for len(k.ended) > 0 {
		oldest := k.ended[0]
		young := now.Sub(oldest.at) < m.lim.retention
		if young && len(k.ended) <= m.lim.kept && k.commands <= m.lim.keptBytes {
			break
		}
		m.forget(oldest.Process, now)
	}
	m.schedule(now)
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

// forget removes an ended process. Those who still hold it can go on reading.
func (m *Manager) forget(p *Process, now time.Time) {
	k := &m.kept
	i := slices.IndexFunc(k.ended, func(e keptProcess) bool { return e.Process == p })
	k.ended = slices.Delete(k.ended, i, i+1)
	k.journals -= p.journalWeight
	k.commands -= p.commandWeight
	m.graves().bury(m.entries[p.id].uuid, now)
	delete(m.entries, p.id)
}

// dropJournals drops the oldest journals until the rest weighs no more than
// limit. The processes' ends stay known, and what was dropped is told to later
// readers as omitted.
func (m *Manager) dropJournals(now time.Time, limit int, force bool) {
	for _, p := range m.kept.ended {
		if m.kept.journals <= limit {
			return
		}
		if p.journalWeight > 0 && p.out.drop(now, force) {
			m.kept.journals -= p.journalWeight
			p.journalWeight = 0
		}
	}
}
