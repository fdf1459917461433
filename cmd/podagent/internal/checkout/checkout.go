// Package checkout checks out a git repository in a directory, and later moves it to
// another commit. It never touches local changes.
//
// An empty directory gets a full clone. The clone appears there only when it is
// complete: until then everything is in a directory named .podagent-clone. After a kill,
// the next checkout starts again, or only moves the files if the clone was complete. In
// an existing work tree, checkout fetches only the ref, and checks it out if nothing
// would be lost. Otherwise everything stays, and [Result] says why. Submodules and Git
// LFS are not touched.
//
// Between two checkouts the work tree belongs to code that nobody trusts, with its
// configuration and hooks. So credentials never come near it. A temporary repository
// talks to the server, and even its git does not get the credentials. They stay in this
// process, which relays git's requests for this one repository to its server and adds
// them. Then the objects go from this repository to the work tree, both local. Checkout
// needs no program but git, and none of its recent features.
package checkout

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoGit says that the git program is missing.
var ErrNoGit = errors.New("there is no git program in the sandbox's PATH: use an image that has git")

// Options say what to check out where.
type Options struct {
	// Dir is the directory, which exists.
	Dir string
	// URL is the repository's, of the protocols http, https, ssh, git and
	// file, or an absolute path.
	URL string
	// Ref is a branch, a tag, a commit or a name that begins with refs/. Empty
	// means the branch that the remote's HEAD names.
	Ref string
	// Username and Password are for http and https. If only one of them is empty, the
	// server gets an empty one.
	Username, Password string
}

// Result says what a checkout has done.
type Result struct {
	// Commit is the commit of HEAD.
	Commit string `json:"commit"`
	// Ref is the full name of the requested ref; empty for a commit.
	Ref string `json:"ref,omitempty"`
	// Changed says that this checkout moved HEAD to Commit.
	Changed bool `json:"changed"`
	// Kept says why everything was left as it was; empty if it was not.
	Kept string `json:"kept,omitempty"`
}

// run is one checkout.
type run struct {
	Options
	git   *git
	relay *relay // nil without credentials
}

// Run checks out. Runs in one directory wait for each other.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Ref == "HEAD" {
		o.Ref = ""
	}
	program, err := exec.LookPath("git")
	if err != nil {
		return Result{}, ErrNoGit
	}
	if o.Dir, err = filepath.EvalSymlinks(o.Dir); err != nil {
		return Result{}, err
	}
	unlock, err := lock(ctx, o.Dir)
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	scratch, err := makeScratch(o.Dir)
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(scratch)
	r := &run{Options: o, git: newGit(program, scratch, filepath.Dir(o.Dir))}
	if err := r.checkRef(ctx); err != nil {
		return Result{}, err
	}
	stop, err := r.startRelay(ctx)
	if err != nil {
		return Result{}, err
	}
	defer stop()
	result, err := r.checkout(ctx)
	return result, r.explain(err)
}

// checkout clones into an empty directory, moves a complete clone into its place, and
// updates a work tree.
func (r *run) checkout(ctx context.Context) (Result, error) {
	names, err := listDir(r.Dir)
	if err != nil {
		return Result{}, err
	}
	if r.staged() {
		if err := r.unstage(ctx); err != nil {
			return Result{}, err
		}
		return r.update(ctx)
	}
	if slices.Contains(names, ".git") {
		// A run that was killed at its very end may have left this.
		if err := os.RemoveAll(r.staging()); err != nil {
			return Result{}, err
		}
		return r.update(ctx)
	}
	if len(names) > 0 {
		return Result{}, fmt.Errorf("%s is neither empty nor the top of a git work tree: there is %q", r.Dir, names[0])
	}
	return r.clone(ctx)
}

// checkRef refuses a ref that git could take for something other than a name.
func (r *run) checkRef(ctx context.Context) error {
	if r.Ref == "" {
		return nil
	}
	_, err := r.git.run(ctx, "", "check-ref-format", "--allow-onelevel", r.Ref)
	if ctx.Err() == nil && (err != nil || strings.HasPrefix(r.Ref, "-")) {
		return fmt.Errorf("%q is not the name of a branch, tag or commit", r.Ref)
	}
	return ctx.Err()
}

// listDir returns the sorted names in a directory. It leaves out entries that do not count:
// a staged clone, and the directory that mkfs puts into a new file system.
func listDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if e.Name() != "lost+found" && e.Name() != stagingName {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// lock locks a directory against other checkouts. It needs no file, and so leaves nothing
// in the work tree. It polls, because a context cannot interrupt flock(2).
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	file, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			file.Close()
			return nil, &fs.PathError{Op: "flock", Path: dir, Err: err}
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("another checkout in %s is under way: %w", dir, ctx.Err())
		case <-tick.C:
		}
	}
}
