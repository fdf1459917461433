package tools

import (
	"context"
	"encoding/json"
)

// BashOutput reads the output of a background command.
type BashOutput struct{}

const bashOutputSchema = `{
	"type": "object",
	"properties": {
		"id": {"type": "string", "minLength": 1, "description": "The id that Bash returned."},
		"offset": {"type": "integer", "minimum": 0, "description": "Byte offset in the output to start at; by default, where the last read ended."}
	},
	"required": ["id"],
	"additionalProperties": false
}`

// Spec implements Tool.
func (BashOutput) Spec() Spec {
	return Spec{
		Name: "BashOutput", Title: "Read a background command's output",
		Description: "Returns the output of a background command since the last read, and whether it is still running. It does not wait.",
		InputSchema: json.RawMessage(bashOutputSchema), ReadOnly: true,
	}
}

type bashOutputInput struct {
	ID     string `json:"id"`
	Offset *int64 `json:"offset"`
	// With Block, Wait is for how many seconds to wait for the command's end first.
	Wait  float64 `json:"wait"`
	Block bool    `json:"block"`
}

// Call implements Tool.
func (BashOutput) Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	in, problem := decode[bashOutputInput]("BashOutput", input)
	if problem != nil {
		return *problem, nil
	}
	if wait := seconds(in.Wait); in.Block && wait > 0 {
		if _, err := awaitEnd(ctx, env, in.ID, wait); err != nil {
			return unknown(ctx, env, in.ID, err)
		}
	}
	f := env.background.follow(in.ID)
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.Offset != nil && *in.Offset != f.shown() {
		f.rewind(f.held())
		before := f.offset[0]
		f.offset[0] = *in.Offset
		result, err := f.read(ctx, env, in.ID)
		if err != nil || result.IsError {
			f.offset[0] = before
		}
		return result, err
	}
	return f.read(ctx, env, in.ID)
}
