package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
)

// Edit replaces an exact text in a file, atomically.
type Edit struct{}

const editSchema = `{
	"type": "object",
	"properties": {
		"path": {"type": "string", "minLength": 1, "description": "Path of the file, absolute or relative to the working directory."},
		"old_text": {"type": "string", "minLength": 1, "description": "The text to replace, exactly as in the file, including white space. It must occur once, unless replace_all is true."},
		"new_text": {"type": "string", "description": "The text to put in its place."},
		"replace_all": {"type": "boolean", "default": false, "description": "Replace every occurrence."}
	},
	"required": ["path", "old_text", "new_text"],
	"additionalProperties": false
}`

// Spec implements Tool.
func (Edit) Spec() Spec {
	return Spec{
		Name: "Edit", Title: "Edit a file",
		Description: "Replaces a text in a file, and shows the change as a diff. " +
			"old_text must occur exactly once: include enough lines around the change to make it unique, or set replace_all.",
		InputSchema: json.RawMessage(editSchema), Destructive: true,
	}
}

type editInput struct {
	Path       string `json:"path"`
	OldText    string `json:"old_text"`
	NewText    string `json:"new_text"`
	ReplaceAll bool   `json:"replace_all"`
}

// Call implements Tool.
func (Edit) Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	in, problem := decode[editInput]("Edit", input)
	if problem != nil {
		return *problem, nil
	}
	if in.OldText == in.NewText {
		return Errorf("cannot edit %s: old_text and new_text are the same", env.name(in.Path)), nil
	}
	edit := fsops.Edit{Old: []byte(in.OldText), New: []byte(in.NewText), All: in.ReplaceAll}
	edited, err := env.Sandbox.Edit(ctx, env.Path(in.Path), []fsops.Edit{edit}, fsops.EditOptions{})
	if failure, ok := errors.AsType[*fsops.EditError](err); ok {
		return in.refused(ctx, env, failure), nil
	}
	if err != nil {
		return failed(ctx, env, "edit", in.Path, err)
	}
	text := fmt.Sprintf("Edited %s (%s)\n%s", in.Path, count(edited.Occurrences[0], "replacement"), shortDiff(env, edited))
	if edited.Write.InPlace {
		text += inPlace + "\n"
	}
	if note := env.markerNote(in.NewText); note != "" {
		text += note + "\n"
	}
	return Text(text), nil
}

// shortDiff returns the diff, cut to the limits of a result.
func shortDiff(env *Env, edited fsops.EditResult) string {
	shown := edited.Diff
	if len(shown) > MaxText {
		shown = wholeLines(shown[:MaxText])
	}
	shown = shown[:nthLine(shown, MaxLines)]
	if !edited.DiffTruncated && len(shown) == len(edited.Diff) {
		return string(shown)
	}
	return endLine(env.redactor.RedactHead(string(shown))) + "(this is the beginning of the diff: it is longer)\n"
}

// refused says why the text was not replaced.
func (in editInput) refused(ctx context.Context, env *Env, failure *fsops.EditError) Result {
	if failure.Count == 0 {
		hint := "Read the file, and copy the text from it exactly, including white space."
		switch {
		case env.markerNote(in.OldText) != "":
			hint = "It contains a placeholder where the file has a secret: edit the text before or after that."
		case failure.Hint != "":
			hint = strings.ToUpper(failure.Hint[:1]) + failure.Hint[1:] + ". " + hint
		}
		return Errorf("cannot edit %s: old_text is not in it; nothing was changed. %s", env.name(in.Path), hint)
	}
	where := ""
	switch lines := occurrences(ctx, env, in); len(lines) {
	case 0:
	case 1:
		where = " (on line " + lines[0] + ")"
	default:
		where = " (on lines " + strings.Join(lines, ", ") + ")"
	}
	return Errorf("cannot edit %s: old_text occurs %d times in it%s; nothing was changed. "+
		"Include more of the text around the one that you mean in old_text, or set replace_all to change all of them.",
		env.name(in.Path), failure.Count, where)
}

// occurrences returns the numbers of the first lines where the old text begins,
// none if the file cannot be read.
func occurrences(ctx context.Context, env *Env, in editInput) []string {
	var content bytes.Buffer
	if _, err := env.Sandbox.Read(ctx, env.Path(in.Path), &content, fsops.ReadOptions{Length: occurrenceBytes}); err != nil {
		return nil
	}
	text, old := content.Bytes(), []byte(in.OldText)
	var lines []string
	for line := 1; ; {
		at := bytes.Index(text, old)
		if at < 0 {
			return slices.Compact(lines)
		}
		if len(lines) == maxOccurrences {
			return append(slices.Compact(lines), "…")
		}
		line += bytes.Count(text[:at], []byte("\n"))
		lines = append(lines, fmt.Sprint(line))
		line += bytes.Count(old, []byte("\n"))
		text = text[at+len(old):]
	}
}
