package launcher

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/procfs"
)

// A kinship says whether a process belongs to a sandbox that has no agent any more.
type kinship int

const (
	stranger kinship = iota
	// doubtful is one that may be: it has blurred its lineage, or has the sandbox's marker in its environment. Code in
	// any other sandbox can do the same, so a doubtful process is ended, and what it does is no reason for an error.
	doubtful
	certain
)

// A family tells which processes belong to a sandbox. It is for one look at all processes.
type family struct {
	place
	processes procfs.FS
	inSandbox bool // whether this process runs in a sandbox itself: then only markers tell
	groups    map[string]bool
}

// newFamily returns that of the sandbox at p.
func newFamily(p place) *family { return &family{place: p, inSandbox: !isUnlimited()} }

// kin tells whether a process is one of the family. One that cannot be looked at is none.
func (f *family) kin(pid int) kinship {
	n, err := numbersOf(pid)
	if err != nil || pid == os.Getpid() {
		return stranger
	}
	if stat, err := f.processes.Stat(pid); err != nil || stat.Ended() {
		return stranger // only its parent's wait for it is missing
	}
	switch {
	case f.Traces.Lineage == 0 && f.inSandbox:
		if f.marks(pid) {
			return certain
		}
		return stranger
	case n.whole() && n.may(f.Traces.Lineage):
		return certain
	case n.whole() && f.Traces.Lineage > 0: // which a lost record does not tell
		return stranger // whatever its environment says
	case (n.may(f.Traces.Lineage) && f.confined(pid) || f.marks(pid)) && !f.livesElsewhere(pid):
		return doubtful
	}
	return stranger
}

// marks reports whether a process has the sandbox's marker.
func (f *family) marks(pid int) bool {
	dir, err := f.processes.Getenv(pid, markerEnv)
	return err == nil && dir == f.dir
}

// confined reports whether a process has what the agents of isolated sandboxes and the commands of all have: one
// that has little to do with podagent may have low limits, too.
func (f *family) confined(pid int) bool {
	confined, err := f.processes.NoNewPrivs(pid)
	return err == nil && confined
}

// livesElsewhere reports whether a process is in a namespace or a control group that only another sandbox has.
func (f *family) livesElsewhere(pid int) bool {
	// A sandbox at the level landlock can make no namespaces. The processes of one in namespaces end with its
	// process 1.
	level := isolation.Level(f.Isolation.Mode)
	if below, first, err := f.processes.InNamespaceBelow(pid); err == nil && below {
		switch {
		case level == isolation.Landlock:
			return true
		case level == isolation.Namespaces && !(first && f.isOrphan(pid)):
			return true
		}
	}
	path, err := f.processes.ControlGroup(pid)
	return err == nil && slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return f.otherGroups()[name] })
}

// isOrphan reports whether the parent of the process 1 of a sandbox has ended, and is no podagent outside. Then that
// would have ended, too, if nobody had taken it over.
func (f *family) isOrphan(pid int) bool {
	stat, err := f.processes.Stat(pid)
	if err != nil {
		return false
	}
	parent, err := numbersOf(stat.Parent)
	return err != nil || !parent.whole()
}

// otherGroups are the names of the control groups of the other sandboxes. They are random.
func (f *family) otherGroups() map[string]bool {
	if f.groups != nil {
		return f.groups
	}
	f.groups = map[string]bool{}
	state := filepath.Dir(f.dir)
	entries, _ := os.ReadDir(state) // without them, more are doubtful
	for _, e := range entries {
		other := place{dir: filepath.Join(state, e.Name())}
		if other.dir != f.dir && e.IsDir() && other.load() == nil && other.Traces.Group != "" {
			f.groups[filepath.Base(other.Traces.Group)] = true
		}
	}
	return f.groups
}
