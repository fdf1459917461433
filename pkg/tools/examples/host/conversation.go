package main

import (
	"encoding/json"

	"github.com/podagent/podagent/pkg/tools"
)

// conversation is what a job has come to: all that a retry has to know. It is
// kept as JSON. What the tools of this host share as session state
// (tools.Session.State) would belong here as well; none of them has any.
type conversation struct {
	// System is what the model is told first: the project's instructions, as
	// they were when the job began.
	System   string    `json:"system,omitempty"`
	Messages []message `json:"messages,omitempty"`
	// Workspace is that of the sandbox in which the calls were made.
	Workspace string `json:"workspace,omitempty"`
}

// Who says a message.
const (
	roleUser  = "user"
	roleModel = "model"
)

type message struct {
	Role  string `json:"role"`
	Text  string `json:"text,omitempty"`
	Calls []call `json:"calls,omitempty"`
}

// call is a call of a tool: wanted, then begun, then answered.
type call struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	// Begun is there from before the call is made.
	Begun *begun `json:"begun,omitempty"`
	// Answer is what came back.
	Answer *answer `json:"answer,omitempty"`
}

// begun is what makes one call of all tries.
type begun struct {
	// Exec is the exec id of the command that the call runs, if it runs one.
	Exec string `json:"exec"`
	// Boot is the start of the agent that was there. Commands end with it.
	Boot string `json:"boot"`
}

// answer is a tools.Result without what is no business of the model.
type answer struct {
	Content []tools.Content `json:"content"`
	IsError bool            `json:"is_error,omitempty"`
}

// pending returns the first call that has no answer, nil if there is none.
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

// lose tells the model that the sandbox is a new one. What it still wanted done is
// answered by that, since it was meant for what the old one had.
func (c *conversation) lose() {
	lost := tools.Errorf("The sandbox was lost before this call had come back, and is a new one: nothing of what the call may have done is left.")
	for call := c.pending(); call != nil; call = c.pending() {
		call.Answer = &answer{lost.Content, lost.IsError}
	}
	c.say("The sandbox was lost and is a new one: of what you have changed, nothing is left.")
}

func (c *conversation) say(text string) {
	c.Messages = append(c.Messages, message{Role: roleUser, Text: text})
}

// done returns the answer of a job that is done.
func (c *conversation) done() (answer string, ok bool) {
	if len(c.Messages) == 0 {
		return "", false
	}
	last := c.Messages[len(c.Messages)-1]
	return last.Text, last.Role == roleModel && len(last.Calls) == 0
}
