package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools/secret"
)

// Options say how a session is.
type Options struct {
	// Workdir is where relative paths start and commands run, as a path in the
	// sandbox; a relative one starts at the sandbox's own workdir, which is what
	// empty means.
	Workdir string
	// Secrets are what commands have in their environment, by the names of
	// the variables. They are resolved once, by the first call.
	Secrets map[string]secret.Provider
	// State is what the session's state begins with.
	State map[string]any
	// TempDir is the directory of the sandbox in which the session makes one of
	// its own when it has to keep a long output; empty means /tmp.
	TempDir string
}

// Session is the tools that one model uses in one sandbox. It may be used
// concurrently.
type Session struct {
	sandbox    *launcher.Sandbox
	workdir    string
	tools      []*bound
	byName     map[string]*bound
	err        error // what is wrong with the tools
	vault      *vault
	kept       *keptOutputs
	background *background

	mu    sync.Mutex
	state State
}

// bound is a tool with what a session knows of it.
type bound struct {
	tool  Tool
	spec  Spec
	input *inputs
}

// New returns a session of these tools. It calls nothing; what is wrong with
// the tools, as two of one name, is the error of [Session.Prepare] and of every
// call. The sandbox stays the caller's, who closes it.
func New(sandbox *launcher.Sandbox, opts Options, tools ...Tool) *Session {
	s := &Session{
		sandbox: sandbox, workdir: opts.Workdir, byName: map[string]*bound{},
		vault:      newVault(opts.Secrets, tools),
		kept:       newKeptOutputs(sandbox, opts.TempDir),
		background: &background{},
		state:      State{}.with(opts.State),
	}
	for _, tool := range tools {
		b, err := bind(tool)
		if err == nil && s.byName[b.spec.Name] != nil {
			err = fmt.Errorf("there are two tools of the name %q", b.spec.Name)
		}
		if err != nil {
			s.err = errors.Join(s.err, err)
			continue
		}
		s.tools = append(s.tools, b)
		s.byName[b.spec.Name] = b
	}
	return s
}

// validName is what models' providers take as the name of a tool.
var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func bind(tool Tool) (*bound, error) {
	if c, ok := tool.(interface{ check() error }); ok {
		if err := c.check(); err != nil {
			return nil, err
		}
	}
	spec := tool.Spec()
	if !validName.MatchString(spec.Name) {
		return nil, fmt.Errorf("%q is no name for a tool: it has 1 to 64 letters, digits, underscores and hyphens", spec.Name)
	}
	input, err := newInputs(spec)
	if err != nil {
		return nil, fmt.Errorf("the schema of tool %q: %w", spec.Name, err)
	}
	return &bound{tool, spec, input}, nil
}

// Specs describe the tools, in the order in which they were given.
func (s *Session) Specs() []Spec {
	var specs []Spec
	for _, b := range s.tools {
		specs = append(specs, b.spec)
	}
	return specs
}

// State returns the session's state as it is now.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Prepare does what the first call would do before it: it checks the tools, and
// resolves the secrets. It does not touch the sandbox.
func (s *Session) Prepare(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	_, err := s.vault.open(ctx)
	return err
}

// Close removes what the session keeps in the sandbox: the whole outputs of
// which results told a part. It closes neither the sandbox, nor does it end
// background commands.
func (s *Session) Close(ctx context.Context) error { return s.kept.remove(ctx) }

// Call is a call of a tool by a model.
type Call struct {
	// Name is the tool's.
	Name string
	// Input is a JSON object; empty stands for one without members.
	Input json.RawMessage
	// Output, if not nil, gets what a command prints while it runs, redacted.
	// Its errors are ignored, and it must not block for long.
	Output io.Writer
}

// Call calls one tool. What it changes of the state is there when it returns.
func (s *Session) Call(ctx context.Context, name string, input json.RawMessage) (Result, error) {
	return s.Do(ctx, Call{Name: name, Input: input})
}

// Do is Call with all that can be said of a call.
func (s *Session) Do(ctx context.Context, call Call) (Result, error) {
	result, err := s.do(ctx, call, s.State())
	s.merge(result)
	return result, err
}

// Batch makes the calls of one message of a model at once, [MaxConcurrent] at
// most. Each sees the state as it was at the beginning; what they change of it
// is merged when the last has ended, in the order of the calls, so that of two
// changes of one key the later call's stays.
//
// There is a result for each call. Where a call had an error, its result is one
// that says so, and the errors of all are joined in the one that is returned.
func (s *Session) Batch(ctx context.Context, calls []Call) ([]Result, error) {
	state := s.State()
	results := make([]Result, len(calls))
	errs := make([]error, len(calls))
	slots := make(chan struct{}, MaxConcurrent)
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i], errs[i] = s.do(ctx, call, state)
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			results[i] = Errorf("%s did not run to its end: %v", calls[i].Name, err)
			errs[i] = fmt.Errorf("call %d, %s: %w", i+1, calls[i].Name, err)
		}
	}
	s.merge(results...)
	return results, errors.Join(errs...)
}

func (s *Session) merge(results ...Result) {
	var changes []map[string]any
	for _, r := range results {
		if len(r.State) > 0 {
			changes = append(changes, r.State)
		}
	}
	if len(changes) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = s.state.with(changes...)
}

// do makes a call with the state that it is to see.
func (s *Session) do(ctx context.Context, call Call, state State) (Result, error) {
	if s.err != nil {
		return Result{}, s.err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	secrets, err := s.vault.open(ctx)
	if err != nil {
		return Result{}, err
	}
	result, err := s.run(ctx, call, state, secrets)
	if err != nil {
		return Result{}, secrets.redactor.Error(err)
	}
	return clean(result, secrets.redactor), nil
}

func (s *Session) run(ctx context.Context, call Call, state State, secrets *opened) (Result, error) {
	b := s.byName[call.Name]
	if b == nil {
		return Errorf("there is no tool %s; the tools are %s", quote(call.Name), s.names()), nil
	}
	input, problem := b.input.normalize(call.Input)
	if problem != "" {
		return Errorf("%s", problem), nil
	}
	env := &Env{
		Sandbox: s.sandbox, Workdir: s.workdir, State: state, Secrets: secrets.of(call.Name),
		redactor: secrets.redactor, kept: s.kept, background: s.background,
	}
	if call.Output != nil {
		live := secrets.redactor.Writer(&lossy{w: call.Output})
		defer live.Close()
		env.Output = live
	}
	return b.tool.Call(ctx, env, input)
}

func (s *Session) names() string {
	var names []string
	for _, b := range s.tools {
		names = append(names, b.spec.Name)
	}
	return strings.Join(names, ", ")
}

// clean returns a result as it may be shown.
func clean(r Result, redactor *secret.Redactor) Result {
	r.Content = slices.Clone(r.Content) // the tool may keep its own
	for i, c := range r.Content {
		if redactor.Finds(c.Data) {
			c = Content{Text: fmt.Sprintf("[%s, %d bytes: withheld, since there is a secret in it]", c.MediaType, len(c.Data))}
		}
		c.Text = strings.ToValidUTF8(redactor.Redact(c.Text), "\uFFFD")
		r.Content[i] = c
	}
	return r
}

// lossy hands on to a writer until it fails, and never fails itself.
type lossy struct {
	w      io.Writer
	failed bool
}

func (l *lossy) Write(p []byte) (int, error) {
	if !l.failed {
		_, err := l.w.Write(p)
		l.failed = err != nil
	}
	return len(p), nil
}
