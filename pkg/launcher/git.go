package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/podagent/podagent/pkg/podapi"
)

// defaultUsername goes with a password alone: servers that take a token as the
// password want some name with it, and do not care which.
const defaultUsername = "x-access-token"

// Git is a repository that the sandbox's git program puts into the workdir.
//
// An empty workdir gets a clone with its whole history, on a local branch that tracks
// the remote's, or detached at a tag or commit. In a work tree of the same repository
// the ref is fetched, and its commit checked out; a branch is only fast-forwarded. The
// work tree stays as it is, and the launcher's log says why, where there are
// uncommitted changes, where HEAD has moved since the last checkout, or where a file
// would be overwritten. Any other workdir is an error. Submodules and Git LFS are not
// touched.
//
// Username and Password reach the agent in the sandbox by its connection, and from
// there the server of the URL: no other process, file or environment has them. An
// agent too old for that is an error ([podapi.ErrVersion]). Code that is root in the
// sandbox can look into the agent, and replace certificates: give credentials that
// are short-lived and for reading only.
type Git struct {
	// URL is the repository's: https, http, ssh (also as [user@]host:path), git, file, or an absolute path
	// in the sandbox. The work tree's configuration keeps it, so a password in it is an error.
	URL string
	// Ref is a branch, a tag (after branches), a commit, also abbreviated, or a name
	// that begins with refs/. Empty means the remote's default branch.
	Ref string
	// Username and Password are for https and http. A token is a password; an empty Username becomes a made-up one.
	Username, Password string
	Timeout            time.Duration // bounds the checkout; 0 means DefaultGitTimeout
	// Before, unless nil, is called once the agent answers, to serve Spec.Egress, say. Its error fails the launch.
	Before func(context.Context, *Sandbox) error
}

// GitError says in Msg, in git's words without secrets, why a repository could not be
// put into the sandbox. URL names no user.
type GitError struct{ URL, Ref, Msg string }

func (e *GitError) Error() string { return doingCheckout(e.URL, e.Ref) + ": " + e.Msg }

func doingCheckout(url, ref string) string {
	if ref == "" {
		return "checking out " + url
	}
	return fmt.Sprintf("checking out %q of %s", ref, url)
}

// gitProtocols are those that git speaks without a helper program.
var gitProtocols = []string{"https", "http", "ssh", "git", "file"}

// validate returns a *[SpecError] for the first field that is wrong.
func (g *Git) validate() error {
	if msg := checkGitURL(g.URL); msg != "" {
		return &SpecError{"Git.URL", msg}
	}
	web := strings.HasPrefix(g.URL, "https://") || strings.HasPrefix(g.URL, "http://")
	switch {
	case g.Ref != "" && !validRef(g.Ref):
		return &SpecError{"Git.Ref", fmt.Sprintf("%q is not the name of a branch, tag or commit", g.Ref)}
	case g.Timeout < 0:
		return &SpecError{"Git.Timeout", fmt.Sprintf("%v is negative", g.Timeout)}
	case !utf8.ValidString(g.Username) || strings.ContainsFunc(g.Username, unicode.IsControl) || strings.Contains(g.Username, ":"):
		return &SpecError{"Git.Username", "has a colon or a control character in it, or is not UTF-8"}
	case !utf8.ValidString(g.Password) || strings.ContainsFunc(g.Password, unicode.IsControl):
		return &SpecError{"Git.Password", "has a control character in it (a newline at its end?), or is not UTF-8"}
	case g.Password != "" && !web:
		return &SpecError{"Git.Password", "is for URLs that begin with https:// or http://"}
	case g.Username != "" && g.Password == "":
		return &SpecError{"Git.Username", "has no Password with it"}
	}
	return nil
}

