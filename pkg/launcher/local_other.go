//go:build !linux

package launcher

import (
	"context"
	"errors"
	"fmt"
)

// errNoLocal is the error of every method on a system without podagent.
var errNoLocal = fmt.Errorf("the local launcher needs Linux, whose namespaces and Landlock isolate its sandboxes: use one in a pod: %w", errors.ErrUnsupported)

func (l *Local) launch(context.Context, Spec) (*Sandbox, error) { return nil, errNoLocal }
func (l *Local) open(context.Context, string) (*Sandbox, error) { return nil, errNoLocal }
func (l *Local) list(context.Context) ([]Summary, error)        { return nil, errNoLocal }
func (l *Local) find(context.Context, string) (Summary, error)  { return Summary{}, errNoLocal }
func (l *Local) specOf(string) (Spec, error)                    { return Spec{}, errNoLocal }
func (l *Local) terminate(context.Context, string) error        { return errNoLocal }
