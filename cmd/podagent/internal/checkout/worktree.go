package checkout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
)

// headState is what HEAD names.
type headState struct {
	Commit string `json:"commit"`
	Branch string `json:"branch,omitempty"` // the short name; empty if detached
}

// stateName is the file in the repository with the states that checkouts left.
const stateName = "podagent-checkout"

// head returns the state of HEAD.
func (r *run) head(ctx context.Context) (headState, error) {
	commit, err := r.git.commit(ctx, r.Dir, "HEAD")
	if err != nil {
		return headState{}, err
	}
	ref, err := r.git.run(ctx, r.Dir, "symbolic-ref", "--quiet", "HEAD")
	if errors.As(err, new(*gitError)) {
		return headState{Commit: commit}, nil
	}
	return headState{Commit: commit, Branch: strings.TrimPrefix(ref, "refs/heads/")}, err
}

// gitDir returns the directory of the repository of the work tree at dir.
func (r *run) gitDir(ctx context.Context, dir string) (string, error) {
	return r.git.run(ctx, dir, "rev-parse", "--absolute-git-dir")
}

// save stores the states in which this checkout leaves HEAD, or may leave it.
func (r *run) save(ctx context.Context, dir string, where ...headState) error {
	dir, err := r.gitDir(ctx, dir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, stateName)
	data, err := json.Marshal(where)
	if err != nil {
		return err
	}
	if there, err := r.readState(ctx, path); err == nil && bytes.Equal(there, data) {
		return nil // the tree may be another user's
	}
	if err := r.remove(path + ".new"); err != nil {
		return err
	}
	if err := r.create(path+".new", string(data), 0o644); err != nil {
		return err
	}
	return r.files.Rename(ctx, path+".new", path, fsops.RenameOptions{})
}

// saved returns the states that save stored; nil if there are none.
func (r *run) saved(ctx context.Context) ([]headState, error) {
	dir, err := r.gitDir(ctx, r.Dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, stateName)
	data, err := r.readState(ctx, path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var where []headState
	if err := json.Unmarshal(data, &where); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return where, nil
}

func (r *run) readState(ctx context.Context, path string) ([]byte, error) {
	var data bytes.Buffer
	_, err := r.files.Read(ctx, path, &data, fsops.ReadOptions{Length: maxState})
	return data.Bytes(), err
}

// untouched returns a keptError if somebody has worked in the tree.
func (r *run) untouched(ctx context.Context, head headState) error {
	if err := r.noOperation(ctx); err != nil {
		return err
	}
	changes, err := r.git.run(ctx, r.Dir, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
	if err != nil {
		return err
	}
	if first, _, _ := strings.Cut(changes, "\n"); first != "" {
		return keptError{fmt.Sprintf("there are uncommitted changes: %s", strings.TrimSpace(first))}
	}
	where, err := r.saved(ctx)
	if err != nil || slices.Contains(where, head) {
		return err
	}
	if len(where) == 0 {
		return r.published(ctx, head)
	}
	if last := where[len(where)-1]; last.Branch != head.Branch {
		return keptError{fmt.Sprintf("HEAD was moved from %s to %s", last.describe(), head.describe())}
	}
	return keptError{fmt.Sprintf("HEAD was moved: it is %s, not %s", short(head.Commit), short(where[len(where)-1].Commit))}
}

func (r headState) describe() string {
	if r.Branch == "" {
		return "commit " + short(r.Commit)
	}
	return fmt.Sprintf("branch %q", r.Branch)
}

func short(commit string) string { return commit[:min(len(commit), 12)] }

// operations are the files that show an unfinished operation.
var operations = []struct{ file, what string }{
	{"MERGE_HEAD", "a merge"},
	{"CHERRY_PICK_HEAD", "a cherry-pick"},
	{"REVERT_HEAD", "a revert"},
	{"rebase-merge", "a rebase"},
	{"rebase-apply", "a rebase"},
	{"BISECT_LOG", "a bisection"},
}

// noOperation returns a keptError if the tree has an unfinished operation.
func (r *run) noOperation(ctx context.Context) error {
	dir, err := r.gitDir(ctx, r.Dir)
	if err != nil {
		return err
	}
	for _, o := range operations {
		if _, err := os.Lstat(filepath.Join(dir, o.file)); err == nil {
			return keptError{o.what + " is under way"}
		}
	}
	return nil
}

// published returns a keptError if HEAD, in a tree that was not made here, is
// at a commit that the remote may not have.
func (r *run) published(ctx context.Context, head headState) error {
	if head.Commit == "" {
		return nil
	}
	names, err := r.git.run(ctx, r.Dir, "for-each-ref", "--count=1", "--contains="+head.Commit, "refs/remotes/origin", "refs/tags")
	if err == nil && names == "" {
		err = keptError{fmt.Sprintf("HEAD is %s, which origin may not have", short(head.Commit))}
	}
	return err
}

// mayMove returns a keptError if moving to next would lose commits of a branch.
func (r *run) mayMove(ctx context.Context, head, next headState) error {
	if next.Branch == "" {
		return nil
	}
	local, err := r.git.commit(ctx, r.Dir, "refs/heads/"+next.Branch)
	if err != nil || local == "" {
		return err
	}
	behind, err := r.git.ok(ctx, r.Dir, "merge-base", "--is-ancestor", local, next.Commit)
	switch {
	case err != nil || behind:
		return err
	case head.Branch == next.Branch:
		return keptError{fmt.Sprintf("branch %q of origin was rewritten: it cannot be fast-forwarded", next.Branch)}
	}
	return keptError{fmt.Sprintf("branch %q has commits that origin's has not", next.Branch)}
}

// move checks out the commit of rev. Git refuses if that would lose a change or an
// untracked file, ignored or not.
func (r *run) move(ctx context.Context, dir string, rev revision, commit string) error {
	if rev.branch == "" {
		_, err := r.git.run(ctx, dir, "checkout", "--quiet", "--no-overwrite-ignore", "--detach", commit, "--")
		return err
	}
	here, err := r.git.run(ctx, dir, "symbolic-ref", "--quiet", "HEAD")
	if err != nil && !errors.As(err, new(*gitError)) {
		return err
	}
	local, err := r.git.commit(ctx, dir, "refs/heads/"+rev.branch)
	if err != nil {
		return err
	}
	// A merge cannot lose a commit that is made at this moment.
	args := []string{"merge", "--quiet", "--ff-only", "--no-overwrite-ignore", commit}
	if here != "refs/heads/"+rev.branch || local == "" {
		args = []string{"checkout", "--quiet", "--no-overwrite-ignore", "-B", rev.branch, "--track", "refs/remotes/origin/" + rev.branch, "--"}
	}
	_, err = r.git.run(ctx, dir, args...)
	return err
}
