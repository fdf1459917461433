package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
)

// Write creates or replaces a file atomically, and creates missing parent
// directories.
type Write struct{}

const writeSchema = `{
	"type": "object",
	"properties": {
		"path": {"type": "string", "minLength": 1, "description": "Path of the file, absolute or relative to the working directory."},
		"content": {"type": "string", "description": "The whole new content of the file."}
	},
	"required": ["path", "content"],
	"additionalProperties": false
}`

// Spec implements Tool.
func (Write) Spec() Spec {
	return Spec{
		Name: "Write", Title: "Write a file",
		Description: "Creates a file or replaces its whole content, and creates missing parent directories. " +
			"Use Edit to change a part of a file.",
		InputSchema: json.RawMessage(writeSchema), Destructive: true, Idempotent: true,
	}
}

type writeInput struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// inPlace says that a file was not written atomically.
const inPlace = "(the file could not be replaced atomically, and was overwritten in place)"

// Call implements Tool.
func (Write) Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	in, problem := decode[writeInput]("Write", input)
	if problem != nil {
		return *problem, nil
	}
	written, err := env.Sandbox.Write(ctx, env.Path(in.Path), strings.NewReader(in.Content), fsops.WriteOptions{Parents: true})
	if err != nil {
		return failed(ctx, env, "write", in.Path, err)
	}
	text := env.voice().wrote(in, written)
	if written.InPlace {
		text += "\n" + inPlace
	}
	if note := env.markerNote(in.Content); note != "" {
		text += "\n" + note
	}
	return Text(text), nil
}

func (ownVoice) wrote(in writeInput, _ fsops.WriteResult) string {
	return fmt.Sprintf("Wrote %s (%s, %s)", in.Path, count(countLines(in.Content), "line"), count(len(in.Content), "byte"))
}
