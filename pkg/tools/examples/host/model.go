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
	// Name tells models apart, in logs.
	Name() string
	// Next returns what the model says to a conversation: a text, and calls of
	// these tools; without calls the text is the answer, and the job is done.
	// It may be called again with the same conversation, after a crash.
	Next(ctx context.Context, c *conversation, specs []tools.Spec) (message, error)
}

// script is a model that says what is written: one message after the other,
// whatever the tools say. What comes next it knows by the conversation alone.
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
		return message{}, fmt.Errorf("the script ends after %d messages, and the last one has calls", said)
	}
	return message{Role: roleModel, Text: s[said].Text, Calls: slices.Clone(s[said].Calls)}, nil
}
