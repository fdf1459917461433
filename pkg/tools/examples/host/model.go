package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/podagent/podagent/pkg/tools"
)

// Model is what a host needs of a large language model.
type Model interface {
	// Name is the model's name, for logs.
	Name() string
	// Next returns the model's next message in a conversation: a text, and calls of
	// these tools. A message without calls is the answer, and ends the job. After a
	// crash, Next may be called again with the same conversation.
	Next(ctx context.Context, c *conversation, specs []tools.Spec) (message, error)
}

// script is a model with fixed messages, whatever the tools answer. It finds the
// next message from the conversation alone.
type script []message

// readScript reads a JSON array of messages, such as
//
//	[{"text": "I look.", "calls": [{"name": "Glob", "input": {"pattern": "*"}}]}, {"text": "Done."}]
func readScript(name string) (script, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var s script
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%s is not an array of messages: %w", name, err)
	}
	return s, nil
}

// Name implements Model.
func (script) Name() string { return "script" }

// Next implements Model.
func (s script) Next(_ context.Context, c *conversation, _ []tools.Spec) (message, error) {
	said := 0
	for _, m := range c.Messages {
		if m.Role == roleModel {
			said++
		}
	}
	if said == len(s) {
		return message{}, fmt.Errorf("the script ends after %d messages, but the last one has calls", said)
	}
	return message{Role: roleModel, Text: s[said].Text, Calls: slices.Clone(s[said].Calls)}, nil
}
