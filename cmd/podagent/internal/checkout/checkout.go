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
// process, the agent, which nobody can look into. It relays git's requests for this one
// repository to its server and adds the credentials. Then the objects go from the
// temporary repository to the work tree, both local. Checkout needs no program but git,
// and none of its recent features.
package checkout

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc"
	"github.com/podagent/podagent/pkg/fsops"
)

// ErrNoGit says that the git program is missing.
var ErrNoGit = errors.New("there is no git program in the sandbox's PATH: use an image that has git")

// Options say what to check out where.
type Options struct {
	// Dir is the directory, absolute, which exists.
	Dir string
	// URL is the URL of the repository, with the protocol http, https, ssh, git or
	// file, or an absolute path. It has no password in it, and for http and https no
	// user.
	URL string
	// Ref is a branch, a tag, a commit or a name that begins with refs/. Empty
	// means the branch that the remote's HEAD names.
	Ref string
	// Username and Password are for http and https. If only one of them is empty, the
	// server gets an empty one.
	Username, Password string
	// Env is the environment of the sandbox's processes. Git gets it without the
	// variables that would change what it does, and the relay finds proxies and
	// authorities in it.
	Env []string
	// Processes starts git.
	Processes *proc.Manager
	// Relays take git's requests if there are credentials.
	Relays *Relays
}

// Result says what a checkout has done.
type Result struct {
	// Commit is the commit of HEAD.
	Commit string
	// Ref is the full name of the requested ref; empty for a commit.
	Ref string
	// Changed says that this checkout moved HEAD to Commit.
	Changed bool
	// Kept says why everything was left as it was; otherwise it is empty.
	Kept string
}

// run is one checkout.
type run struct {
	Options
	files *fsops.FS
	git   *git
	relay *relay // nil without credentials
}

// Run checks out. Runs in one directory wait for each other. Neither the result nor the
// error has the password in it.
func Run(ctx context.Context, o Options) (Result, error) {
	if err := o.checkURL(); err != nil {
		return Result{}, err
	}
	if o.Ref == "HEAD" {
		o.Ref = ""
	}
	var err error
	if o.Dir, err = filepath.EvalSymlinks(o.Dir); err != nil {
		return Result{}, err
	}
	unlock, err := lock(ctx, o.Dir)
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	r := &run{Options: o, files: fsops.New(o.Dir)}
	scratch, err := r.makeScratch()
	if err != nil {
		return Result{}, err
	}
	defer r.remove(scratch)
	r.git = newGit(&o, scratch, filepath.Dir(o.Dir))
	stop, err := r.startRelay(ctx)
	if err != nil {
		return Result{}, err
	}
	defer stop()
	if err := r.configure(); err != nil {
		return Result{}, err
	}
	if err := r.checkRef(ctx); err != nil {
		return Result{}, err
	}
	result, err := r.checkout(ctx)
	return result, r.explain(err)
}

// checkURL refuses a URL with a secret in it: git would get it as an argument, and keep
// it in the work tree.
func (o *Options) checkURL() error {
	u, err := url.Parse(o.URL)
	if err != nil {
		if strings.Contains(o.URL, "://") {
			return errors.New("the URL of the repository is not a URL")
		}
		return nil // host:path
	}
	if _, has := u.User.Password(); has || u.User != nil && u.Scheme != "ssh" {
		return errors.New("the URL of the repository has a user or a password in it")
	}
	return nil
}

// checkout clones into an empty directory, moves a complete clone to its destination,
// or updates a work tree.
func (r *run) checkout(ctx context.Context) (Result, error) {
	if r.staged() {
		if err := r.unstage(ctx); err != nil {
			return Result{}, err
		}
		return r.update(ctx)
	}
	if _, err := os.Lstat(filepath.Join(r.Dir, ".git")); err == nil {
		// A run that was killed at its very end may have left this.
		if err := r.remove(r.staging()); err != nil {
			return Result{}, err
		}
		return r.update(ctx)
	}
	if err := eachName(r.Dir, func(name string) error {
		if name == stagingName || name == lostAndFound {
			return nil
		}
		return fmt.Errorf("%s is neither empty nor the top of a git work tree: there is %q", r.Dir, name)
	}); err != nil {
		return Result{}, err
	}
	return r.clone(ctx)
}

// lostAndFound is the directory that mkfs puts into a new file system.
const lostAndFound = "lost+found"

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
