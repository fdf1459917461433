package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/tools"
)

// A session that names no sandbox has one of its own. The first call that works makes it, like a
// create with an empty body, and its name follows from the session's id, so that any gateway finds
// it. It ends with the session: when its client says so, or has made no call for sessionIdle. A pod
// counts that time itself, and a gateway does for a local sandbox.

// work does what a message asks for, in the session's sandbox.
func (m *mcpSessions) work(ctx context.Context, s *mcpSession, r mcp.Request, do func(context.Context) (mcp.Result, error)) (result mcp.Result, err error) {
	operation, detail := s.doing(r)
	if operation == "" {
		return do(ctx) // there is no such tool, as its answer says
	}
	if s.sandbox == "" {
		return nil, errNoSession
	}
	actOf(ctx).is(operation, s.sandbox)
	if err := begin(ctx, detail); err != nil {
		return nil, err
	}
	made, err := m.in(ctx, s, func(ctx context.Context) (err error) {
		result, err = do(ctx)
		return err
	})
	if of, ok := result.(*mcp.CallToolResult); ok && of != nil && made {
		of.Content = append(of.Content, &mcp.TextContent{Text: "(This call made a new sandbox for this session.)"})
	}
	return result, err
}

// in calls do with the session's open sandbox, and reports whether it was made for that.
func (m *mcpSessions) in(ctx context.Context, s *mcpSession, do func(context.Context) error) (made bool, err error) {
	began := false
	use := func() error {
		return m.gateway.on(ctx, s.sandbox, func(open *launcher.Sandbox) error {
			began = true
			s.was()
			return do(withClient(ctx, func() (*podapi.Client, error) { return open.Client, nil }))
		})
	}
	err = use()
	if began || !s.own || !errors.Is(err, launcher.ErrNotFound) {
		return false, err
	}
	if made, err = m.make(ctx, s); err == nil {
		err = use()
	}
	return made, err
}

// was notes that a session's own sandbox is there.
func (s *mcpSession) was() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.there = true
}

// check refuses a message of a session whose own sandbox has ended: another one would not have its
// files. One that nobody has seen may still be made, until the session would have ended by itself.
func (m *mcpSessions) check(ctx context.Context, s *mcpSession) error {
	s.mu.Lock()
	there := s.there
	s.mu.Unlock()
	if !s.own || s.id == "" || !there && time.Since(s.begun()) < m.idle {
		return nil
	}
	err := m.gateway.lookAt(ctx, s.sandbox, func(*launcher.Sandbox) error { return nil })
	for _, class := range []error{launcher.ErrNotFound, launcher.ErrStale, launcher.ErrGone} {
		if errors.Is(err, class) {
			return errSessionEnd
		}
	}
	return nil // if there is another error, the call itself has it, too
}

