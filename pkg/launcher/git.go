package launcher

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/podagent/podagent/pkg/podapi"
)

// defaultUsername goes with a password alone: servers that take a token as the
// password want some name with it, and do not care which.
const defaultUsername = "x-access-token"

// Git is a repository that Launch puts into a sandbox's workdir, by the git program
// there.
//
// An empty workdir gets a clone with its whole history, on a local branch that tracks
// the remote's, or detached at a tag or commit. In a work tree of the same repository
// the ref is fetched, and its commit checked out; a branch is only fast-forwarded. The
// work tree stays as it is, and the launcher's log says why, where there are
// uncommitted changes, where HEAD has moved since the last checkout, or where a file
// would be overwritten. Any other workdir is an error. Submodules and Git LFS are not
// touched.
//
// Username and Password reach the agent's program in the sandbox by its standard
// input, and from there the server of the URL: git, hooks, files and environments
// never have them. Code that is root in the sandbox can replace programs and
// certificates, and so may get them on the next launch: give credentials that are
// short-lived and for reading only.
type Git struct {
	// URL is where the repository is: https, http, ssh (also as
	// [user@]host:path), git, file, or an absolute path in the sandbox. The work
	// tree's configuration keeps it, so a password in it is an error.
	URL string
	// Ref is a branch, a tag (after branches), a commit, also abbreviated, or a name
	// that begins with refs/. Empty means the remote's default branch.
	Ref string
	// Username and Password are for https and http. A token is a password; an empty
	// Username is replaced by a placeholder.
	Username, Password string
	// Timeout bounds the checkout; 0 means DefaultGitTimeout.
	Timeout time.Duration
}

// GitError says in Msg, which is git's without secrets, why a repository could not be
// put into the sandbox. URL names no user; Ref is empty for the default branch.
type GitError struct{ URL, Ref, Msg string }

func (e *GitError) Error() string { return doingCheckout(e.URL, e.Ref) + ": " + e.Msg }

func doingCheckout(url, ref string) string {
	if ref == "" {
		return "checking out " + url
	}
	return fmt.Sprintf("checking out %q of %s", ref, url)
}

// gitProtocols are those that git speaks without another program.
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

// checkGitURL says what is wrong with a URL. It does not repeat what may hold a
// password.
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

// validRef reports whether git takes a name for a ref's, by the rules of
// git-check-ref-format(1), and cannot take it for an option.
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

// checkout checks out in the sandbox, by the agent's own program: one that the
// PATH finds may be anybody's, and would get the credentials. It is one
// process, which ends by itself when the connection is cut.
func (g *Git) checkout(ctx context.Context, s *Sandbox, log *slog.Logger) error {
	info, err := s.Info(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", g.doing(), err)
	}
	// The end of ctx is to be TERM first: git's temporary files can be large.
	running, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	cmd := s.Command(running, info.Executable, "checkout", "--dir", s.Workdir, "--url", g.URL, "--ref", g.Ref)
	cmd.Timeout = cmp.Or(g.Timeout, DefaultGitTimeout)
	if g.Password != "" {
		credentials, err := json.Marshal(map[string]string{"username": g.username(), "password": g.Password})
		if err != nil {
			return err
		}
		cmd.Stdin = bytes.NewReader(credentials)
	}
	out, messages, err := runGently(ctx, cmd, kill)
	if err != nil {
		return g.failure(ctx, cmd, err, messages)
	}
	var result struct {
		Commit, Ref, Kept string
		Changed           bool
	}
	if err := json.Unmarshal(out, &result); err != nil {
		return fmt.Errorf("%s: reading the result: %w", g.doing(), err)
	}
	switch {
	case result.Kept != "":
		log.WarnContext(ctx, "kept the work tree as it is", "id", s.ID, "reason", result.Kept, "commit", result.Commit)
	case result.Changed:
		log.InfoContext(ctx, "checked out", "id", s.ID, "url", redactURL(g.URL), "ref", result.Ref, "commit", result.Commit)
	}
	return nil
}

// runGently runs a command to its end, or until ctx ends: then it gets TERM, and
// a while later kill, which ends its own context.
func runGently(ctx context.Context, cmd *podapi.Cmd, kill func()) (stdout, stderr []byte, err error) {
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	unstarted := context.AfterFunc(ctx, kill)
	err = cmd.Start()
	unstarted()
	if err == nil {
		ended := context.AfterFunc(ctx, func() {
			time.AfterFunc(checkoutGrace, kill)
			_ = cmd.Process.Signal(syscall.SIGTERM) // if it does not arrive, kill ends the wait
		})
		err = cmd.Wait()
		ended()
	}
	return out.Bytes(), messages.Bytes(), err
}

// failure says why a checkout failed.
func (g *Git) failure(ctx context.Context, cmd *podapi.Cmd, err error, messages []byte) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", g.doing(), context.Cause(ctx))
	}
	exit, ok := errors.AsType[*podapi.ExitError](err)
	if !ok {
		return fmt.Errorf("%s: %w", g.doing(), err)
	}
	failed := &GitError{URL: redactURL(g.URL), Ref: g.Ref}
	text := strings.TrimPrefix(strings.TrimSpace(string(messages)), "podagent: ")
	switch {
	case exit.Reason == podapi.TimedOut:
		failed.Msg = fmt.Sprintf("it took longer than %v", cmd.Timeout)
	case exit.Reason == podapi.Exited && text != "":
		failed.Msg = g.redact(text)
	default:
		failed.Msg = fmt.Sprintf("podagent checkout ended with %v", exit.ExitStatus)
	}
	return failed
}

func (g *Git) username() string { return cmp.Or(g.Username, defaultUsername) }

func (g *Git) doing() string { return doingCheckout(redactURL(g.URL), g.Ref) }

// redact takes the password out of a text, in each form that it may have taken
// on its way to the server and back.
func (g *Git) redact(text string) string {
	if g.Password == "" {
		return text
	}
	pair := g.username() + ":" + g.Password
	for _, secret := range []string{
		base64.StdEncoding.EncodeToString([]byte(pair)),
		base64.RawStdEncoding.EncodeToString([]byte(pair)),
		base64.StdEncoding.EncodeToString([]byte(g.Password)),
		base64.RawStdEncoding.EncodeToString([]byte(g.Password)),
		g.Password, url.QueryEscape(g.Password), url.PathEscape(g.Password),
	} {
		text = strings.ReplaceAll(text, secret, "[REDACTED]")
	}
	return text
}

// redactURL leaves out the user and password.
func redactURL(u string) string {
	parsed, err := url.Parse(u)
	if err != nil || parsed.User == nil {
		return u
	}
	parsed.User = nil
	return parsed.String()
}
