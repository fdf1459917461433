// Package remote makes sandboxes through a gateway (package gateway, "orchestrator gateway"), for
// programs that have a token of it and no rights in the cluster.
//
// A [Launcher] is one like the others: its sandboxes have files, commands, terminals and connections
// to servers. What differs is that the gateway decides what a sandbox is like, as far as its tenant
// may not say: a Spec with a field that cannot be asked of a gateway is a *launcher.SpecError before
// anything is sent. Errors are those of package launcher and podapi, and each that a gateway
// answered is an *[Error].
package remote

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// Launcher makes sandboxes through a gateway. Its fields must not change after a call.
type Launcher struct {
	// URL is the gateway's: https://HOST or https://HOST:PORT. With http it must be on this machine's
	// loopback, unless AllowHTTP says otherwise.
	URL string
	// Token is what the gateway knows the caller by. TokenFile, if it is set, names a file that has
	// it instead, which is read for each request: a token may be replaced there. Its mode is not checked.
	Token, TokenFile string
	// AllowHTTP lets the token, and all else, travel unencrypted to other machines.
	AllowHTTP bool
	TLS       *tls.Config  // for https; nil means the system's roots
	Log       *slog.Logger // gets why requests are repeated; nil discards it

	setUp  sync.Once
	base   string // SCHEME://HOST[:PORT]
	host   string // HOST:PORT
	secure bool   // it is https
	http   *http.Client
	wrong  error // what is wrong with the fields
}

var _ launcher.Launcher = (*Launcher)(nil)

// Launch implements launcher.Launcher. Requests that do not reach a gateway are repeated, as are those that
// it refuses for a while, within Take.ReadyTimeout. A name is up to 36 lowercase letters, digits and
// single hyphens. Pod.Volumes name a volume of the tenant as their Claim.
//
// Close with launcher.CloseDelete removes the sandbox that has the id by then.
func (l *Launcher) Launch(ctx context.Context, spec launcher.Spec) (*launcher.Sandbox, error) {
	body, err := createOf(&spec)
	if err != nil {
		return nil, err
	}
	deletes := spec.OnClose == launcher.CloseDelete || spec.OnClose == launcher.CloseDefault && spec.ID == ""
	isNew := spec.ID == ""
	if isNew {
		body.ID = "sandbox-" + strings.ToLower(rand.Text()[:12])
	}
	s, err := l.launch(ctx, body, launchTime(&spec), isNew, deletes)
	return s, wrap("launching", body.ID, gitError(err, spec.Git))
}

func (l *Launcher) launch(ctx context.Context, body *create, limit time.Duration, isNew, deletes bool) (*launcher.Sandbox, error) {
	var made sandbox
	status, err := l.call(ctx, limit, http.MethodPost, root, body, &made)
	if err != nil {
		if isNew && mayBeDone(err) { // nobody else knows it
			_ = l.end(context.WithoutCancel(ctx), body.ID)
		}
		if errors.Is(err, errLate) {
			err = fmt.Errorf("%w: %w", launcher.ErrNotReady, err)
		}
		return nil, specError(err)
	}
	if err := made.check(body.ID); err != nil {
		return nil, err
	}
	s, err := l.enter(body.ID, made.Workdir)
	if err != nil {
		return nil, err
	}
	s.Created = status == http.StatusCreated || isNew
	s.EndBy(l, deletes && s.Created)
	return s, nil
}

// Open implements launcher.Launcher. A sandbox that sleeps until the next call is opened as it is, and woken
// by the first call that works in it. Another that is paused is launcher.ErrPaused.
func (l *Launcher) Open(ctx context.Context, id string) (*launcher.Sandbox, error) {
	s, err := l.open(ctx, id)
	return s, wrap("opening", id, err)
}