// checkGitURL says what is wrong with a URL. It does not repeat parts that may hold
// a password.
func checkGitURL(u string) string {
	scheme, _, isURL := strings.Cut(u, "://")
	host, _, isScp := strings.Cut(u, ":")
	switch {
	case strings.TrimSpace(u) == "":
		return "is empty"
	case !utf8.ValidString(u) || strings.ContainsFunc(u, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return "has white space or a control character in it, or is not UTF-8"
	case strings.HasPrefix(u, "-"):
		return "begins with a dash"
	case strings.HasPrefix(u, "/"):
		return ""
	case isScp && strings.HasPrefix(u[len(host):], "::"):
		return fmt.Sprintf("has the remote helper %q in it, which would run a program", host)
	case isURL:
		return checkGitProtocol(scheme, u)
	case isScp && host != "" && !strings.Contains(host, "/"):
		return ""
	}
	return "is neither a URL, nor host:path, nor an absolute path"
}

func checkGitProtocol(scheme, u string) string {
	parsed, err := url.Parse(u)
	web := scheme == "https" || scheme == "http"
	switch {
	case !slices.Contains(gitProtocols, scheme):
		return fmt.Sprintf("has the protocol %q: it may be one of %s", scheme, strings.Join(gitProtocols, ", "))
	case err != nil:
		return "is not a URL"
	case parsed.Host == "" && scheme != "file":
		return "names no host"
	case parsed.User != nil && web:
		return "has a user in it, and perhaps a password or token, which would be kept in the work tree: use Username and Password"
	case parsed.User != nil && hasPassword(parsed.User):
		return "has a password in it: it would be kept in the work tree"
	}
	return ""
}

func hasPassword(u *url.Userinfo) bool {
	_, has := u.Password()
	return has
}

// validRef reports whether git accepts a name as a ref, by the rules of
// git-check-ref-format(1), and cannot mistake it for an option.
func validRef(ref string) bool {
	for part := range strings.SplitSeq(ref, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return ref != "@" && !strings.HasPrefix(ref, "-") && !strings.HasSuffix(ref, ".") &&
		!strings.Contains(ref, "..") && !strings.Contains(ref, "@{") &&
		!strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }) &&
		utf8.ValidString(ref)
}

// checkout checks out in the sandbox. The agent does it in its own process, which its
// commands cannot look into: a command would have the password in its input, before it
// could hide it.
func (g *Git) checkout(ctx context.Context, s *Sandbox, log *slog.Logger) error {
	if g.Before != nil {
		if err := g.Before(ctx, s); err != nil {
			return err
		}
	}
	timeout := cmp.Or(g.Timeout, DefaultGitTimeout)
	timely, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result, err := s.Checkout(timely, podapi.Checkout{
		Dir: s.Workdir, URL: g.URL, Ref: g.Ref, Username: g.username(), Password: g.Password,
	})
	if errors.Is(err, context.DeadlineExceeded) {
		<-timely.Done() // gRPC reads the clock, and can be ahead of the context's timer
	}
	failed, ok := errors.AsType[*fs.PathError](err)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", g.doing(), context.Cause(ctx))
	case timely.Err() != nil:
		return g.failure(fmt.Sprintf("it took longer than %v", timeout))
	case ok && !errors.Is(err, podapi.ErrUnavailable):
		return g.failure(failed.Err.Error())
	default:
		return fmt.Errorf("%s: %w", g.doing(), err)
	}
	switch {
	case result.Kept != "":
		log.WarnContext(ctx, "kept the work tree as it is", "id", s.ID, "reason", result.Kept, "commit", result.Commit)
	case result.Changed:
		log.InfoContext(ctx, "checked out", "id", s.ID, "url", redactURL(g.URL), "ref", result.Ref, "commit", result.Commit)
	}
	return nil
}

func (g *Git) failure(msg string) error {
	return &GitError{URL: redactURL(g.URL), Ref: g.Ref, Msg: msg}
}

// username is the name that goes with the password.
func (g *Git) username() string {
	if g.Password == "" {
		return ""
	}
	return cmp.Or(g.Username, defaultUsername)
}

func (g *Git) doing() string { return doingCheckout(redactURL(g.URL), g.Ref) }

// redactURL leaves out the user and password.
func redactURL(u string) string {
	parsed, err := url.Parse(u)
	if err != nil || parsed.User == nil {
		return u
	}
	parsed.User = nil
	return parsed.String()
}
