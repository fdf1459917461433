package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/podagent/podagent/pkg/tools/secret"
)

// vault resolves the secrets of a session once.
type vault struct {
	session map[string]secret.Provider
	redact  map[string]secret.Provider // for the redactor alone
	ofTool  map[string]map[string]secret.Provider
	gate    chan struct{} // holds a token, except while a call resolves
	opened  atomic.Pointer[opened]
}

// opened has the secrets with their values.
type opened struct {
	session  *secret.Set
	ofTool   map[string]*secret.Set
	redactor *secret.Redactor
}

// of returns the secrets for a tool.
func (o *opened) of(tool string) *secret.Set {
	if own := o.ofTool[tool]; own != nil {
		return secret.Join(o.session, own)
	}
	return o.session
}

func newVault(session, redact map[string]secret.Provider, tools []Tool) *vault {
	v := &vault{session: maps.Clone(session), redact: maps.Clone(redact), ofTool: map[string]map[string]secret.Provider{}, gate: make(chan struct{}, 1)}
	v.gate <- struct{}{}
	for _, tool := range tools {
		if t, ok := tool.(interface {
			secrets() map[string]secret.Provider
		}); ok {
			v.ofTool[tool.Spec().Name] = maps.Clone(t.secrets())
		}
	}
	return v
}

// open returns the secrets. One call resolves them while others wait; if it
// fails, the next tries again.
func (v *vault) open(ctx context.Context) (*opened, error) {
	if o := v.opened.Load(); o != nil {
		return o, nil
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-v.gate:
	}
	defer func() { v.gate <- struct{}{} }()
	if o := v.opened.Load(); o != nil {
		return o, nil
	}
	o, err := v.resolve(ctx)
	if err == nil {
		v.opened.Store(o)
	}
	return o, err
}

func (v *vault) resolve(ctx context.Context) (*opened, error) {
	session, err := secret.Resolve(ctx, v.session)
	o := &opened{session: session, ofTool: map[string]*secret.Set{}}
	redact, redactErr := secret.Resolve(ctx, v.redact)
	err = errors.Join(err, redactErr)
	sets := []*secret.Set{session, redact}
	for name, providers := range v.ofTool {
		set, toolErr := secret.Resolve(ctx, providers)
		if toolErr != nil {
			err = errors.Join(err, fmt.Errorf("for tool %s: %w", name, toolErr))
		}
		o.ofTool[name] = set
		sets = append(sets, set)
	}
	if err != nil {
		return nil, err
	}
	o.redactor = secret.NewRedactor(sets...)
	return o, nil
}
