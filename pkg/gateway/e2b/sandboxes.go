package e2b

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
)

// envdVersion is the version of envd whose abilities its stand-in has: from 0.6.2 on there is metadata of
// files, for which the agent has no place.
const envdVersion = "0.6.1"

// The states that E2B knows. A sandbox in any other is not there.
const (
	stateRunning = "running"
	statePaused  = "paused"
)

// described is a sandbox as lists have it.
type described struct {
	ID          string            `json:"sandboxID"`
	Template    string            `json:"templateID"`
	Client      string            `json:"clientID"`
	StartedAt   time.Time         `json:"startedAt"`
	EndAt       time.Time         `json:"endAt"`
	State       string            `json:"state"`
	CPUs        int64             `json:"cpuCount"`
	MemoryMB    int64             `json:"memoryMB"`
	DiskMB      int64             `json:"diskSizeMB"`
	EnvdVersion string            `json:"envdVersion"`
	Metadata    map[string]string `json:"metadata"`
}

// detailed is a sandbox as a get has it.
type detailed struct {
	described
	Token     string    `json:"envdAccessToken"`
	Domain    string    `json:"domain,omitempty"`
	Lifecycle lifecycle `json:"lifecycle"`
	Internet  *bool     `json:"allowInternetAccess,omitempty"`
	Network   network   `json:"network"`
}

type lifecycle struct {
	OnTimeout  string `json:"onTimeout"`
	AutoResume bool   `json:"autoResume"`
}

// stateOf returns the state of a sandbox; "" if it is not there any more. One that pauses at its timeout
// is paused when its pod has ended.
func stateOf(s *gateway.Sandbox, r *record) string {
	switch launcher.State(s.State) {
	case launcher.Running, launcher.Pending:
		return stateRunning
	case launcher.Paused:
		return statePaused
	case launcher.Ended:
		if r.Pauses {
			return statePaused
		}
	}
	return ""
}

// describe describes a sandbox; it returns false if there is none in any state that E2B knows.
func (c *control) describe(s *gateway.Listed) (described, record, bool) {
	r, metadata := recordOf(&s.Sandbox)
	d := described{
		ID: idOf(c.Tenant(), s.ID), Template: r.Template, Client: clientID, StartedAt: s.CreatedAt, EndAt: s.ExpiresAt,
		State: stateOf(&s.Sandbox, &r), EnvdVersion: envdVersion, Metadata: metadata,
	}
	if d.Template == "" {
		d.Template = BaseTemplate
	}
	if !r.Started.IsZero() {
		d.StartedAt = r.Started
	}
	if d.EndAt.IsZero() {
		d.EndAt = never
	}
	const mega = 1 << 20
	has := s.Resources
	d.CPUs, d.MemoryMB, d.DiskMB = has.Cpu().Value(), has.Memory().Value()/mega, has.Storage().Value()/mega
	return d, r, d.State != ""
}

// present is a sandbox that is running or paused.
type present struct {
	described
	record  record
	network network
	expires time.Time // zero if it does not end by a time
}

func (c *control) present() (*present, error) {
	s, err := c.Find(c.r.Context(), c.name)
	if err != nil {
		return nil, err
	}
	d, r, ok := c.describe(&s)
	if !ok {
		return nil, errNoSandbox
	}
	return &present{d, r, networkOf(&s.Sandbox), s.ExpiresAt}, nil
}

func (c *control) get() error {
	p, err := c.present()
	if err != nil {
		return err
	}
	token, err := c.SandboxToken(c.name, scopeEnvd)
	if err != nil {
		return err
	}
	out := detailed{
		described: p.described, Token: token, Domain: c.Domain(), Lifecycle: lifecycle{"kill", p.record.Resumes},
		Internet: p.record.Internet, Network: p.network,
	}
	if p.record.Pauses {
		out.Lifecycle.OnTimeout = "pause"
	}
	faces.WriteJSON(c.w, http.StatusOK, out)
	return nil
}

// kill removes a sandbox. One that has ended by itself is not there any more, but is removed, too.
func (c *control) kill() error {
	_, missing := c.present()
	err := c.Remove(c.r.Context(), c.name)
	if errors.Is(missing, errNoSandbox) && (err == nil || errors.Is(err, launcher.ErrNotFound)) {
		return missing
	}
	if err != nil {
		return err
	}
	c.face.watchers.removeOf(c.Tenant(), c.name)
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// setTimeout sets when a sandbox ends. One that pauses when it is idle, and resumes for calls, has no such
// time: for its callers it is there for as long as they ask for, and longer.
func (c *control) setTimeout() error {
	var in struct {
		Timeout *int64 `json:"timeout"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	if in.Timeout == nil {
		return faces.BadRequest("the body lacks timeout")
	}
	if *in.Timeout == 0 {
		*in.Timeout = 1 // it ends at once
	}
	life, err := timeoutOf(in.Timeout, 0)
	if err != nil {
		return err
	}
	p, err := c.present()
	if err != nil {
		return err
	}
	if _, err := c.Expire(c.r.Context(), c.name, time.Now().Add(life)); err != nil && !(p.record.isIdle() && errors.Is(err, launcher.ErrNoLifetime)) {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// pause ends a sandbox's pod and keeps its files, not its memory.
func (c *control) pause() error {
	p, err := c.present()
	switch {
	case err != nil:
		return err
	case p.State == statePaused:
		return gateway.Fail(http.StatusConflict, classPaused, "the sandbox is paused already")
	}
	if err := c.Pause(c.r.Context(), c.name); err != nil {
		return c.notPaused(err)
	}
	c.face.watchers.removeOf(c.Tenant(), c.name)
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

const classPaused = "paused"

// notPaused returns why a sandbox was not paused. To clients any 409 says that it is paused already.
func (c *control) notPaused(err error) error {
	if why := c.failure(err); why.Status == http.StatusConflict && why.Class != classPaused {
		return gateway.Fail(http.StatusBadRequest, why.Class, why.Text)
	}
	return err
}

// connect has a sandbox run, and live for a while from now on: as long as usual unless the request says
// otherwise. It lives no shorter than it would.
func (c *control) connect(usual time.Duration) error {
	var in struct {
		Timeout *int64 `json:"timeout"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	life, err := timeoutOf(in.Timeout, usual)
	if err != nil {
		return err
	}
	opened, err := c.tokens(c.name)
	if err != nil {
		return err
	}
	p, err := c.present()
	if err != nil {
		return err
	}
	ctx, status := c.r.Context(), http.StatusOK
	if p.State == statePaused {
		if err := c.Resume(ctx, c.name); err != nil {
			return err
		}
		status = http.StatusCreated
	}
	if p.State == statePaused || !p.expires.IsZero() {
		if err := c.live(ctx, max(life, leastTimeout)); err != nil {
			return err
		}
	}
	faces.WriteJSON(c.w, status, c.created(c.name, p.Template, opened))
	return nil
}

// live has a sandbox that ends by a time live for a while from now on, or longer: another client may have
// asked for more.
func (c *control) live(ctx context.Context, life time.Duration) error {
	_, err := c.Extend(ctx, c.name, life)
	if errors.Is(err, launcher.ErrNoLifetime) {
		return nil
	}
	return err
}