// make makes a session's own sandbox, unless another call does.
func (m *mcpSessions) make(ctx context.Context, s *mcpSession) (made bool, err error) {
	select {
	case s.making <- struct{}{}:
		defer func() { <-s.making }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	g, caller := m.gateway, callerOf(ctx)
	policy, err := g.policy(ctx)
	if err != nil {
		return false, err
	}
	body := m.ownBody(policy)
	spec, err := specOf(g.Base, caller.Tenant, policy, body)
	if err != nil {
		return false, err
	}
	spec.ID, spec.Labels = launcherID(caller.Tenant, s.sandbox), g.withSeedKey(withOwn(spec.Labels, caller, "", &body))
	spec.Labels[labelSession] = "mcp"
	sandbox, err := g.launchWithin(ctx, g.wantedFor(&spec), func(ctx context.Context) (*launcher.Sandbox, error) { return g.Launcher.Launch(ctx, spec) })
	if err != nil {
		return false, err
	}
	g.held.put(spec.ID, sandbox)
	g.forgetLookups(spec.ID)
	g.waysOut.letOut(ctx, spec.ID)
	return sandbox.Created, nil
}

// ownBody returns what a session asks for. Commands that it leaves behind do not keep its sandbox.
func (m *mcpSessions) ownBody(policy *Policy) (body NewSandbox) {
	if m.gateway.isLocal() {
		return body
	}
	idle := m.idle
	for _, most := range []time.Duration{m.gateway.Base.Pod.IdleTimeout, time.Duration(policy.Max.Idle)} {
		if most > 0 {
			idle = min(idle, most)
		}
	}
	body.Idle, body.IdleBy = max(1, int64(idle/time.Second)), "calls"
	return body
}

// end ends a session, as its client asks for.
func (m *mcpSessions) end(w http.ResponseWriter, r *http.Request, name string, chosen toolChoice) error {
	key, err := mcpKeyOf(w, r, name, "")
	if err != nil {
		return err
	}
	if key.id == "" {
		return errSessionEnd
	}
	key.toolChoice = chosen
	actOf(r.Context()).is(mcpOperation+"/end", key.sandbox)
	if err := begin(r.Context(), Detail{}); err != nil {
		return err
	}
	s := m.get(key)
	defer m.release(s)
	s.cancelAll()
	if key.own {
		s.was() // so that it is not made again
		if _, err := m.gateway.remove(r.Context(), &sandboxPath{key.sandbox}); err != nil && !errors.Is(err, launcher.ErrNotFound) {
			return err
		}
	} else {
		m.tidy(s)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// cancelAll ends the calls of a session that are under way here.
func (s *mcpSession) cancelAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.running {
		cancel()
	}
}

// removeIdle removes local sandboxes of sessions that have been idle, until ctx ends.
func (m *mcpSessions) removeIdle(ctx context.Context, idle time.Duration) {
	for {
		select {
		case <-time.After(idle / looksInIdle):
		case <-ctx.Done():
			return
		}
		all, err := m.gateway.Launcher.List(ctx)
		if err != nil {
			m.gateway.Log.WarnContext(ctx, "cannot look for sandboxes of sessions that have ended", "error", err)
		}
		for _, s := range all {
			tenant, name, _ := strings.Cut(s.ID, separator)
			if s.Labels[labelSession] == "" || time.Since(s.CreatedAt) < idle || !m.isIdle(ctx, s, idle) {
				continue
			}
			of := context.WithValue(ctx, callerKey{}, Caller{Tenant: tenant})
			if _, err := m.gateway.remove(of, &sandboxPath{name}); err != nil {
				m.gateway.Log.WarnContext(ctx, "cannot remove the sandbox of a session that has ended", "sandbox", s.ID, "error", err)
			}
		}
	}
}

// isIdle reports whether nobody has worked in a sandbox, and no command has run there, for so long.
func (m *mcpSessions) isIdle(ctx context.Context, s launcher.Summary, least time.Duration) bool {
	if s.State != launcher.Running {
		return true
	}
	idle := false
	_ = m.gateway.held.use(ctx, s.ID, false, func(open *launcher.Sandbox) error {
		info, err := open.Info(ctx)
		idle = err == nil && info.Idle >= least
		return err
	})
	return idle
}

// doing returns what a message does in a sandbox; "" for a tool that there is not.
func (s *mcpSession) doing(r mcp.Request) (operation string, d Detail) {
	switch params := r.GetParams().(type) {
	case *mcp.ReadResourceParams:
		if u, err := url.Parse(params.URI); err == nil {
			d.Paths = []string{u.Path}
		}
		return mcpOperation + "/" + mcpRead, d
	case *mcp.CallToolParamsRaw:
		if slices.ContainsFunc(s.tools.Specs(), func(tool tools.Spec) bool { return tool.Name == params.Name }) {
			return mcpOperation + "/" + params.Name, detailOfTool(params.Name, params.Arguments)
		}
	}
	return "", d
}

// detailOfTool returns what the input of a tool of package tools names.
func detailOfTool(tool string, input json.RawMessage) Detail {
	switch tool {
	case "Checkpoint", "Diff", "Restore":
		return detailOfCheckpoint(input)
	}
	return detailOfCoding(input)
}

func detailOfCheckpoint(input json.RawMessage) Detail {
	var in struct {
		Name, ID, From, To string
		Paths              []string
	}
	_ = json.Unmarshal(input, &in) // what is of another type, the tool refuses
	return Detail{Args: texts([]byte(in.Name), []byte(in.ID), []byte(in.From), []byte(in.To)), Paths: in.Paths}
}

func detailOfCoding(input json.RawMessage) (d Detail) {
	var in struct {
		Command, Path, Cwd, Pattern, ID string
		FilePath                        string `json:"file_path"` // in the dialect claude-code
		TaskID                          string `json:"task_id"`
	}
	_ = json.Unmarshal(input, &in) // what is of another type, the tool refuses
	if command := cmp.Or(in.Command, in.Pattern); command != "" {
		d.Args = []string{command}
	}
	if path := cmp.Or(in.Path, in.FilePath, in.Cwd); path != "" {
		d.Paths = []string{path}
	}
	d.ExecID = cmp.Or(in.ID, in.TaskID)
	return d
}
