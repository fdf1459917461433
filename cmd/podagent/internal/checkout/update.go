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

// update brings the work tree to the commit that the ref has now, unless
// something of the user's would be lost or moved.
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
func (r *run) advance(ctx context.Context, head record, result *Result) error {
	if head.Branch == "" && head.Commit == strings.ToLower(r.Ref) {
		return nil // a commit is what it is: no need to ask
	}
	remote, err := r.list(ctx)
	if err != nil {
		return err
	}
	t, err := remote.find(r.Ref)
	if err != nil {
		return err
	}
	result.Ref = t.ref
	next := record{Commit: remote.commit(t), Branch: t.branch}
	if next != head {
		if next.Commit, err = r.bring(ctx, t); err != nil {
			return err
		}
	}
	if next == head {
		return r.save(ctx, r.Dir, head)
	}
	if err := r.mayMove(ctx, head, next); err != nil {
		return err
	}
	// A run that is killed on its way must not be taken for the user's doing.
	if err := r.save(ctx, r.Dir, head, next); err != nil {
		return err
	}
	if err := r.move(ctx, r.Dir, t, next.Commit); err != nil {
		return refusal(err)
	}
	result.Commit, result.Changed = next.Commit, true
	return r.save(ctx, r.Dir, next)
}

// refusals are in what git says when it does not begin with a checkout: files
// would be overwritten or removed, another git works in the tree (or was
// killed there), a branch is checked out in two places.
var refusals = []string{"would be", "index.lock", "already checked out", "already used by worktree"}

// refusal makes a keptError of what is a refusal of git's.
func refusal(err error) error {
	failed, ok := errors.AsType[*gitError](err)
	says := func(words string) bool { return strings.Contains(failed.msg, words) }
	if ok && slices.ContainsFunc(refusals, says) {
		return keptError{"git does not check out: " + failed.msg}
	}
	return err
}

// checkTree makes sure that this is the work tree of the repository that is
// asked for.
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

// normalize leaves out of a URL what makes no difference to a server.
func normalize(u string) string {
	return strings.TrimSuffix(strings.TrimRight(u, "/"), ".git")
}

// redact leaves out who logs in with which password.
func redact(u string) string {
	parsed, err := url.Parse(u)
	if err != nil || parsed.User == nil {
		return u[max(0, strings.LastIndexByte(u, '@')+1):]
	}
	parsed.User = nil
	return parsed.String()
}

// bring fetches t and gets its objects into the work tree's repository.
func (r *run) bring(ctx context.Context, t target) (string, error) {
	if t.id != "" {
		if id, err := r.git.commit(ctx, r.Dir, t.id); id != "" || err != nil {
			return id, err
		}
	}
	bare, err := r.makeBare(ctx)
	if err != nil {
		return "", err
	}
	commit, err := r.fetchTarget(ctx, bare, t)
	if err != nil {
		return "", err
	}
	as := fetched
	if t.branch != "" {
		as = "refs/remotes/origin/" + t.branch
	}
	// From here on it is code of the work tree's that may run.
	if _, err := r.git.run(ctx, r.Dir, "fetch", "--quiet", "--no-tags", "--", bare, "+"+fetched+":"+as); err != nil {
		return "", err
	}
	got, err := r.git.commit(ctx, r.Dir, as)
	if err == nil && got != commit {
		err = errors.New("the work tree's configuration leads a fetch elsewhere")
	}
	if err == nil && strings.HasPrefix(t.ref, "refs/tags/") {
		err = r.nameTag(ctx, t)
	}
	if err == nil && as == fetched {
		_, err = r.git.run(ctx, r.Dir, "update-ref", "-d", fetched) // git keeps the commit for days
	}
	return commit, err
}

// nameTag makes the tag that was fetched, unless there is one of that name.
func (r *run) nameTag(ctx context.Context, t target) error {
	has, err := r.git.ok(ctx, r.Dir, "rev-parse", "--verify", "--quiet", t.ref)
	if err != nil || has {
		return err
	}
	_, err = r.git.run(ctx, r.Dir, "update-ref", t.ref, fetched)
	return err
}

// makeBare makes the repository that talks to the server. It knows the objects
// of the work tree's, so that only what is new is fetched, unless those are not
// whole.
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
	return bare, os.WriteFile(filepath.Join(bare, "objects", "info", "alternates"), []byte(objects+"\n"), 0o600)
}

// gitPath returns where a file of the repository at dir is.
func (r *run) gitPath(ctx context.Context, dir, name string) (string, error) {
	path, err := r.git.run(ctx, dir, "rev-parse", "--git-path", name)
	if err == nil && !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return path, err
}
