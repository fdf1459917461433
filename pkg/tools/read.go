package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/podagent/podagent/pkg/fsops"
)

// Read reads the lines of a text file, or an image. It transfers only what it
// shows.
type Read struct{}

const readSchema = `{
	"type": "object",
	"properties": {
		"path": {"type": "string", "minLength": 1, "description": "Path of the file, absolute or relative to the working directory."},
		"offset": {"type": "integer", "minimum": 1, "default": 1, "description": "First line to read, counted from 1."},
		"limit": {"type": "integer", "minimum": 1, "default": 2000, "description": "How many lines to read: at most 2000."}
	},
	"required": ["path"],
	"additionalProperties": false
}`

// Spec implements Tool.
func (Read) Spec() Spec {
	return Spec{
		Name: "Read", Title: "Read a file",
		Description: "Reads a text file, or an image (.jpg, .jpeg, .png, .gif, .webp). " +
			"You get at most 2000 lines or 50 KiB of a text at once, in whole lines, after a header that says which lines they are and how many there are. " +
			"If the header says that there is more, continue with offset. The lines are exactly as in the file, without numbers.",
		InputSchema: json.RawMessage(readSchema), ReadOnly: true, Idempotent: true,
	}
}

type readInput struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Limit  int64  `json:"limit"`
}

// Call implements Tool.
func (Read) Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	in, problem := decode[readInput]("Read", input)
	if problem != nil {
		return *problem, nil
	}
	if isImageName(in.Path) {
		if result, is, err := readImage(ctx, env, in.Path); is || err != nil {
			return result, err
		}
	}
	limit := min(cmp.Or(in.Limit, MaxLines), MaxLines)
	lines, err := env.Sandbox.ReadLines(ctx, env.Path(in.Path), fsops.LineOptions{First: in.Offset, Max: limit, MaxBytes: MaxText})
	if err != nil {
		return failed(ctx, env, "read", in.Path, err)
	}
	switch {
	case !isBinary(lines.Text):
		return env.voice().lines(env, in, lines), nil
	case lines.First == 1 && isImage(lines.Text):
		if result, is, err := readImage(ctx, env, in.Path); is || err != nil {
			return result, err
		}
	}
	return notText(env.name(in.Path), lines), nil
}

// lines shows the lines of a text, after a header.
func (ownVoice) lines(env *Env, in readInput, lines fsops.Lines) Result {
	text := string(lines.Text)
	switch {
	case lines.Attr.Size == 0 && text == "":
		return Text("(the file is empty)")
	case lines.Count == 0:
		return Errorf("cannot read %s from line %d on: it has %s", env.name(in.Path), in.Offset, count(int(lines.Total), "line"))
	case lines.CutLine:
		text = env.redactor.RedactHead(text)
	}
	ours := in.Limit == 0 || in.Limit > MaxLines
	return Text(header(lines, ours) + peculiarities(lines) + text)
}

// header says which lines these are, and how to get more. ours says that our
// limit of lines was hit, not the model's.
func header(l fsops.Lines, ours bool) string {
	last := l.First + l.Count - 1
	of := "many"
	if l.Total >= 0 {
		of = fmt.Sprint(l.Total)
	}
	where := fmt.Sprintf("lines %d-%d of %s", l.First, last, of)
	more := last < l.Total || l.Total < 0
	next := ""
	if more {
		next = fmt.Sprintf("; continue with offset %d", last+1)
	}
	switch {
	case l.CutLine:
		return fmt.Sprintf("(%s, cut: line %d is longer than %d KiB, and only its beginning is shown; use Grep or Bash for its rest%s)\n", where, last, MaxText>>10, next)
	case l.Truncated:
		return fmt.Sprintf("(%s, truncated at %d KiB%s)\n", where, MaxText>>10, next)
	case more && ours:
		return fmt.Sprintf("(%s, truncated at %d lines%s)\n", where, MaxLines, next)
	}
	return "(" + where + ")\n"
}

// peculiarities describes what a model cannot see in the lines, but must know
// before it edits them.
func peculiarities(l fsops.Lines) string {
	var text string
	if ends := bytes.Count(l.Text, []byte("\n")); ends > 0 && ends == bytes.Count(l.Text, []byte("\r\n")) {
		text += "(the lines end in \\r\\n: Edit needs that, too)\n"
	}
	if !utf8.Valid(l.Text) {
		text += "(some bytes are not UTF-8 and are shown as \uFFFD; use Bash with iconv or sed for this file)\n"
	}
	return text
}

// isBinary reports whether a part of a file has a NUL byte, as text never does.
func isBinary(text []byte) bool { return bytes.IndexByte(text, 0) >= 0 }

// notText refuses a file that is neither text nor an image.
func notText(name string, l fsops.Lines) Result {
	kind, hint := http.DetectContentType(l.Text), "Use Bash to look into it, with file, strings or xxd."
	switch {
	case l.First == 1 && strings.Contains(kind, "charset=utf-16"):
		kind, hint = "text in UTF-16", "Use Bash with iconv -f UTF-16 to read it, or Grep, which can decode it."
	case l.First > 1 || kind == "application/octet-stream" || strings.HasPrefix(kind, "text/"):
		kind = "of an unknown type"
	}
	return Errorf("cannot read %s: it is binary (%s, %s), and only texts and images can be read. %s", name, kind, count(int(l.Attr.Size), "byte"), hint)
}
