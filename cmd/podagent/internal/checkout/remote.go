package checkout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

// revision is the ref or the commit to check out.
type revision struct {
	ref    string // the full name; empty for a commit
	branch string // the branch's short name; empty for a tag or a commit
	id     string // the given commit id, if ref is empty
}

// full reports whether the id is not abbreviated.
func (rev revision) full() bool { return len(rev.id) == 40 || len(rev.id) == 64 }

// refs are those of a remote's refs that matter for a checkout. A remote may have
// millions of others.
type refs struct {
	wanted []string          // by name
	ids    map[string]string // by name
	head   string            // the branch that HEAD names
	// guessed says that the server reports only the commit of HEAD, and head is a branch
	// that has it.
	guessed bool
	any     bool // the remote has refs
}

// network runs a git command that talks to the server.
func (r *run) network(ctx context.Context, stdout io.Writer, dir string, args ...string) error {
	if r.relay != nil {
		r.relay.fail(nil)
		// The relay is on this machine, whatever proxy the environment names.
		args = append([]string{"-c", "http.proxy="}, args...)
	}
	return r.git.runTo(ctx, stdout, dir, args...)
}

// remoteURL is the URL that git gets.
func (r *run) remoteURL() string {
	if r.relay != nil {
		return r.relay.url
	}
	return r.URL
}

// list asks the server for its refs.
func (r *run) list(ctx context.Context) (refs, error) {
	found := refs{wanted: names(r.Ref), ids: map[string]string{}}
	err := r.network(ctx, &lines{use: found.add}, "", "ls-remote", "--symref", "--", r.remoteURL())
	return found, err
}

// names returns the full names that a ref may have: a branch rather than a tag, as in
// git.
func names(ref string) []string {
	switch {
	case ref == "":
		return nil
	case strings.HasPrefix(ref, "refs/"):
		return []string{ref}
	}
	return []string{"refs/heads/" + ref, "refs/tags/" + ref}
}

// add takes a line of the list, in which HEAD is the first.
func (f *refs) add(line string) {
	id, name, _ := strings.Cut(line, "\t")
	if branch, ok := strings.CutPrefix(id, "ref: "); ok {
		if name == "HEAD" {
			f.head = branch
		}
		return
	}
	f.any = true
	switch {
	case name == "HEAD" || name == f.head || slices.Contains(f.wanted, strings.TrimSuffix(name, "^{}")):
		f.ids[name] = id
	case strings.HasPrefix(name, "refs/heads/") && id == f.ids["HEAD"]:
		f.guess(name)
	}
}

// usual are the branches that HEAD names most often.
var usual = []string{"refs/heads/main", "refs/heads/master"}

// guess takes a branch with the commit of HEAD for the one that HEAD names, unless the
// server reports that one, or another is likelier.
func (f *refs) guess(branch string) {
	if f.head != "" && !f.guessed {
		return
	}
	rank := func(name string) int {
		if i := slices.Index(usual, name); i >= 0 {
			return i
		}
		return len(usual)
	}
	if f.head == "" || cmp.Or(rank(branch)-rank(f.head), strings.Compare(branch, f.head)) < 0 {
		f.head, f.guessed = branch, true
	}
}

// find returns the meaning of ref: a name of names, or else a commit.
func (f refs) find(ref string) (revision, error) {
	names := f.wanted
	switch {
	case ref == "" && !f.any:
		return revision{}, errors.New("the repository is empty: there is no commit to check out")
	case ref == "" && f.head == "" && f.ids["HEAD"] != "":
		return revision{id: f.ids["HEAD"]}, nil
	case ref == "":
		if names = []string{f.head}; f.guessed {
			f.ids[f.head] = f.ids["HEAD"]
		}
		if f.ids[f.head] == "" {
			return revision{}, errors.New("the repository's HEAD names no branch that exists: say which ref to check out")
		}
	}
	for _, name := range names {
		if f.ids[name] != "" {
			branch, ok := strings.CutPrefix(name, "refs/heads/")
			if !ok {
				branch = ""
			}
			return revision{ref: name, branch: branch}, nil
		}
	}
	if isCommitID(ref) {
		return revision{id: strings.ToLower(ref)}, nil
	}
	return revision{}, missing(ref)
}

// commit returns the commit that the server lists for a ref; empty if it lists none.
func (f refs) commit(rev revision) string {
	if peeled := f.ids[rev.ref+"^{}"]; peeled != "" {
		return peeled
	}
	return f.ids[rev.ref]
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
	return r.network(ctx, io.Discard, dir, args...)
}

// fetchRevision fetches rev into the repository at dir, under the name fetched, and
// returns its commit. It does not fetch a commit that is there already. A server may
// refuse to give a commit by its id, and cannot know an abbreviated one: then
// fetchRevision fetches everything and looks there.
func (r *run) fetchRevision(ctx context.Context, dir string, rev revision) (string, error) {
	if rev.ref != "" {
		if err := r.fetch(ctx, dir, "+"+rev.ref+":"+fetched); err != nil {
			return "", err
		}
		return r.resolve(ctx, dir, fetched, rev)
	}
	if id, err := r.git.commit(ctx, dir, rev.id); id != "" || err != nil {
		return id, r.name(ctx, dir, id, err)
	}
	if rev.full() {
		err := r.fetch(ctx, dir, "+"+rev.id+":"+fetched)
		if err == nil {
			return r.resolve(ctx, dir, fetched, rev)
		}
		if !errors.As(err, new(*gitError)) || r.relay.failed() {
			return "", err
		}
	}
	if err := r.fetch(ctx, dir, everything...); err != nil {
		return "", err
	}
	id, err := r.resolve(ctx, dir, rev.id, rev)
	return id, r.name(ctx, dir, id, err)
}

// name gives a commit the name fetched, unless err is set.
func (r *run) name(ctx context.Context, dir, id string, err error) error {
	if err == nil {
		_, err = r.git.run(ctx, dir, "update-ref", fetched, id)
	}
	return err
}

// resolve is git.commit, but it is an error if there is no commit.
func (r *run) resolve(ctx context.Context, dir, name string, rev revision) (string, error) {
	id, err := r.git.commit(ctx, dir, name)
	switch {
	case err != nil:
		return "", err
	case id == "" && rev.ref == "":
		return "", missing(rev.id)
	case id == "":
		return "", fmt.Errorf("%s is not a commit", rev.ref)
	}
	return id, nil
}
