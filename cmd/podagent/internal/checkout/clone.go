package checkout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A clone is made in a directory inside of its destination. From there it moves by
// renames alone: first the files, the .git last. So the destination never has half a
// file: an entry beside a staged clone is a whole file of the clone, or somebody else's.
const (
	stagingName = ".podagent-clone"
	treeName    = "tree"  // the work tree, with its .git
	readyName   = "ready" // says that the work tree is complete
)

func (r *run) staging(names ...string) string {
	return filepath.Join(append([]string{r.Dir, stagingName}, names...)...)
}

// staged reports whether there is a complete clone that only has to move.
func (r *run) staged() bool {
	_, err := os.Lstat(r.staging(readyName))
	return err == nil
}

// clone clones into the empty directory.
func (r *run) clone(ctx context.Context) (Result, error) {
	if err := r.remove(r.staging()); err != nil {
		return Result{}, err
	}
	result, err := r.stage(ctx)
	if err != nil {
		return Result{}, errors.Join(err, r.remove(r.staging()))
	}
	return result, r.unstage(ctx)
}

// stage makes the clone.
func (r *run) stage(ctx context.Context) (Result, error) {
	remote, err := r.list(ctx)
	if err != nil {
		return Result{}, err
	}
	rev, err := remote.find(r.Ref)
	if err != nil {
		return Result{}, err
	}
	tree := r.staging(treeName)
	if err := os.MkdirAll(tree, 0o755); err != nil {
		return Result{}, err
	}
	if err := r.initialize(ctx, tree, remote); err != nil {
		return Result{}, err
	}
	commit, err := r.fetchClone(ctx, tree, rev)
	if err != nil {
		return Result{}, err
	}
	if err := r.move(ctx, tree, rev, commit); err != nil {
		return Result{}, err
	}
	if err := r.save(ctx, tree, headState{Commit: commit, Branch: rev.branch}); err != nil {
		return Result{}, err
	}
	return Result{Commit: commit, Ref: rev.ref, Changed: true}, r.create(r.staging(readyName), "", 0o600)
}

// initialize makes the repository as git clone would.
func (r *run) initialize(ctx context.Context, tree string, remote refs) error {
	commands := [][]string{
		{"init", "--quiet"},
		{"config", "remote.origin.url", r.URL},
		{"config", "remote.origin.fetch", everything[0]},
	}
	if branch, ok := strings.CutPrefix(remote.head, "refs/heads/"); ok {
		commands = append(commands, []string{"symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/" + branch})
	}
	for _, args := range commands {
		if _, err := r.git.run(ctx, tree, args...); err != nil {
			return err
		}
	}
	return nil
}

// fetchClone fetches everything, and also rev if that is not included.
func (r *run) fetchClone(ctx context.Context, tree string, rev revision) (string, error) {
	if err := r.fetch(ctx, tree, everything...); err != nil {
		return "", err
	}
	switch {
	case rev.branch != "":
		return r.resolve(ctx, tree, "refs/remotes/origin/"+rev.branch, rev)
	case strings.HasPrefix(rev.ref, "refs/tags/"):
		return r.resolve(ctx, tree, rev.ref, rev)
	}
	id, err := r.fetchRevision(ctx, tree, rev)
	if err == nil {
		// Nobody else should see the name; HEAD keeps the commit from here on.
		_, err = r.git.run(ctx, tree, "update-ref", "-d", fetched)
	}
	return id, err
}

// unstage moves a complete clone to its destination.
func (r *run) unstage(ctx context.Context) error {
	tree := r.staging(treeName)
	err := moveNames(ctx, r.Dir, tree)
	if err == nil {
		err = moveTo(r.Dir, tree, ".git")
	}
	if err != nil {
		return fmt.Errorf("cannot finish the clone: %w", err)
	}
	// The renames changed the files' attributes that the index holds. Refresh it now, so
	// that commands which cannot write the index need not compare all files each time.
	if _, err := r.git.ok(ctx, r.Dir, "update-index", "--quiet", "--refresh"); err != nil {
		return err
	}
	return r.remove(r.staging())
}

// moveNames moves the entries of a directory into another, all but .git. A list of a
// directory may miss some of its entries while others leave it, so it looks again until
// none are left. A directory that is gone has none.
func moveNames(ctx context.Context, to, from string) error {
	for moved := true; moved; {
		if ctx.Err() != nil {
			return ctx.Err() // somebody keeps adding to it
		}
		moved = false
		err := eachName(from, func(name string) error {
			if name == ".git" {
				return nil
			}
			moved = true
			return moveTo(to, from, name)
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// moveTo moves the entry name of a directory into another, which must have no entry with
// this name. If the entry is gone, an earlier run has moved it.
func moveTo(to, from, name string) error {
	source, dest := filepath.Join(from, name), filepath.Join(to, name)
	err := unix.Renameat2(unix.AT_FDCWD, source, unix.AT_FDCWD, dest, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// The file system, or the kernel's sandbox, cannot do both in one.
		if _, err = os.Lstat(dest); err == nil {
			err = unix.EEXIST
		} else {
			err = os.Rename(source, dest)
		}
	}
	switch {
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%s is in the way", dest)
	case errors.Is(err, os.ErrNotExist):
		return nil
	}
	return err
}
