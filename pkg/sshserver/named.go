package sshserver

import (
	"context"
	"strings"

	"github.com/podagent/podagent/pkg/podapi"
)

// The script of a named terminal begins with the name. So whoever asks the agent for
// its processes finds it, from any machine, and nobody has to keep anything.

// marker is the first line of the script of the terminal with this name.
func marker(name string) string { return "# ssh terminal " + name + "\n" }

// startNamed attaches to the terminal that runs under the client's name for it, or starts one.
func (s *session) startNamed(ctx context.Context, text string) (*podapi.Process, error) {
	id, err := s.findNamed(ctx)
	if err != nil {
		return nil, err
	}
	if id != "" {
		return s.attach(ctx, id)
	}
	c := s.conn.server.Sandbox.Shell(ctx, marker(s.conn.server.Terminal)+s.script(text))
	if err := s.startCommand(c); err != nil {
		return nil, err
	}
	return c.Process, nil
}

// findNamed returns the exec id of the named terminal, the oldest if there are several; empty
// if there is none.
func (s *session) findNamed(ctx context.Context) (string, error) {
	list, err := s.conn.server.Sandbox.Processes(ctx)
	if err != nil {
		return "", err
	}
	mark := marker(s.conn.server.Terminal)
	for _, p := range list { // the oldest first
		if p.Terminal && p.Status == nil && strings.HasPrefix(p.Script, mark) {
			return p.ID, nil
		}
	}
	return "", nil
}

// attach attaches to a terminal, which shows its screen.
func (s *session) attach(ctx context.Context, id string) (*podapi.Process, error) {
	return s.conn.server.Sandbox.Attach(ctx, id, podapi.AttachOptions{
		Stdin: s.input(), Stdout: &output{to: s.channel}, Screen: &s.terminal.size,
	})
}
