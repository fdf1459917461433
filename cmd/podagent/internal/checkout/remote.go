package checkout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// fetched is the temporary name of a fetched commit.
const fetched = "refs/podagent/fetched"

// isCommitID reports whether ref is a commit id, which may be abbreviated to the
// four digits that git takes.
func isCommitID(ref string) bool {
	return len(ref) >= 4 && len(ref) <= 64 && strings.Trim(ref, "0123456789abcdefABCDEF") == ""
}

// target is the ref or the commit to check out.
type target struct {
	ref    string // the full name; empty for a commit
	branch string // the branch's short name; empty if it is none
	id     string // the given commit id, if ref is empty
}

// full reports whether the id is not abbreviated.
func (t target) full() bool { return len(t.id) == 40 || len(t.id) == 64 }

// refs are a remote's refs by name, and the branch that its HEAD names.
type refs struct {
	ids  map[string]string
	head string
}

// network runs a git command that talks to the server.
func (r *run) network(ctx context.Context, dir string, args ...string) (string, error) {
	if r.relay != nil {
		r.relay.fail(nil)
		// The relay is on this machine, whatever proxy the environment names.
		args = append([]string{"-c", "http.proxy="}, args...)
	}
	return r.git.run(ctx, dir, args...)
}

// remoteURL is the URL that git is told.
func (r *run) remoteURL() string {
	if r.relay != nil {
		return r.relay.url
	}
	return r.URL
}

// list asks the server for its refs.
func (r *run) list(ctx context.Context) (refs, error) {
	out, err := r.network(ctx, "", "ls-remote", "--symref", "--", r.remoteURL())
	found := refs{ids: map[string]string{}}
	for line := range strings.Lines(out) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if symref, ok := strings.CutPrefix(id, "ref: "); ok {
			if name == "HEAD" {
				found.head = symref
			}
			continue
		}
		found.ids[name] = id
	}
	if found.head == "" {
		found.guessHead()
	}
	return found, err
}

// guessHead finds the branch that HEAD may name, where the server only says
// which commit it is.
func (f *refs) guessHead() {
	var branches []string
	for name, id := range f.ids {
		if strings.HasPrefix(name, "refs/heads/") && id == f.ids["HEAD"] {
			branches = append(branches, name)
		}
	}
	slices.Sort(branches)
	for _, usual := range []string{"refs/heads/main", "refs/heads/master"} {
		if slices.Contains(branches, usual) {
			branches = []string{usual}
		}
	}
	if len(branches) > 0 {
		f.head = branches[0]
	}
}

// find returns what ref means: a branch before a tag, as git has it, and a
// commit if neither is there.
func (f refs) find(ref string) (target, error) {
	names := []string{"refs/heads/" + ref, "refs/tags/" + ref}
	switch {
	case ref == "" && len(f.ids) == 0:
		return target{}, errors.New("the repository is empty: there is no commit to check out")
	case ref == "" && f.head == "" && f.ids["HEAD"] != "":
		return target{id: f.ids["HEAD"]}, nil
	case ref == "":
		if names = []string{f.head}; f.ids[f.head] == "" {
			return target{}, errors.New("the repository's HEAD names no branch that exists: say which ref to check out")
		}
	case strings.HasPrefix(ref, "refs/"):
		names = []string{ref}
	}
	for _, name := range names {
		if f.ids[name] != "" {
			branch, ok := strings.CutPrefix(name, "refs/heads/")
			if !ok {
				branch = ""
			}
			return target{ref: name, branch: branch}, nil
		}
	}
	if isCommitID(ref) {
		return target{id: strings.ToLower(ref)}, nil
	}
	return target{}, missing(ref)
}

// commit returns the commit that a ref names, as the server says; empty if it
// does not.
func (f refs) commit(t target) string {
	if peeled := f.ids[t.ref+"^{}"]; peeled != "" {
		return peeled
	}
	return f.ids[t.ref]
}

func missing(ref string) error {
	return fmt.Errorf("there is no branch, tag or commit %q", ref)
}

// commit returns the commit that a name means in the repository at dir; empty
// if there is none.
func (g *git) commit(ctx context.Context, dir, name string) (string, error) {
	id, err := g.run(ctx, dir, "rev-parse", "--verify", "--quiet", name+"^{commit}")
	if errors.As(err, new(*gitError)) {
		return "", nil
	}
	return id, err
}

// everything are the refspecs of a clone.
var everything = []string{"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"}

// fetch fetches refspecs from the server into the repository at dir.
func (r *run) fetch(ctx context.Context, dir string, refspecs ...string) error {
	args := append([]string{"fetch", "--quiet", "--no-tags", "--", r.remoteURL()}, refspecs...)
	_, err := r.network(ctx, dir, args...)
	return err
}

// fetchTarget fetches t into the repository at dir, under the name fetched, and
// returns its commit. What it has already is not fetched. A server may refuse
// to give a commit by its id, and cannot know an abbreviated one: then it is
// looked for in everything that there is.
func (r *run) fetchTarget(ctx context.Context, dir string, t target) (string, error) {
	if t.ref != "" {
		if err := r.fetch(ctx, dir, "+"+t.ref+":"+fetched); err != nil {
			return "", err
		}
		return r.resolve(ctx, dir, fetched, t)
	}
	if id, err := r.git.commit(ctx, dir, t.id); id != "" || err != nil {
		return id, r.name(ctx, dir, id, err)
	}
	if t.full() {
		err := r.fetch(ctx, dir, "+"+t.id+":"+fetched)
		if err == nil {
			return r.resolve(ctx, dir, fetched, t)
		}
		if !errors.As(err, new(*gitError)) || r.relay.failed() {
			return "", err
		}
	}
	if err := r.fetch(ctx, dir, everything...); err != nil {
		return "", err
	}
	id, err := r.resolve(ctx, dir, t.id, t)
	return id, r.name(ctx, dir, id, err)
}

// name names a commit fetched, unless there is an error already.
func (r *run) name(ctx context.Context, dir, id string, err error) error {
	if err == nil {
		_, err = r.git.run(ctx, dir, "update-ref", fetched, id)
	}
	return err
}

// resolve is git.commit, where to find none is an error.
func (r *run) resolve(ctx context.Context, dir, name string, t target) (string, error) {
	id, err := r.git.commit(ctx, dir, name)
	switch {
	case err != nil:
		return "", err
	case id == "" && t.ref == "":
		return "", missing(t.id)
	case id == "":
		return "", fmt.Errorf("%s is not a commit", t.ref)
	}
	return id, nil
}
