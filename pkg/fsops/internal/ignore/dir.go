package ignore

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A kind of rules, of the highest precedence first.
type kind int

const (
	rgignoreKind kind = iota
	ignoreKind
	gitignoreKind
	excludeKind // info/exclude
	userKind    // core.excludesFile
	kinds
)

// Dir is a directory in a walk, with the rules that hold in it. Until [Dir.Release] it does not
// change, and may be used concurrently.
type Dir struct {
	*origin
	parent *Dir // nil at the top
	name   string
	// prefix is the path below the top with a slash at its end; empty if it is
	// longer than maxPrefix.
	prefix string
	// sources are the rules that hold here, the innermost first; directories
	// without any of their own share those of their parent.
	sources *[kinds]*source
	// taken is what the directory's own rules take of the budget.
	taken cost
}

// origin is shared by all directories of a walk.
type origin struct {
	// top is the file system's root.
	top string
	// files are the kinds of rules that are read.
	files  Files
	user   user
	budget *budget
}

// A source is a file of rules.
type source struct {
	rules Rules
	// skip is the length of the prefix of the directory that the rules'
	// patterns are relative to.
	skip int
	next *source
}

// Open returns the Dir of an absolute path. The rules of its parents hold too:
// git's up to the root of its git repository, or, outside of any, up to the
// directory top if the path lies in it.
//
// Each file of rules that could not be read has a [*fs.PathError] in the error, and the
// Dir lacks those rules. That is of class EFBIG if the rules have no room beside those
// that are held already: Open begins a budget for all directories of the walk, which
// [Dir.Release] gives back to.
func Open(path, top string) (*Dir, error) { return open(path, top, AllFiles) }

// open is Open for some kinds of files.
func open(path, top string, heeded Files) (*Dir, error) {
	path = filepath.Clean(path)
	var parents []string // the innermost first
	for at := path; at != filepath.Dir(at); at = filepath.Dir(at) {
		parents = append(parents, at)
	}
	root := filepath.Dir(path)
	if len(parents) > 0 {
		root = filepath.Dir(parents[len(parents)-1])
	}
	first := firstDir(path, filepath.Clean(top))
	d := &Dir{origin: &origin{top: root, files: heeded &^ gitFiles, budget: newBudget()}, sources: new([kinds]*source)}
	err := d.begin(root == first, heeded)
	err = errors.Join(err, d.read(d.files, root))
	for _, at := range slices.Backward(parents) {
		child := d.child(filepath.Base(at))
		if at == first {
			err = errors.Join(err, child.begin(true, heeded))
		}
		err = errors.Join(err, child.read(child.files, at))
		d = child
	}
	return d, err
}

// begin applies git's rules from d on, if they begin there.
func (d *Dir) begin(begins bool, heeded Files) error {
	if !begins {
		return nil
	}
	origin := *d.origin
	origin.files = heeded
	d.origin = &origin
	var err error
	origin.user, err = d.newUser()
	d.add(userKind, origin.user.rules)
	return err
}

// firstDir returns the outermost directory whose .gitignore holds in path.
func firstDir(path, top string) string {
	for dir := path; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, GitDir)); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	rest, ok := strings.CutPrefix(path, top)
	if ok && (rest == "" || os.IsPathSeparator(rest[0]) || os.IsPathSeparator(top[len(top)-1])) {
		return top
	}
	return path
}

// Child returns the directory of that name in d. Its error is as in [Open].
func (d *Dir) Child(name string) (*Dir, error) {
	return d.Enter(name, "", AllFiles)
}

// Enter returns the directory of that name in d, if the caller knows that it has no
// other files of rules than those given. If its own path is too long for the
// system, it is read by the path at. The error is as in [Open].
func (d *Dir) Enter(name, at string, files Files) (*Dir, error) {
	child := d.child(name)
	if files &= d.files; files == 0 {
		return child, nil
	}
	if path := child.path(); at == "" || len(path) <= maxPrefix {
		at = path
	}
	return child, child.read(files, at)
}

// child returns a directory in d without rules of its own.
func (d *Dir) child(name string) *Dir {
	child := &Dir{origin: d.origin, parent: d, name: name, sources: d.sources}
	if n := len(d.prefix) + len(name) + 1; n <= maxPrefix && (d.parent == nil || d.prefix != "") {
		child.prefix = d.prefix + name + "/"
	}
	return child
}

// rel returns the path below the top, with a slash at its end.
func (d *Dir) rel() string {
	if d.prefix != "" || d.parent == nil {
		return d.prefix
	}
	var names []string
	for at := d; at.parent != nil; at = at.parent {
		names = append(names, at.name+"/")
	}
	slices.Reverse(names)
	return strings.Join(names, "")
}

// path returns the directory's path.
func (d *Dir) path() string { return filepath.Join(d.top, filepath.FromSlash(d.rel())) }

// read adds the rules of the files in the directory, which is at path.
func (d *Dir) read(files Files, path string) error {
	var err error
	if files&hasGit != 0 {
		err = d.repository(path)
	}
	for _, file := range ruleFiles {
		if files&file.bit == 0 {
			continue
		}
		rules, readErr := d.load(filepath.Join(path, file.name), file.stat)
		err = errors.Join(err, readErr)
		d.add(file.kind, rules)
	}
	return err
}

// add puts rules before those that hold so far.
func (d *Dir) add(k kind, rules Rules) {
	if rules.Empty() {
		return
	}
	sources := *d.sources
	sources[k] = &source{rules: rules, skip: len(d.rel()), next: sources[k]}
	d.sources = &sources
}

// Ignored reports whether the file of that name in d is ignored, given that d
// itself is not.
func (d *Dir) Ignored(name string, isDir bool) bool { return d.Decide(name, isDir) == Ignore }

// Decide returns the decision of the rules on the file of that name in d. The rule of
// the highest precedence that is not Undecided decides.
func (d *Dir) Decide(name string, isDir bool) Decision {
	dir := ""
	for _, s := range d.sources {
		if s != nil && dir == "" {
			dir = d.rel()
		}
		for ; s != nil; s = s.next {
			if v := s.rules.match(&subject{dir: dir[s.skip:], base: name}, isDir); v != Undecided {
				return v
			}
		}
	}
	return Undecided
}
