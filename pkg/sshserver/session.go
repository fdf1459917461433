package sshserver

import (
	"context"
	"fmt"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/podapi"
)

// session is one channel for a command, a shell or a subsystem.
type session struct {
	conn    *connection
	channel ssh.Channel
	// What the client asked for before it started something:
	env      []string
	envBytes int
	terminal *terminal

	run *run // what it started; nil before
}

// session serves a session until the client has closed it.
func (c *connection) session(ctx context.Context, opened ssh.NewChannel) {
	channel, requests, err := opened.Accept()
	if err != nil {
		return // the client is gone
	}
	defer channel.Close()
	s := &session{conn: c, channel: channel}
	for r := range requests {
		start, ok := s.take(r)
		_ = r.Reply(ok, nil) // it fails only if the client is gone
		if start != nil {
			s.run = newRun(s)
			go s.run.do(ctx, start)
		}
	}
	if s.run != nil {
		s.run.leave()
	}
}

// take takes a request. With one that starts something, start does it.
func (s *session) take(r *ssh.Request) (start func(context.Context), ok bool) {
	switch r.Type {
	case "shell", "exec", "subsystem":
		if s.run != nil {
			return nil, false
		}
		return s.starter(r)
	case "pty-req":
		t, err := parseTerminal(r.Payload)
		if err != nil || s.run != nil {
			return nil, false
		}
		if s.conn.server.NoTerminals {
			s.conn.note("this key has no terminals")
			return nil, false
		}
		s.terminal = t
	case "env":
		return nil, s.run == nil && s.addVariable(r.Payload)
	case "window-change":
		return nil, s.resize(r.Payload)
	case "signal":
		name, err := parseText(r.Payload)
		number, known := signals[ssh.Signal(name)]
		return nil, err == nil && known && s.run != nil && s.run.signal(number)
	case "eow@openssh.com": // the client reads no more of the output
		if s.run != nil {
			s.run.unread.Store(true)
		}
		return nil, s.run != nil
	case "auth-agent-req@openssh.com", "auth-agent-req":
		s.conn.note("the agent with your keys is not forwarded: nothing in the sandbox can use it")
		return nil, false
	case "x11-req":
		s.conn.note("X11 is not forwarded: nothing in the sandbox can open windows here")
		return nil, false
	default:
		return nil, false
	}
	return nil, true
}

// starter returns what a request starts.
func (s *session) starter(r *ssh.Request) (func(context.Context), bool) {
	if r.Type == "shell" {
		return func(ctx context.Context) { s.command(ctx, "") }, true
	}
	text, err := parseText(r.Payload)
	switch {
	case err != nil:
		return nil, false
	case r.Type == "exec":
		return func(ctx context.Context) { s.command(ctx, text) }, true
	case text == "sftp":
		return s.sftp, true
	}
	return nil, false
}

// addVariable adds to the environment of the command, unless it is too much.
func (s *session) addVariable(data []byte) bool {
	if len(s.env) >= maxVariables || s.envBytes+len(data) > maxEnvironment {
		return false
	}
	v, err := parseVariable(data)
	if err != nil {
		return false
	}
	s.env, s.envBytes = append(s.env, v), s.envBytes+len(data)
	return true
}

func (s *session) resize(data []byte) bool {
	size, err := parseResize(data)
	switch {
	case err != nil || s.terminal == nil:
		return false
	case s.run == nil:
		s.terminal.size = size
	default:
		s.run.resize(size)
	}
	return true
}

// fail tells the client why there is no other status, and ends the session with this one.
func (s *session) fail(status int, err error) {
	s.say(err.Error())
	s.exit(podapi.ExitStatus{Reason: podapi.Exited, Code: status})
}

// say prints a line of ours on standard error.
func (s *session) say(text string) {
	_, _ = fmt.Fprintf(s.channel.Stderr(), "podagent: %s\r\n", plain(text)) // there is nobody else to tell
}

// exit tells the client how the command ended, and that nothing follows. The end of the output goes last: a client
// may close its side when it sees that, and nothing is sent on a channel that the other side has closed.
func (s *session) exit(status podapi.ExitStatus) {
	if status.Reason != podapi.Exited && status.Signal != 0 {
		_, _ = s.channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal   string
			Core     bool
			Message  string
			Language string
		}{Signal: signalName(status.Signal), Message: string(status.Reason)}))
	} else {
		_, _ = s.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status.Code)}))
	}
	_ = s.channel.CloseWrite()
	s.channel.Close()
}
