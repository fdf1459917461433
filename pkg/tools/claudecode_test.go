package tools_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/secret"
)

func newClaude(t *testing.T, all ...tools.Tool) *host {
	t.Helper()
	return newHost(t, tools.Options{Dialect: "claude-code"}, all...)
}

// said makes calls and returns what came back, for a golden file.
func (h *host) said(t *testing.T, calls [][2]string) string {
	t.Helper()
	var transcript strings.Builder
	for _, c := range calls {
		result := h.call(c[0], c[1])
		kind := "result"
		if result.IsError {
			kind = "error"
		}
		transcript.WriteString(h.stable(c[0]+" "+c[1]+"\n--- "+kind+"\n"+result.Text()) + "\n\n")
	}
	return transcript.String()
}

func TestClaudeCodeSpecs(t *testing.T) {
	specs := tools.New(nil, tools.Options{Dialect: "claude-code"}, tools.Coding()...).Specs()
	meta, names, text := metaSchema(t), []string{}, ""
	for _, spec := range specs {
		var schema struct {
			Properties           map[string]struct{ Description, Type string }
			Required             []string
			AdditionalProperties *bool
		}
		var value any
		if err := json.Unmarshal(spec.InputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(spec.InputSchema, &value); err != nil || meta.Validate(value) != nil {
			t.Errorf("%s: %v, %v", spec.Name, err, meta.Validate(value))
		}
		if schema.AdditionalProperties == nil || *schema.AdditionalProperties || len(schema.Required) == 0 {
			t.Errorf("%s: %s", spec.Name, spec.InputSchema)
		}
		var parameters []string
		for name, p := range schema.Properties {
			if p.Description == "" || p.Type == "" {
				t.Errorf("%s: %s is not described", spec.Name, name)
			}
			if !slices.Contains(schema.Required, name) {
				name += "?"
			}
			parameters = append(parameters, name)
		}
		slices.Sort(parameters)
		names = append(names, spec.Name)
		text += spec.Name + ": " + strings.Join(parameters, " ") + "\n" + spec.Description + "\n\n"
	}
	if want := []string{"Read", "Bash", "TaskOutput", "TaskStop", "Edit", "Write", "Glob", "Grep"}; !slices.Equal(names, want) {
		t.Errorf("the tools are %q", names)
	}
	compareGolden(t, "claude-code-specs", text)
}

func TestClaudeCodeFileToolsAnswerAsItsOwn(t *testing.T) {
	h := newClaude(t)
	h.put("src/main.go", "package main\n\nfunc main() {}\nfunc Foo() {}\nfoo\n")
	h.put("no-end.txt", "one\ntwo")
	h.put("empty.txt", "")
	h.put("crlf.txt", "a\r\nb\r\n")
	h.put("binary.bin", "\x7fELF\x00\x01")
	h.put("e.txt", "a()\n\nb()\na()\n")
	compareGolden(t, "claude-code-files", h.said(t, [][2]string{
		{"Read", `{"file_path": "src/main.go"}`},
		{"Read", `{"file_path": "` + h.workdir + `/no-end.txt"}`},
		{"Read", `{"file_path": "src/main.go", "offset": 3, "limit": 1}`},
		{"Read", `{"file_path": "src/main.go", "offset": 0, "limit": "1"}`},
		{"Read", `{"file_path": "src/main.go", "offset": 5}`},
		{"Read", `{"file_path": "empty.txt"}`},
		{"Read", `{"file_path": "crlf.txt"}`},
		{"Read", `{"file_path": "binary.bin"}`},
		{"Read", `{"file_path": "no-end.txt", "offset": 9}`},
		{"Read", `{"file_path": "src/mian.go"}`},
		{"Read", `{"file_path": "src"}`},
		{"Read", `{"path": "src/main.go"}`},
		{"Read", `{"file_path": "src/main.go", "pages": "1"}`},
		{"Read", `{}`},
		{"Write", `{"file_path": "new/x.txt", "content": "one\ntwo\n"}`},
		{"Write", `{"file_path": "new/x.txt", "content": "three\n"}`},
		{"Write", `{"file_path": "new", "content": ""}`},
		{"Write", `{"file_path": "x", "file_text": ""}`},
		{"Edit", `{"file_path": "e.txt", "old_string": "b()", "new_string": "c()"}`},
		{"Edit", `{"file_path": "e.txt", "old_string": "a()", "new_string": "d()"}`},
		{"Edit", `{"file_path": "e.txt", "old_string": "a()", "new_string": "d()", "replace_all": true}`},
		{"Edit", `{"file_path": "e.txt", "old_string": "zzz", "new_string": "d()"}`},
		{"Edit", `{"file_path": "e.txt", "old_string": "d()", "new_string": "d()"}`},
		{"Edit", `{"file_path": "e.txt", "old_string": "", "new_string": "new"}`},
		{"Edit", `{"file_path": "made/now.txt", "old_string": "", "new_string": "fresh\n"}`},
		{"Edit", `{"file_path": "none.txt", "old_string": "a", "new_string": "b"}`},
		{"Edit", `{"file_path": "e.txt", "old_text": "a", "new_string": "b"}`},
		{"Read", `{"file_path": "e.txt"}`},
		{"Read", `{"file_path": "made/now.txt"}`},
	}))

	h.put("long.txt", strings.Repeat("x\n", 5000))
	text := h.text("Read", `{"file_path": "long.txt"}`)
	has(t, text, "1\tx\n", "2000\tx\n\n(lines 1-2000 of 5000, truncated at 2000 lines; continue with offset 2001)")
	if text := h.text("Read", `{"file_path": "long.txt", "offset": 2001, "limit": 2}`); text != "2001\tx\n2002\tx" {
		t.Errorf("a window is %q", text)
	}
}

func TestClaudeCodeSearchToolsAnswerAsItsOwn(t *testing.T) {
	h := newClaude(t)
	h.put("src/main.go", "package main\n\nfunc main() {}\nfunc Foo() {}\nfoo\n")
	h.put("a.txt", "hello foo\nbar\nbaz\nfoo foo again\nx\n")
	h.put("new/x.txt", "three\n")
	h.put("new/Makefile", "all: foo\n")
	for i, name := range []string{"a.txt", "new/x.txt", "src/main.go"} { // the order of their changes
		at := time.Unix(int64(i), 0)
		if err := os.Chtimes(filepath.Join(h.workdir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	inFiles := func(more string) [2]string { return [2]string{"Grep", `{"pattern": "foo"` + more + `}`} }
	lines := func(more string) [2]string { return inFiles(`, "output_mode": "content"` + more) }
	counts := func(more string) [2]string { return inFiles(`, "output_mode": "count"` + more) }
	compareGolden(t, "claude-code-search", h.said(t, [][2]string{
		{"Glob", `{"pattern": "*.txt"}`},
		{"Glob", `{"pattern": "**/*.{go,txt}"}`},
		{"Glob", `{"pattern": "*.go", "path": "` + h.workdir + `/src"}`},
		{"Glob", `{"pattern": "` + h.workdir + `/*/*.go"}`},
		{"Glob", `{"pattern": "src/*", "path": "."}`},
		{"Glob", `{"pattern": "src"}`},
		{"Glob", `{"pattern": "*", "path": "none"}`},
		{"Glob", `{"pattern": "*", "cwd": "src"}`},
		{"Glob", `{"pattern": "*.zig"}`},
		inFiles(""),
		inFiles(`, "head_limit": 1`),
		inFiles(`, "head_limit": 1, "offset": 1`),
		inFiles(`, "offset": 100`),
		inFiles(`, "type": "go"`),
		inFiles(`, "type": "make", "glob": "!*.go"`),
		inFiles(`, "type": "golang"`),
		inFiles(`, "glob": "*.go *.txt"`),
		inFiles(`, "glob": "!*.go"`),
		inFiles(`, "glob": "*.{go,c},Make*"`),
		inFiles(`, "path": "src"`),
		inFiles(`, "path": "` + h.workdir + `/src"`),
		inFiles(`, "path": "none"`),
		lines(""),
		lines(`, "-n": false`),
		lines(`, "-i": true, "-C": 1`),
		lines(`, "-A": 1`),
		lines(`, "-B": 1, "glob": "*.txt"`),
		lines(`, "context": 1, "type": "go"`),
		lines(`, "-o": true`),
		lines(`, "path": "a.txt"`),
		lines(`, "head_limit": 1`),
		lines(`, "head_limit": 0`),
		lines(`, "head_limit": 1, "offset": 1`),
		lines(`, "offset": 100`),
		counts(""),
		counts(`, "head_limit": 1`),
		counts(`, "path": "a.txt"`),
		{"Grep", `{"pattern": "bar.baz", "output_mode": "content", "multiline": true, "-C": 1}`},
		{"Grep", `{"pattern": "ba.", "output_mode": "content", "multiline": true, "-o": true}`},
		{"Grep", `{"pattern": "zzzz"}`},
		{"Grep", `{"pattern": "zzzz", "output_mode": "content"}`},
		{"Grep", `{"pattern": "zzzz", "output_mode": "count"}`},
		{"Grep", `{"pattern": "zzzz", "output_mode": "lines"}`},
		{"Grep", `{"pattern": "fo(o"}`},
		{"Grep", `{"pattern": "foo", "case_sensitive": false}`},
		{"Grep", `{"pattern": "foo", "include": "*.go"}`},
	}))

	for range 2 {
		h.text("Bash", `{"command": "mkdir -p many; cd many; for i in $(seq 130); do seq -f \"needle %g\" 3 >> $i.q; done"}`)
	}
	text := h.text("Glob", `{"pattern": "*.q"}`)
	has(t, text, "(Results are truncated. Consider using a more specific path or pattern.)")
	if n := strings.Count(text, "many/"); n != 100 {
		t.Errorf("there are %d paths", n)
	}
	has(t, h.text("Grep", `{"pattern": "needle"}`), "Found 130 files\n")
	text = h.text("Grep", `{"pattern": "needle", "output_mode": "content"}`)
	if n := strings.Count(text, "needle"); n != 250 || !strings.HasSuffix(text, "\n\n[Showing results with pagination = limit: 250]") {
		t.Errorf("there are %d lines: %s", n, brief(text))
	}
	has(t, h.text("Grep", `{"pattern": "needle", "output_mode": "count", "head_limit": 2}`),
		"many/1.q:6\nmany/10.q:6\n\nFound 780 total occurrences across 130 files. with pagination = limit: 2")
}

func TestClaudeCodeBashAnswersAsItsOwn(t *testing.T) {
	h := newClaude(t)
	compareGolden(t, "claude-code-bash", h.said(t, [][2]string{
		{"Bash", `{"command": "echo hello; echo err >&2; exit 3", "description": "Fail"}`},
		{"Bash", `{"command": "echo hello"}`},
		{"Bash", `{"command": "true"}`},
		{"Bash", `{"command": "false"}`},
		{"Bash", `{"command": "kill -9 $$"}`},
		{"Bash", `{"command": "echo begun; sleep 60", "timeout": 4500}`},
		{"Bash", `{"command": "true", "timeout": 99999999}`},
		{"Bash", `{"command": "true", "timeout": 0}`},
		{"Bash", `{"command": "true", "timeout": "soon"}`},
		{"Bash", `{"command": "true", "cwd": "src"}`},
		{"Bash", `{"cmd": "true"}`},
		{"TaskOutput", `{"task_id": "none"}`},
		{"TaskOutput", `{"bash_id": "none"}`},
		{"TaskStop", `{"shell_id": "none"}`},
		{"BashOutput", `{"id": "none"}`},
	}))
	has(t, h.text("Bash", `{"command": "seq 1 100000"}`), "1\n2\n", "100000", "the whole output is in ")

	id := taskID(h.text("Bash", `{"command": "echo begun; until [ -e go ]; do sleep 0.01; done; echo done; exit 3", "run_in_background": true}`))
	running := `^<retrieval_status>not_ready</retrieval_status>\n\n<task_id>` + id + `</task_id>\n\n<task_type>local_bash</task_type>\n\n<status>running</status>\n\n<output>\n`
	if text := h.text("TaskOutput", `{"task_id": "`+id+`", "block": false}`); !regexp.MustCompile(running).MatchString(text) {
		t.Errorf("a running command: %s", text)
	}
	if text := h.text("TaskOutput", `{"task_id": "`+id+`", "timeout": 1}`); !regexp.MustCompile(running).MatchString(text) {
		t.Errorf("a running command for which the time was too short: %s", text)
	}
	h.put("go", "")
	has(t, h.text("TaskOutput", `{"task_id": "`+id+`"}`), "<status>failed</status>\n\n<exit_code>3</exit_code>\n\n<output>\n", "done\n</output>")
	id = taskID(h.text("Bash", `{"command": "sleep 600", "run_in_background": true}`))
	has(t, h.text("TaskStop", `{"task_id": "`+id+`"}`), "Successfully stopped task: "+id+"\n", "<status>killed</status>")
}

// taskID returns the id in the answer of Bash.
func taskID(text string) string {
	_, id, _ := strings.Cut(text, "with ID: ")
	id, _, _ = strings.Cut(id, ". ")
	return id
}

func TestClaudeCodeBashHasTheTimesOfItsHost(t *testing.T) {
	h := newClaude(t, tools.Bash{MaxTimeout: time.Second})
	has(t, h.Specs()[0].Description+string(h.Specs()[0].InputSchema), "1000 unless you say otherwise, and at most 1000")
	has(t, h.refused("Bash", `{"command": "sleep 60", "timeout": 60000}`), "Command timed out after 1s. Set a longer timeout, up to 1000 ms")
}

func TestClaudeCodeToolsRedactSecrets(t *testing.T) {
	h := newHost(t, tools.Options{Dialect: "claude-code", Secrets: map[string]secret.Provider{"TOKEN": secret.Static("s3cr3t-v4lue-123\nof-two-lines")}})
	h.text("Bash", `{"command": "echo \"the $TOKEN here\" > kept"}`)
	for _, c := range [][2]string{
		{"Read", `{"file_path": "kept"}`},
		{"Grep", `{"pattern": "s3c.*lines", "output_mode": "content", "multiline": true}`},
		{"Grep", `{"pattern": "s3c", "output_mode": "content", "multiline": true, "-o": true}`},
		{"Bash", `{"command": "cat kept"}`},
	} {
		if text := h.text(c[0], c[1]); strings.Contains(text, "v4lue") || strings.Contains(text, "two-lines") {
			t.Errorf("%s shows the secret: %s", c, text)
		}
	}
}

// myRead is a tool of a host that embeds one of the package.
type myRead struct{ tools.Read }

func (m myRead) Call(ctx context.Context, env *tools.Env, input json.RawMessage) (tools.Result, error) {
	return m.Read.Call(ctx, env, input)
}

func TestToolsOfHostsAreTheSameInEveryDialect(t *testing.T) {
	h := newClaude(t, myRead{}, tools.Command{Path: "echo"}, weather())
	h.put("f", "x\n")
	if text := h.text("Read", `{"path": "f"}`); text != "(lines 1-1 of 1)\nx\n" {
		t.Errorf("a tool that embeds another says %q", text)
	}
	if text := h.text("echo", `{"args": ["x"]}`); text != "x\n" {
		t.Errorf("a Command says %q", text)
	}
	has(t, h.refused("echo", `{"command": "x"}`), "echo has no parameter")
}

func TestUnknownDialectIsRefusedWithTheNames(t *testing.T) {
	session := tools.New(nil, tools.Options{Dialect: "klingon"}, tools.Coding()...)
	_, err := session.Call(t.Context(), "Read", nil)
	for _, err := range []error{session.Prepare(t.Context()), err} {
		if err == nil || err.Error() != `there is no dialect "klingon" of the tools; the dialects are podagent, claude-code` {
			t.Errorf("got %v", err)
		}
	}
	if names := tools.Dialects(); !slices.Equal(names, []string{"podagent", "claude-code"}) {
		t.Errorf("the dialects are %q", names)
	}
}

func TestArgumentsOfOtherNamesAreToldTheRightOne(t *testing.T) {
	for dialect, cases := range map[string][][3]string{
		"": {
			{"Read", "file_path", "path"},
			{"Write", "file_text", "content"},
			{"Edit", "old_string", "old_text"},
			{"Edit", "new_str", "new_text"},
			{"Bash", "cmd", "command"},
			{"Bash", "workdir", "cwd"},
			{"BashOutput", "task_id", "id"},
			{"BashKill", "shell_id", "id"},
			{"Glob", "path", "cwd"},
			{"Grep", "-i", "case_sensitive"},
			{"Grep", "head_limit", "limit"},
			{"Grep", "include", "glob"},
			{"Grep", "-C", "context"},
		},
		"claude-code": {
			{"Read", "path", "file_path"},
			{"Write", "contents", "content"},
			{"Edit", "old_text", "old_string"},
			{"Edit", "new_str", "new_string"},
			{"Bash", "script", "command"},
			{"TaskOutput", "id", "task_id"},
			{"TaskStop", "bash_id", "task_id"},
			{"Glob", "cwd", "path"},
			{"Grep", "case_sensitive", "-i"},
			{"Grep", "limit", "head_limit"},
			{"Grep", "regex", "pattern"},
		},
	} {
		session := tools.New(nil, tools.Options{Dialect: dialect}, tools.Coding()...)
		for _, c := range cases {
			input, _ := json.Marshal(map[string]any{c[1]: true})
			result, err := session.Call(t.Context(), c[0], input)
			if want := `unknown argument "` + c[1] + `": this tool's is "` + c[2] + `"`; err != nil || !result.IsError || result.Text() != want {
				t.Errorf("%q, %s %s: %s, %v", dialect, c[0], c[1], result.Text(), err)
			}
		}
	}
}
