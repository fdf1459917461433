package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
		return Errorf("%s", env.voice().refused(env, in, refusal{same: true})), nil
	}
	if in.OldText == "" {
		return in.create(ctx, env)
	}
	edit := fsops.Edit{Old: []byte(in.OldText), New: []byte(in.NewText), All: in.ReplaceAll}
	edited, err := env.Sandbox.Edit(ctx, env.Path(in.Path), []fsops.Edit{edit}, fsops.EditOptions{})
	if failure, ok := errors.AsType[*fsops.EditError](err); ok {
		return in.refused(ctx, env, failure), nil
	}
	if err != nil {
		return failed(ctx, env, "edit", in.Path, err)
	}
	text := env.voice().edited(env, in, edited)
	if edited.Write.InPlace {
		text = endLine(text) + inPlace + "\n"
	}
	if note := env.markerNote(in.NewText); note != "" {
		text = endLine(text) + note + "\n"
	}
	return Text(text), nil
}

func (ownVoice) edited(env *Env, in editInput, r fsops.EditResult) string {
	return fmt.Sprintf("Edited %s (%s)\n%s", in.Path, count(r.Occurrences[0], "replacement"), shortDiff(env, r))
}

// create makes a file with the new text: some dialects edit a file that is not there
// by replacing nothing. In the others the old text is never empty.
func (in editInput) create(ctx context.Context, env *Env) (Result, error) {
	written, err := env.Sandbox.Write(ctx, env.Path(in.Path), strings.NewReader(in.NewText), fsops.WriteOptions{Parents: true, Exclusive: true})
	switch {
	case errors.Is(err, fs.ErrExist):
		return Errorf("%s", env.voice().refused(env, in, refusal{exists: true})), nil
	case err != nil:
		return failed(ctx, env, "edit", in.Path, err)
	}
	text := env.voice().edited(env, in, fsops.EditResult{Occurrences: []int{1}, Write: written})
	if note := env.markerNote(in.NewText); note != "" {
		text = endLine(text) + note + "\n"
	}
	return Text(text), nil
}

// refusal is why an edit was not made.
type refusal struct {
	same   bool   // both texts are the same
	exists bool   // the file was to be new
	count  int    // how often the old text is in the file
	hint   string // what else is known about an old text that is not in the file
	lines  []string
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
	why := refusal{count: failure.Count}
	switch {
	case failure.Count > 0:
		why.lines = occurrences(ctx, env, in)
	case env.markerNote(in.OldText) != "":
		why.hint = "It contains a placeholder where the file has a secret: edit the text before or after that."
	default:
		why.hint = "Read the file, and copy the text from it exactly, including white space."
		if failure.Hint != "" {
			why.hint = strings.ToUpper(failure.Hint[:1]) + failure.Hint[1:] + ". " + why.hint
		}
	}
	return Errorf("%s", env.voice().refused(env, in, why))
}

func (ownVoice) refused(env *Env, in editInput, r refusal) string {
	switch {
	case r.same:
		return fmt.Sprintf("cannot edit %s: old_text and new_text are the same", env.name(in.Path))
	case r.exists:
		return fmt.Sprintf("cannot create %s: it is there already", env.name(in.Path))
	case r.count == 0:
		return fmt.Sprintf("cannot edit %s: old_text is not in it; nothing was changed. %s", env.name(in.Path), r.hint)
	}
	return fmt.Sprintf("cannot edit %s: old_text occurs %d times in it%s; nothing was changed. "+
		"Include more of the text around the one that you mean in old_text, or set replace_all to change all of them.",
		env.name(in.Path), r.count, r.where())
}

// where says on which lines the old text is, if that is known.
func (r refusal) where() string {
	switch len(r.lines) {
	case 0:
		return ""
	case 1:
		return " (on line " + r.lines[0] + ")"
	}
	return " (on lines " + strings.Join(r.lines, ", ") + ")"
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
