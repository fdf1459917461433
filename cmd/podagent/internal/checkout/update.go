package checkout

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// keptError says why the work tree stays as it is. It is no failure.
type keptError struct{ why string }

func (k keptError) Error() string { return k.why }

// update brings the work tree to the commit that the ref has now, unless that would lose
// or move something of the user's.
func (r *run) update(ctx context.Context) (Result, error) {
	if err := r.checkTree(ctx); err != nil {
		return Result{}, err
	}
	head, err := r.head(ctx)
	if err != nil {
		return Result{}, err
	}
	result := Result{Commit: head.Commit}
	err = r.untouched(ctx, head)
	if err == nil {
		err = r.advance(ctx, head, &result)
	}
	if k, ok := errors.AsType[keptError](err); ok {
		result.Kept, err = k.why, nil
	}
	return result, err
}

// advance fetches the ref, and checks its commit out.
func (r *run) advance(ctx context.Context, head headState, result *Result) error {
	if head.Branch == "" && head.Commit == strings.ToLower(r.Ref) {
		return nil // a commit never changes: no need to ask
	}
	remote, err := r.list(ctx)
	if err != nil {
		return err
	}
	rev, err := remote.find(r.Ref)
	if err != nil {
		return err
	}
	result.Ref = rev.ref
	next := headState{Commit: remote.commit(rev), Branch: rev.branch}
	if next != head {
		if next.Commit, err = r.bring(ctx, rev); err != nil {
			return err
		}
	}
	if next == head {
		return r.save(ctx, r.Dir, head)
	}
	if err := r.mayMove(ctx, head, next); err != nil {
		return err
	}
	// If this run is killed, the next one must not take its work for the user's.
	if err := r.save(ctx, r.Dir, head, next); err != nil {
		return err
	}
	if err := r.move(ctx, r.Dir, rev, next.Commit); err != nil {
		return refusal(err)
	}
	result.Commit, result.Changed = next.Commit, true
	return r.save(ctx, r.Dir, next)
}

// refusals are texts in git's message when it refuses a checkout: files would be
// overwritten or removed, another git works in the tree (or was killed there), the
// branch is checked out in another work tree.
var refusals = []string{"would be", "index.lock", "already checked out", "already used by worktree"}

// refusal turns a refusal of git into a keptError.
func refusal(err error) error {
	failed, ok := errors.AsType[*gitError](err)
	says := func(words string) bool { return strings.Contains(failed.msg, words) }
	if ok && slices.ContainsFunc(refusals, says) {
		return keptError{"git does not check out: " + failed.msg}
	}
	return err
}

// checkTree makes sure that this is a work tree of the requested repository.
func (r *run) checkTree(ctx context.Context) error {
	top, err := r.git.run(ctx, r.Dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if !sameFile(top, r.Dir) {
		return fmt.Errorf("%s is not the top of its git work tree, which is %s", r.Dir, top)
	}
	there, err := r.git.run(ctx, r.Dir, "config", "--get", "remote.origin.url")
	if errors.As(err, new(*gitError)) {
		return fmt.Errorf("%s is a git work tree without a remote named origin, and not one of %s", r.Dir, redact(r.URL))
	}
	if err == nil && normalize(there) != normalize(r.URL) {
		err = fmt.Errorf("%s is a git work tree of %s, not of %s", r.Dir, redact(there), redact(r.URL))
	}
	return err
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// normalize removes the parts of a URL that make no difference to a server.
func normalize(u string) string {
	return strings.TrimSuffix(strings.TrimRight(u, "/"), ".git")
}

// redact removes the user name and the password.
func redact(u string) string {
	parsed, err := url.Parse(u)
	if err != nil || parsed.User == nil {
		return u[max(0, strings.LastIndexByte(u, '@')+1):]
	}
	parsed.User = nil
	return parsed.String()
}

// bring fetches rev and gets its objects into the work tree's repository.
func (r *run) bring(ctx context.Context, rev revision) (string, error) {
	if rev.id != "" {
		if id, err := r.git.commit(ctx, r.Dir, rev.id); id != "" || err != nil {
			return id, err
		}
	}
	bare, err := r.makeBare(ctx)
	if err != nil {
		return "", err
	}
	commit, err := r.fetchRevision(ctx, bare, rev)
	if err != nil {
		return "", err
	}
	as := fetched
	if rev.branch != "" {
		as = "refs/remotes/origin/" + rev.branch
	}
	// From here on, code of the work tree may run.
	if _, err := r.git.run(ctx, r.Dir, "fetch", "--quiet", "--no-tags", "--", bare, "+"+fetched+":"+as); err != nil {
		return "", err
	}
	got, err := r.git.commit(ctx, r.Dir, as)
	if err == nil && got != commit {
		err = errors.New("the work tree's configuration leads a fetch elsewhere")
	}
	if err == nil && strings.HasPrefix(rev.ref, "refs/tags/") {
		err = r.nameTag(ctx, rev)
	}
	if err == nil && as == fetched {
		_, err = r.git.run(ctx, r.Dir, "update-ref", "-d", fetched) // git keeps the commit for days
	}
	return commit, err
}

// nameTag makes the fetched tag, unless there is one of that name.
func (r *run) nameTag(ctx context.Context, rev revision) error {
	has, err := r.git.ok(ctx, r.Dir, "rev-parse", "--verify", "--quiet", rev.ref)
	if err != nil || has {
		return err
	}
	_, err = r.git.run(ctx, r.Dir, "update-ref", rev.ref, fetched)
	return err
}

// makeBare makes the repository that talks to the server. It knows the objects of the
// work tree's repository, so that it fetches only new ones, unless that one is shallow.
func (r *run) makeBare(ctx context.Context) (string, error) {
	bare := filepath.Join(r.git.scratch, "fetch.git")
	if _, err := r.git.run(ctx, "", "init", "--quiet", "--bare", "--template=", bare); err != nil {
		return "", err
	}
	shallow, err := r.gitPath(ctx, r.Dir, "shallow")
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(shallow); err == nil {
		return bare, nil
	}
	objects, err := r.gitPath(ctx, r.Dir, "objects")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(bare, "objects", "info"), 0o700); err != nil {
		return "", err
	}
	return bare, r.create(filepath.Join(bare, "objects", "info", "alternates"), objects+"\n", 0o600)
}

// gitPath returns where a file of the repository at dir is.
func (r *run) gitPath(ctx context.Context, dir, name string) (string, error) {
	path, err := r.git.run(ctx, dir, "rev-parse", "--git-path", name)
	if err == nil && !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return path, err
}
