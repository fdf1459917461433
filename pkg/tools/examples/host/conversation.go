package main

import (
	"encoding/json"

	"github.com/podagent/podagent/pkg/tools"
)

// conversation is the progress of a job: all that a retry has to know. It is kept
// as JSON. Session state (tools.Session.State) would belong here, too, but the
// tools of this host have none.
type conversation struct {
	// System is the first text for the model: the project's instructions as they
	// were when the job began.
	System   string    `json:"system,omitempty"`
	Messages []message `json:"messages,omitempty"`
	// Workspace identifies the sandbox in which the calls were made.
	Workspace string `json:"workspace,omitempty"`
	// Progress is that of the workspace, if the job has a test.
	Progress progress `json:"progress,omitzero"`
}

// The roles of messages.
const (
	roleUser  = "user"
	roleModel = "model"
)

type message struct {
	Role  string `json:"role"`
	Text  string `json:"text,omitempty"`
	Calls []call `json:"calls,omitempty"`
}

// call is a call of a tool. The model asks for it; then it is begun; then it is
// answered.
type call struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	// Begun is set before the call is made.
	Begun *begun `json:"begun,omitempty"`
	// Answer is set when the call has returned.
	Answer *answer `json:"answer,omitempty"`
}

// begun identifies a call across all tries.
type begun struct {
	// Exec is the exec id of the command that the call runs, if it runs one.
	Exec string `json:"exec"`
	// Boot is the boot id of the agent at that time. Commands end with the agent.
	Boot string `json:"boot"`
}

// answer is the part of a tools.Result that the model sees.
type answer struct {
	Content []tools.Content `json:"content"`
	IsError bool            `json:"is_error,omitempty"`
}

// pending returns the first call without an answer, nil if none.
func (c *conversation) pending() *call {
	if len(c.Messages) == 0 {
		return nil
	}
	calls := c.Messages[len(c.Messages)-1].Calls
	for i := range calls {
		if calls[i].Answer == nil {
			return &calls[i]
		}
	}
	return nil
}

// lose tells the model that the sandbox is a new one. It answers all pending calls
// with an error, since they were meant for the old sandbox.
func (c *conversation) lose() {
	lost := tools.Errorf("The sandbox was lost before this call had returned, and was replaced by a new one: all that the call may have done is lost.")
	for call := c.pending(); call != nil; call = c.pending() {
		call.Answer = &answer{lost.Content, lost.IsError}
	}
	c.Progress = progress{}
	c.say("The sandbox was lost and replaced by a new one: all your changes are lost.")
}

func (c *conversation) say(text string) {
	c.Messages = append(c.Messages, message{Role: roleUser, Text: text})
}

// done returns the final answer, and whether the job is done.
func (c *conversation) done() (answer string, ok bool) {
	if len(c.Messages) == 0 {
		return "", false
	}
	last := c.Messages[len(c.Messages)-1]
	return last.Text, last.Role == roleModel && len(last.Calls) == 0
}
