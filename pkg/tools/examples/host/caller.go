package main

import (
	"context"

	"github.com/google/uuid"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools"
)

// caller makes the calls of one try.
type caller struct {
	sandbox *launcher.Sandbox
	session *tools.Session
	// boot is the boot id of the current agent.
	boot string
	// again is the call that an earlier try had begun, nil if none.
	again *call
}

// begin marks a call as about to be made. A nil call is ignored.
func (t *caller) begin(c *call) error {
	if c == nil || c.Begun != nil {
		return nil
	}
	// The id contains its time, from which agents know its age.
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	c.Begun = &begun{Exec: id.String(), Boot: t.boot}
	return nil
}

// call makes a call that is begun, unless it might do something twice that must be
// done once.
func (t *caller) call(ctx context.Context, c *call) (tools.Result, error) {
	if c == t.again && !t.mayRepeat(c) {
		return tools.Errorf("The host of this session was restarted during this call. The call may have been done or not: check before you make it again."), nil
	}
	return t.session.Do(ctx, tools.Call{Name: c.Name, Input: c.Input, ID: c.Begun.Exec, ExecID: c.Begun.Exec})
}

// mayRepeat reports whether a call that may have been made can be made again. It
// can if its tool is read-only or idempotent. A Bash call can, too, as long as the
// agent is the same: an agent runs only one command per exec id.
func (t *caller) mayRepeat(c *call) bool {
	for _, spec := range t.session.Specs() {
		if spec.Name == c.Name {
			return spec.ReadOnly || spec.Idempotent || c.Name == "Bash" && c.Begun.Boot == t.boot
		}
	}
	return true // the tool does not exist, and the model will be told so
}
