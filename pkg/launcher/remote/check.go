package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// commandTime bounds the command of a check, which takes milliseconds.
const commandTime = 30 * time.Second

// Check finds out whether sandboxes can be made through the gateway: it makes one by spec, runs a command
// in it, and removes it. It ends early when ctx does, or after the first check that fails.
func (l *Launcher) Check(ctx context.Context, spec launcher.Spec) iter.Seq[launcher.Finding] {
	return func(yield func(launcher.Finding) bool) {
		var s *launcher.Sandbox
		for _, c := range []struct {
			name string
			run  func() (string, error)
		}{
			{"gateway", func() (string, error) { return l.checkGateway(ctx) }},
			{"token", func() (string, error) { return l.checkToken(ctx) }},
			{"sandbox", func() (_ string, err error) {
				if s, err = l.Launch(ctx, spec); err != nil {
					return "", err
				}
				return "an agent serves " + s.Workdir, nil
			}},
			{"command", func() (string, error) { return runTrue(ctx, s) }},
		} {
			said, err := c.run()
			if ctx.Err() != nil || !yield(finding(c.name, said, err)) || err != nil {
				break
			}
		}
		if s == nil {
			return
		}
		if err := s.Close(); ctx.Err() == nil {
			yield(finding("removal", "it is gone", err))
		}
	}
}

func finding(name, said string, err error) launcher.Finding {
	if err == nil {
		return launcher.Finding{Name: name, Verdict: launcher.Passed, Detail: said}
	}
	return launcher.Finding{Name: name, Verdict: launcher.Failed, Err: err, Advice: advice(err)}
}

// advice says what to do about an error.
func advice(err error) string {
	e, _ := errors.AsType[*Error](err)
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "See whether the URL is right, and trust who signed the gateway's certificate."
	case e != nil && e.absent():
		return "See whether the URL is right, and whether the gateway runs."
	case errors.Is(err, podapi.ErrUnauthenticated):
		return "Get a token from whoever runs the gateway."
	case e != nil && e.Status == http.StatusTooManyRequests:
		return "Remove sandboxes that are not needed, or wait."
	}
	return "Ask whoever runs the gateway: its log says more."
}

// checkGateway asks what everybody may ask.
func (l *Launcher) checkGateway(ctx context.Context) (string, error) {
	var health struct{ Status string }
	status, err := l.call(ctx, quickTime, http.MethodGet, "/healthz", nil, &health)
	if status == http.StatusNoContent { // of an older gateway
		err = nil
	}
	return l.base, err
}

func (l *Launcher) checkToken(ctx context.Context) (string, error) {
	who, err := l.whoami(ctx)
	if err != nil {
		return "", err
	}
	page, next, err := l.page(ctx, "")
	if err != nil {
		return "", err
	}
	more := ""
	if next != "" {
		more = " or more"
	}
	return fmt.Sprintf("%s; sandboxes: %d%s", who, len(page), more), nil
}

// whoami returns whose the token is, by the gateway's word.
func (l *Launcher) whoami(ctx context.Context) (string, error) {
	var who struct{ Tenant, Key string }
	_, err := l.call(ctx, quickTime, http.MethodGet, "/api/v1/whoami", nil, &who)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "valid, and this gateway does not say whose", nil
	case err != nil:
		return "", err
	case who.Key == "":
		return "tenant " + cut(who.Tenant), nil
	}
	return fmt.Sprintf("tenant %s, key %s", cut(who.Tenant), cut(who.Key)), nil
}

func runTrue(ctx context.Context, s *launcher.Sandbox) (string, error) {
	cmd := s.Command(ctx, "true")
	cmd.Timeout = commandTime
	if err := cmd.Run(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s ended with %v", cmd, cmd.Process.Status()), nil
}
