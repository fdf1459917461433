package main

import (
	"context"

	"github.com/google/uuid"

	"github.com/podagent/podagent/pkg/tools"
)

// caller makes the calls of one try.
type caller struct {
	session *tools.Session
	// boot is the start of the agent that is there now.
	boot string
	// again is the call that an earlier try had begun, nil if there is none.
	again *call
}

// begin notes of a call that it is about to be made; of none if it is nil.
func (t *caller) begin(c *call) error {
	if c == nil || c.Begun != nil {
		return nil
	}
	// The id has its time in it, by which agents know how old it is.
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	c.Begun = &begun{Exec: id.String(), Boot: t.boot}
	return nil
}

// call makes a call that is begun, unless that might do twice what must be done
// once.
func (t *caller) call(ctx context.Context, c *call) (tools.Result, error) {
	if c == t.again && !t.mayRepeat(c) {
		return tools.Errorf("The host of this session was restarted while it made this call. It may have been done or not: look before you make it again."), nil
	}
	return t.session.Do(ctx, tools.Call{Name: c.Name, Input: c.Input, ExecID: c.Begun.Exec})
}

// mayRepeat reports whether a call that may have been made can be made again: by
// what the tool says of itself, and because of one exec id an agent makes one
// command only.
func (t *caller) mayRepeat(c *call) bool {
	for _, spec := range t.session.Specs() {
		if spec.Name == c.Name {
			return spec.ReadOnly || spec.Idempotent || c.Name == "Bash" && c.Begun.Boot == t.boot
		}
	}
	return true // there is no such tool, which is what the model is told
}