func (l *Launcher) open(ctx context.Context, id string) (*launcher.Sandbox, error) {
	found, err := l.find(ctx, id)
	if err != nil {
		return nil, err
	}
	sleeps := found.AutoPause && found.State == launcher.Paused
	if err := over(found.State); err != nil && !sleeps {
		return nil, err
	}
	s, err := l.enter(id, found.Workdir)
	if err != nil {
		return nil, err
	}
	s.EndBy(l, false)
	if !sleeps {
		if _, err := s.Info(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// List implements launcher.Launcher. The Summaries say nothing of pods, heartbeats and resources.
func (l *Launcher) List(ctx context.Context) ([]launcher.Summary, error) {
	var all []launcher.Summary
	for after := ""; ; {
		page, next, err := l.page(ctx, after)
		if err != nil {
			return all, fmt.Errorf("listing sandboxes: %w", err)
		}
		for _, s := range page {
			all = append(all, s.summary())
		}
		if next == "" {
			return all, nil
		}
		if len(page) == 0 || next <= after || len(all) > listLimit {
			return all, fmt.Errorf("listing sandboxes: %w", strange("the gateway's pages do not come to an end"))
		}
		after = next
	}
}

// Find implements launcher.Launcher.
func (l *Launcher) Find(ctx context.Context, id string) (launcher.Summary, error) {
	s, err := l.find(ctx, id)
	if err != nil {
		return launcher.Summary{}, wrap("finding", id, err)
	}
	return s.summary(), nil
}

func (l *Launcher) find(ctx context.Context, id string) (s sandbox, err error) {
	if !isName(id) {
		return s, launcher.ErrNotFound
	}
	if _, err = l.call(ctx, quickTime, http.MethodGet, pathOf(id), nil, &s); err == nil {
		err = s.check(id)
	}
	return s, err
}

// Terminate implements launcher.Launcher.
func (l *Launcher) Terminate(ctx context.Context, id string) error {
	return wrap("terminating", id, l.end(ctx, id))
}

func (l *Launcher) end(ctx context.Context, id string) error {
	if !isName(id) {
		return nil
	}
	_, err := l.call(ctx, endTime, http.MethodDelete, pathOf(id), nil, nil)
	if isNotFound(err) {
		return nil
	}
	return err
}

// Pause removes the sandbox's pod, and returns when it is gone, as [launcher.Kubernetes.Pause] does.
func (l *Launcher) Pause(ctx context.Context, id string) error {
	return wrap("pausing", id, l.act(ctx, endTime, http.MethodPost, id, "pause", nil, nil))
}

// Resume opens a sandbox that is paused, in a new pod with its files, as [launcher.Kubernetes.Resume] does.
func (l *Launcher) Resume(ctx context.Context, id string) (*launcher.Sandbox, error) {
	var resumed sandbox
	err := l.act(ctx, launcher.DefaultReadyTimeout+spareTime, http.MethodPost, id, "resume", nil, &resumed)
	if err == nil {
		err = resumed.check(id)
	}
	if err != nil {
		return nil, wrap("resuming", id, err)
	}
	s, err := l.enter(id, resumed.Workdir)
	if err != nil {
		return nil, wrap("resuming", id, err)
	}
	s.EndBy(l, false)
	return s, nil
}

// Extend lets the sandbox live for at least d from now, in whole seconds, and returns when it ends.
func (l *Launcher) Extend(ctx context.Context, id string, d time.Duration) (time.Time, error) {
	if d <= 0 {
		return time.Time{}, wrap("extending", id, &launcher.SpecError{Field: "Pod.Lifetime", Msg: fmt.Sprintf("cannot be extended by %v", d)})
	}
	body := struct {
		Seconds int64 `json:"additional_seconds"`
	}{wholeSeconds(d)}
	var ends expiry
	err := l.act(ctx, quickTime, http.MethodPost, id, "extend", body, &ends)
	return ends.At, wrap("extending", id, err)
}

// Expire makes the sandbox end at a time, also sooner than planned, and returns that time.
func (l *Launcher) Expire(ctx context.Context, id string, at time.Time) (time.Time, error) {
	body := struct {
		At time.Time `json:"at"`
	}{at.UTC()}
	var ends expiry
	err := l.act(ctx, quickTime, http.MethodPut, id, "expires", body, &ends)
	return ends.At, wrap("setting the end of", id, err)
}

// act does something with a sandbox that must be there.
func (l *Launcher) act(ctx context.Context, limit time.Duration, method, id, what string, body, into any) error {
	if !isName(id) {
		return launcher.ErrNotFound
	}
	_, err := l.call(ctx, limit, method, pathOf(id)+"/"+what, body, into)
	return specError(err)
}

// root is where the gateway has the sandboxes.
const root = "/api/v1/sandboxes"

// pathOf returns the path of the sandbox of a name, which needs no escape.
func pathOf(name string) string { return root + "/" + name }

// nameLimit and nameExp are those of a gateway: see gateway.CheckName.
const nameLimit = 36

var nameExp = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// isName reports whether a gateway can have a sandbox of this id.
func isName(id string) bool { return len(id) <= nameLimit && nameExp.MatchString(id) }

// wrap says what was being done to which sandbox when err came.
func wrap(doing, id string, err error) error {
	if err == nil {
		return nil
	}
	doing = fmt.Sprintf("%s sandbox %q", doing, id)
	if said, ok := err.(*Error); ok { // which may say so, too
		said.Detail = strings.TrimPrefix(said.Detail, doing+": ")
	}
	return fmt.Errorf("%s: %w", doing, err)
}
