package proc

import "fmt"

// A stray is a process below the agent that belongs to no exec that the agent still knows.
// Its exec has been forgotten, or it has removed or blurred its mark and left its parents,
// or it came into the sandbox from outside and its parents have ended. Only an agent that
// adopts orphans knows its strays.

// Strays returns how many strays run, and how many of them are at large: they have no mark
// that says that a forgotten exec left them.
func (m *Manager) Strays() (count, atLarge int, err error) {
	strays, err := m.strays()
	for _, s := range strays {
		if !s.lineage.whole() {
			atLarge++
		}
	}
	return len(strays), atLarge, err
}

// KillStrays ends all strays, and returns how many there were at first. The error says
// that some may be left.
func (m *Manager) KillStrays() (count int, err error) {
	for range killScans {
		strays, err := m.strays()
		count = max(count, len(strays))
		if len(strays) == 0 || err != nil {
			return count, err
		}
		t := newTree(m.proc, m.log)
		for _, s := range strays {
			t.seen[s.pid] = s.start
			if s.lineage.whole() {
				t.numbers[s.lineage.low] = true // with those that it starts meanwhile
			}
		}
		if err := t.kill(); err != nil {
			return count, fmt.Errorf("cannot end all strays: %w", err)
		}
	}
	return count, fmt.Errorf("cannot end all strays: %w", errTreeLeft)
}

// strays lists the strays.
func (m *Manager) strays() ([]member, error) {
	if !m.proc.adopts {
		return nil, nil
	}
	all, err := m.proc.all()
	if err != nil {
		return nil, err
	}
	return m.byExec(all)[""], nil
}

// byExec sorts processes by the exec that they belong to, as [tree] does: by session and
// group, mark, marker, or parents. Strays come under "". It leaves out what is not the
// agent's own.
func (m *Manager) byExec(all []member) map[string][]member {
	know := m.knowledge()
	owner := map[int]string{}
	trees := map[string][]member{}
	for more := true; more; {
		more = false
		for _, a := range all {
			if id := know.exec(a, owner); id != "" && owner[a.pid] == "" {
				owner[a.pid] = id
				trees[id] = append(trees[id], a)
				more = true
			}
		}
	}
	for _, a := range all {
		if a.below && owner[a.pid] == "" && m.isStray(a, know.starting) {
			trees[""] = append(trees[""], a)
		}
	}
	return trees
}

// knowledge is what the agent knows of its execs. Each map leads to their ids.
type knowledge struct {
	leaders, numbers map[int]string
	ids              map[string]bool
	// starting are the numbers of starts that were under way before.
	starting map[int]bool
}

func (m *Manager) knowledge() knowledge {
	know := knowledge{
		leaders: map[int]string{}, numbers: map[int]string{}, ids: map[string]bool{},
		starting: m.proc.marks.underWay(),
	}
	m.mu.Lock()
	for id := range m.entries {
		know.ids[id] = true
	}
	all := m.processes()
	m.mu.Unlock()
	for _, p := range all {
		if p.mark > 0 {
			know.numbers[p.mark] = p.id
		}
		if p.running() {
			know.leaders[p.pid] = p.id
		}
	}
	return know
}

// exec returns the id of a process's exec, "" if none is known. owner has the ids of the
// processes that are sorted already.
func (k *knowledge) exec(a member, owner map[int]string) string {
	for _, id := range []string{k.leaders[a.pid], k.leaders[a.group], k.leaders[a.session]} {
		if id != "" {
			return id
		}
	}
	switch {
	case a.lineage.whole():
		return k.numbers[a.lineage.low]
	case k.ids[a.exec]:
		return a.exec
	}
	return owner[a.parent]
}

// isStray reports whether a process that belongs to no known exec is a stray. It may be
// of a start under way. If it bears no mark yet, that start has reached the reaper when
// forking is free.
func (m *Manager) isStray(a member, starting map[int]bool) bool {
	if a.lineage.whole() {
		return !starting[a.lineage.low]
	}
	m.proc.forking.Lock()
	now, err := m.proc.member(a.pid)
	m.proc.forking.Unlock()
	if err != nil || now.start != a.start || !now.alive() {
		return false
	}
	return !m.reaper.owns(a.pid) && !m.reaper.owns(now.session) && !m.reaper.owns(now.group)
}
