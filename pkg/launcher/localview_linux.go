package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"syscall"
)

// Directories that no sandbox gets: those of the kernel and of services, with all below; those that all programs share
// for their files and sockets; and, to change them, those of the system.
var (
	machineDirs = []string{"/dev", "/proc", "/run", "/sys"}
	sharedDirs  = []string{"/tmp", "/var/tmp"}
	programDirs = []string{"/bin", "/boot", "/etc", "/gnu/store", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/opt", "/sbin", "/usr", "/var/lib/dpkg"}
)

// resolve replaces the paths that an isolated sandbox has by those that they lead to now, since its agent follows
// no symbolic links: another sandbox may have made them meanwhile. It refuses paths that would lift the isolation.
func (p *place) resolve() error {
	guard, err := p.newGuard()
	if err != nil {
		return err
	}
	if err := p.resolveWorkdir(guard); err != nil {
		return err
	}
	p.Isolation.Readable = slices.Clone(p.Isolation.Readable)
	for i, path := range p.Isolation.Readable {
		real, err := guard.view(path, false)
		if err == nil {
			_, err = os.Lstat(real)
		}
		if err != nil {
			return fmt.Errorf("Local.Readable: %w", err)
		}
		p.link(path, real)
		p.Isolation.Readable[i] = real
	}
	return nil
}

func (p *place) resolveWorkdir(guard guard) (err error) {
	given := p.Workdir
	if given == p.path(workspace) {
		p.Workdir, err = realPath(given)
		return err
	}
	p.Workdir, err = guard.view(given, true)
	if refused, ok := errors.AsType[*refusedPathError](err); ok {
		return &SpecError{"Workdir", fmt.Sprintf("%q cannot be that of an isolated sandbox: %s", given, refused.why)}
	}
	p.link(given, p.Workdir)
	return err
}

// link remembers a path that is a symbolic link.
func (p *place) link(path, real string) {
	if path = filepath.Clean(path); path != real {
		p.Isolation.Links = append(p.Isolation.Links, path)
	}
}

// A guard keeps from isolated sandboxes what would lift their isolation. Its paths have no symbolic links.
type guard struct {
	state    string
	homes    []string
	programs []string // the paths by which agents are started; none if that is not known
}

func (p *place) newGuard() (guard, error) {
	state, err := realPath(filepath.Dir(p.dir))
	return guard{state, homeDirs(), p.programs}, err
}

// refuses says why an isolated sandbox cannot have a path, which has no symbolic links; empty if it can.
func (g guard) refuses(path string, writable bool) string {
	if path == "/" {
		return "it is all of this machine"
	}
	for _, dir := range machineDirs {
		if isOrBelow(path, dir) {
			return dir + " is the kernel's, or has sockets of services"
		}
	}
	for _, home := range g.homes {
		if isOrBelow(home, path) {
			return fmt.Sprintf("it is, or has in it, your home %s, with your keys and settings: name a directory in that", home)
		}
	}
	if isOrBelow(path, g.state) || isOrBelow(g.state, path) {
		return g.state + " has the launcher's state of all sandboxes, by which one could read others and choose no isolation"
	}
	for _, dir := range sharedDirs {
		if isOrBelow(dir, path) {
			return fmt.Sprintf("it is, or has in it, %s, with files and sockets of all programs: name a directory in that", dir)
		}
	}
	for _, program := range g.programs {
		if writable && isOrBelow(program, path) {
			return fmt.Sprintf("it has in it %s, which keeps sandboxes in, and which one could change for the next start", program)
		}
	}
	for _, dir := range programDirs {
		if writable && isOrBelow(dir, path) {
			return fmt.Sprintf("it is, or has in it, %s, which is the system's", dir)
		}
	}
	return ""
}

// agentPaths returns the paths of podagent: where a link to it is, and where it is.
func (l *Local) agentPaths() (list []string) {
	program, err := l.findAgent()
	if err != nil {
		return nil
	}
	if dir, err := realPath(filepath.Dir(program)); err == nil {
		list = append(list, filepath.Join(dir, filepath.Base(program)))
	}
	if real, err := filepath.EvalSymlinks(program); err == nil {
		list = append(list, real)
	}
	return list
}

func isOrBelow(path, dir string) bool { return path == dir || isBelow(path, dir) }

// privateDirs returns what is hidden from isolated sandboxes, even where it lies in paths of the system, such as a
// home below /opt.
func (p *place) privateDirs() ([]string, error) {
	guard, err := p.newGuard()
	return append(guard.homes, guard.state), err
}

// homeDirs returns the homes of the user, with symbolic links followed where they can be: the one in the
// environment, which may be another user's, and the one that the system knows. It leaves out / and, for ordinary
// users, directories of root, such as /usr/sbin, which are homes of services.
func homeDirs() (list []string) {
	homes := []string{os.Getenv("HOME")}
	if u, err := user.LookupId(fmt.Sprint(os.Geteuid())); err == nil {
		homes = append(homes, u.HomeDir)
	}
	for _, home := range homes {
		if !filepath.IsAbs(home) {
			continue
		}
		home = filepath.Clean(home)
		if real, err := realPath(home); err == nil {
			home = real
		}
		if home != "/" && !slices.Contains(list, home) && !isRootsAlone(home) {
			list = append(list, home)
		}
	}
	return list
}

// isRootsAlone reports whether a directory is root's, and the user is another one.
func isRootsAlone(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && os.Geteuid() != 0 && info.Sys().(*syscall.Stat_t).Uid == 0
}

// realPath returns an absolute path without symbolic links. Its end need not be there.
func realPath(path string) (string, error) {
	path = filepath.Clean(path)
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) || path == "/" {
		return real, err
	}
	parent, err := realPath(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}
