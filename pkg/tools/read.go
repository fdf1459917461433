package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
)

// Read reads a text by lines, or an image. Only what it shows comes from the
// sandbox.
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
			"Of a text you get at most 2000 lines or 50 KiB at once, whole lines, after a header that says which lines of how many they are. " +
			"Go on with offset where it says that there is more. The lines are as they are in the file, without numbers.",
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
		if result, err := readImage(ctx, env, in.Path); result != nil || err != nil {
			return deref(result), err
		}
	}
	limit := in.Limit
	ours := limit == 0 || limit > MaxLines
	if ours {
		limit = MaxLines
	}
	lines, err := env.Sandbox.ReadLines(ctx, env.Path(in.Path), fsops.LineOptions{First: in.Offset, Max: limit, MaxBytes: MaxText})
	switch {
	case err != nil:
		return failed(ctx, env, "read", in.Path, err)
	case isBinary(lines.Text):
		return notText(in.Path, lines), nil
	case lines.Attr.Size == 0 && len(lines.Text) == 0:
		return Text("(the file is empty)"), nil
	case lines.Count == 0:
		return Errorf("cannot read %s from line %d on: it has %d lines", quote(in.Path), in.Offset, lines.Total), nil
	}
	return Text(header(lines, ours) + "\n" + string(lines.Text)), nil
}

func deref(r *Result) Result {
	if r == nil {
		return Result{}
	}
	return *r
}

// header says which lines these are, and how to get more. ours says that it was
// our limit of lines, and not the model's, that was hit.
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
		next = fmt.Sprintf("; go on with offset %d", last+1)
	}
	switch {
	case l.CutLine:
		return fmt.Sprintf("(%s, cut: line %d is longer than %d KiB, of which you see the beginning; use Grep or Bash for its rest%s)", where, last, MaxText>>10, next)
	case l.Truncated:
		return fmt.Sprintf("(%s, truncated at %d KiB%s)", where, MaxText>>10, next)
	case more && ours:
		return fmt.Sprintf("(%s, truncated at %d lines%s)", where, MaxLines, next)
	}
	return "(" + where + ")"
}

// isBinary reports whether a part of a file is not text: text has no NUL.
func isBinary(text []byte) bool { return bytes.IndexByte(text, 0) >= 0 }

// notText returns the refusal of a file that is neither text nor an image of
// such a name.
func notText(name string, l fsops.Lines) Result {
	kind := http.DetectContentType(l.Text)
	if l.First > 1 || kind == "application/octet-stream" || strings.HasPrefix(kind, "text/") {
		kind = "of an unknown type"
	}
	hint := "Use Bash to look into it, with file, strings or xxd."
	if slices.Contains(imageTypes, kind) {
		hint = "It is an image: copy it to a name that ends so, and read that."
	}
	return Errorf("cannot read %s: it is binary (%s, %d bytes), and only texts and images can be read. %s", quote(name), kind, l.Attr.Size, hint)
}

var (
	imageNames = []string{".jpg", ".jpeg", ".png", ".gif", ".webp"}
	imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}
)

func isImageName(name string) bool {
	return slices.Contains(imageNames, strings.ToLower(path.Ext(name)))
}

// readImage reads a file that has the name of an image. What is none in truth
// is nil: it may be a text in its place.
func readImage(ctx context.Context, env *Env, name string) (*Result, error) {
	var data bytes.Buffer
	// One byte more tells a file that is too large.
	read, err := env.Sandbox.Read(ctx, env.Path(name), fsops.ReadOptions{Length: MaxImage + 1}, &data)
	if err != nil {
		result, err := failed(ctx, env, "read", name, err)
		return &result, err
	}
	kind := http.DetectContentType(data.Bytes())
	if !slices.Contains(imageTypes, kind) {
		return nil, nil
	}
	result := Result{Content: []Content{{MediaType: kind, Data: data.Bytes()}}}
	if data.Len() > MaxImage {
		result = Errorf("cannot read %s: the image has %d bytes, and %d MiB are the most. Make it smaller, for example with: convert IN -resize 1600 OUT",
			quote(name), read.Attr.Size, MaxImage>>20)
	}
	return &result, nil
}

// count returns a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "ch") {
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// countLines returns how many lines a text has; a last one without its end is
// one, too.
func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}
