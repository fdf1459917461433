package agent

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// assignment says whether an agent that was started for a pool has its sandbox.
type assignment struct {
	awaited atomic.Bool // it has none yet
	text    string      // Agent.mu guards it
}

// admits refuses calls to an agent that has no sandbox yet: what must be protected is not
// protected yet.
func (s *assignment) admits(method string) error {
	if !s.awaited.Load() || method == pb.Agent_Info_FullMethodName || method == pb.Agent_Configure_FullMethodName || isHealth(method) {
		return nil
	}
	return wire.ErrUnassigned
}

// takeAssignment makes the agent serve a sandbox with what the text says; an empty text changes
// nothing. The first assignment lasts. The caller holds the lock, unless nobody else knows the
// agent yet.
func (a *Agent) takeAssignment(text string) error {
	switch {
	case text == "", a.assignment.text != "" && wire.SameAssignment(text, a.assignment.text):
		return nil
	case !a.config.AwaitAssignment:
		return fmt.Errorf("the agent was not started to await an assignment: %w", syscall.EINVAL)
	case a.assignment.text != "":
		return fmt.Errorf("the agent has another assignment: %w", syscall.EINVAL)
	}
	said, err := wire.VerifyAssignment(text, a.config.PodUID, a.keys.accepted.Keys())
	if err != nil {
		return fmt.Errorf("%w: %w", err, syscall.EINVAL)
	}
	if said.IdleTimeout < 0 {
		return fmt.Errorf("the idle timeout is negative: %w", syscall.EINVAL)
	}
	env := toStrings(said.Env)
	if err := checkEnv(env); err != nil {
		return err
	}
	if err := a.protect("", toStrings(said.ProtectedPaths), true); err != nil {
		return err
	}
	a.setEnv(env)
	a.life.setIdle(idleLimit{time.Duration(said.IdleTimeout), said.IdleIgnoresCommands})
	a.assignment.text = text
	a.assignment.awaited.Store(false)
	return nil
}

// isForKeys reports whether a request changes nothing but the keys.
func isForKeys(r *pb.ConfigureRequest) bool {
	return r.KeepEnv && r.KeepProtectedPaths && len(r.Workdir) == 0 && r.Expires == 0
}
