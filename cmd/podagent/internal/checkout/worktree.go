package checkout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// record is where a checkout put HEAD.
type record struct {
	Commit string `json:"commit"`
	Branch string `json:"branch,omitempty"` // the short name; empty if detached
}

// recordName is the file in the repository that has the records.
const recordName = "podagent-checkout"

// head returns where HEAD is.
func (r *run) head(ctx context.Context) (record, error) {
	commit, err := r.git.commit(ctx, r.Dir, "HEAD")
	if err != nil {
		return record{}, err
	}
	ref, err := r.git.run(ctx, r.Dir, "symbolic-ref", "--quiet", "HEAD")
	if errors.As(err, new(*gitError)) {
		return record{Commit: commit}, nil
	}
	return record{Commit: commit, Branch: strings.TrimPrefix(ref, "refs/heads/")}, err
}

// gitDir returns the directory of the repository of the work tree at dir.
func (r *run) gitDir(ctx context.Context, dir string) (string, error) {
	return r.git.run(ctx, dir, "rev-parse", "--absolute-git-dir")
}

// save remembers where HEAD was put, or may have been put.
func (r *run) save(ctx context.Context, dir string, where ...record) error {
	dir, err := r.gitDir(ctx, dir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, recordName)
	data, err := json.Marshal(where)
	if err != nil {
		return err
	}
	if there, err := readRecord(path); err == nil && bytes.Equal(there, data) {
		return nil // the tree may be another user's
	}
	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// saved returns what save remembered; nil if nothing.
func (r *run) saved(ctx context.Context) ([]record, error) {
	dir, err := r.gitDir(ctx, r.Dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, recordName)
	data, err := readRecord(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var where []record
	if err := json.Unmarshal(data, &where); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return where, nil
}

func readRecord(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxRecord))
}

// untouched returns a keptError if somebody has worked in the tree.
func (r *run) untouched(ctx context.Context, head record) error {
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
		return keptError{fmt.Sprintf("HEAD was moved from %s to %s", last.place(), head.place())}
	}
	return keptError{fmt.Sprintf("HEAD was moved: it is %s, not %s", short(head.Commit), short(where[len(where)-1].Commit))}
}

func (r record) place() string {
	if r.Branch == "" {
		return "commit " + short(r.Commit)
	}
	return fmt.Sprintf("branch %q", r.Branch)
}

func short(commit string) string { return commit[:min(len(commit), 12)] }

// operations are the files that say that something is half done, and what.
var operations = []struct{ file, what string }{
	{"MERGE_HEAD", "a merge"},
	{"CHERRY_PICK_HEAD", "a cherry-pick"},
	{"REVERT_HEAD", "a revert"},
	{"rebase-merge", "a rebase"},
	{"rebase-apply", "a rebase"},
	{"BISECT_LOG", "a bisection"},
}

// noOperation returns a keptError if something is half done in the tree.
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
func (r *run) published(ctx context.Context, head record) error {
	if head.Commit == "" {
		return nil
	}
	names, err := r.git.run(ctx, r.Dir, "for-each-ref", "--count=1", "--contains="+head.Commit, "refs/remotes/origin", "refs/tags")
	if err == nil && names == "" {
		err = keptError{fmt.Sprintf("HEAD is %s, which origin may not have", short(head.Commit))}
	}
	return err
}

// mayMove returns a keptError if to move to next would lose commits from a
// branch.
func (r *run) mayMove(ctx context.Context, head, next record) error {
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

// move checks out the commit of t. Git refuses when that would lose a change,
// or an untracked file, be it ignored or not.
func (r *run) move(ctx context.Context, dir string, t target, commit string) error {
	if t.branch == "" {
		_, err := r.git.run(ctx, dir, "checkout", "--quiet", "--no-overwrite-ignore", "--detach", commit, "--")
		return err
	}
	here, err := r.git.run(ctx, dir, "symbolic-ref", "--quiet", "HEAD")
	if err != nil && !errors.As(err, new(*gitError)) {
		return err
	}
	local, err := r.git.commit(ctx, dir, "refs/heads/"+t.branch)
	if err != nil {
		return err
	}
	// A merge cannot lose a commit that is made in this very moment.
	args := []string{"merge", "--quiet", "--ff-only", "--no-overwrite-ignore", commit}
	if here != "refs/heads/"+t.branch || local == "" {
		args = []string{"checkout", "--quiet", "--no-overwrite-ignore", "-B", t.branch, "--track", "refs/remotes/origin/" + t.branch, "--"}
	}
	_, err = r.git.run(ctx, dir, args...)
	return err
}
