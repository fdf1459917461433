package isolate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/landlock"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// becomeRestricted runs the program again in this one's place, with the files of the view alone. missing
// says why it has no namespaces. It returns only if that fails.
func becomeRestricted(view View, limits Limits, sockets []*os.File, missing error) error {
	version, err := landlock.Version()
	if err != nil {
		return unavailable("landlock", err)
	}
	if version < landlock.FilesVersion {
		return Unavailable(fmt.Errorf("landlock: the kernel has version %d of it, which lets files be truncated", version))
	}
	program, err := openProgram()
	if err != nil {
		return err
	}
	s := &State{Stage: inside, View: view, Info: isolation.Info{Level: isolation.Landlock, Limiter: limits.Limiter, NoControlGroup: limits.NoControlGroup}, Limits: limits, Program: int(program.Fd())}
	if missing != nil {
		s.Missing = Reason(missing)
	}
	for _, socket := range sockets {
		s.Sockets = append(s.Sockets, int(socket.Fd()))
	}
	others, err := running()
	if err == nil {
		err = s.limit(isolation.Landlock, others)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chdir(view.Workdir), newKeyring()); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	if err := dropRights(); err != nil {
		return unavailable("landlock", err)
	}
	if err := view.restrict(version, program); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	err = s.become()
	// Until then nobody must close them, as the collector would: only their numbers are used above.
	runtime.KeepAlive(program)
	runtime.KeepAlive(sockets)
	return err
}

// restrict keeps the calling thread to what the agent needs.
func (v View) restrict(version int, program *os.File) error {
	files, err := v.Files()
	if err != nil {
		return err
	}
	own, err := v.ofAgent()
	if err != nil {
		return err
	}
	rules := landlock.Ruleset{Files: append(v.withoutHidden(files), own...)}
	rules.Files = append(rules.Files, landlock.File{Open: program, Access: landlock.Readable})
	if version >= scopesVersion {
		rules.Scopes = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return rules.Restrict()
}

// scopesVersion is the first version of Landlock that knows scopes.
const scopesVersion = 6

// ofAgent is what the agent needs besides what its commands have: the checkpoints; terminals, to give them to its commands, and the files
// of these in /proc, where it says whom the kernel is to kill first when memory runs out. Root could change
// the machine by other files there.
func (v View) ofAgent() ([]landlock.File, error) {
	var files []landlock.File
	if v.Checkpoints != "" {
		files = append(files, landlock.File{Path: v.Checkpoints, Access: landlock.Writable})
	}
	for _, path := range terminals {
		files = append(files, landlock.File{Path: path, Access: landlock.Device})
	}
	if os.Geteuid() != 0 {
		files = append(files, landlock.File{Path: "/proc", Access: landlock.Device})
	}
	return present(files)
}

// Files returns the view as rules of Landlock, for programs that are within those of the agent already: to
// look for secrets once is enough.
func (v View) Files() ([]landlock.File, error) {
	return present(append(v.entries(), landlock.File{Path: "/proc", Access: landlock.Readable}))
}

// present returns rules for those of the files that there are.
func present(files []landlock.File) (list []landlock.File, err error) {
	for _, f := range files {
		at, link, err := find(f.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && isSystems(f.Path):
		case err != nil:
			return nil, err
		case link: // what it names is another entry
		default:
			f.Path = at
			list = append(list, f)
		}
	}
	return list, nil
}

// withoutHidden returns the rules without hidden directories and secrets in what can be read.
func (v View) withoutHidden(files []landlock.File) (list []landlock.File) {
	for _, f := range files {
		var hidden, secret []string
		if f.Access == landlock.Readable {
			hidden = v.hiddenIn(f.Path)
		}
		if f.Path == secretDir && hidesSecrets() {
			secret = secrets(f.Path)
		}
		if len(hidden)+len(secret) > 0 {
			list = append(list, without(f.Path, append(secret, hidden...), len(hidden) == 0)...)
		} else {
			list = append(list, f)
		}
	}
	return list
}

// without returns rules for all that can be read below a directory but the secrets. What somebody adds later beside
// a secret cannot be read. With listable, the names in directories that hold secrets can be listed, and those in
// secret directories, too: a rule is for all that is below.
func without(dir string, secrets []string, listable bool) (list []landlock.File) {
	holds := func(path string) bool {
		return slices.ContainsFunc(secrets, func(s string) bool { return s == path || strings.HasPrefix(s, path+"/") })
	}
	if !holds(dir) {
		return []landlock.File{{Path: dir, Access: landlock.Readable}}
	}
	if listable {
		list = append(list, landlock.File{Path: dir, Access: landlock.Listable})
	}
	entries, _ := os.ReadDir(dir) // what cannot be read cannot be read later, either
	for _, e := range entries {
		switch path := filepath.Join(dir, e.Name()); {
		case slices.Contains(secrets, path) || e.Type() == fs.ModeSymlink:
		case e.IsDir():
			list = append(list, without(path, secrets, listable)...)
		default:
			list = append(list, landlock.File{Path: path, Access: landlock.Readable})
		}
	}
	return list
}
