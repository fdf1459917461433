package tools

import (
	"encoding/json"
	"strings"
)

// claudeCode is the dialect of the tools of Claude Code, as of the version 0.3.332 of
// @anthropic-ai/claude-agent-sdk: sdk-tools.d.ts has the parameters, and the answers
// are what its own tools say. Models are trained with both.
var claudeCode = dialect{name: "claude-code", voice: claudeVoice{}, forms: []form{
	{
		tool: "Read", name: "Read", title: "Read a file",
		description: "Reads a text file of the sandbox, with the number of each line and a tab before it, or an image (.jpg, .jpeg, .png, .gif, .webp). " +
			"You get at most 2000 lines or 50 KiB at once. If there is more, the end says so: continue with offset.",
		parameters: []parameter{
			claudePath,
			{name: "offset", own: "offset", schema: `{"type": "integer", "minimum": 0}`, description: "Number of the first line to read, counted from 1."},
			{name: "limit", own: "limit", schema: `{"type": "integer", "minimum": 1}`, description: "How many lines to read: 2000 unless you say less."},
		},
	},
	{
		tool: "Bash", name: "Bash", title: "Run a shell command",
		description: "Runs a shell command in the sandbox, and returns what it prints. An exit code other than 0 is an error. " +
			"Each command gets a new shell in the working directory: use cd and && in one command. Nobody can answer questions or press keys. " +
			"If the output has more than 2000 lines or 50 KiB, you get its beginning, its end, and the path of a file with all of it. " +
			"To keep a command running, set run_in_background, and use TaskOutput and TaskStop.",
		parameters: []parameter{
			{name: "command", own: "command", schema: `{"type": "string", "minLength": 1}`, description: "The command, as for bash -c.", required: true},
			{
				name: "timeout", own: "timeout", as: inSeconds, schema: `{"type": "number", "minimum": 0}`,
				description: "Milliseconds after which the command is ended: " + defaultMillis + " unless you say otherwise, and at most " + maxMillis + ". In the background there is no limit unless you set one.",
			},
			{name: "description", schema: `{"type": "string"}`, description: "What the command does, in a few words for the user."},
			{name: "run_in_background", own: "run_in_background", schema: `{"type": "boolean"}`, description: "Start the command and return at once, for servers and long tasks."},
		},
		fixed: map[string]any{"clamp": true},
	},
	{
		tool: "BashOutput", name: "TaskOutput", title: "Read a background command's output",
		description: "Returns the output of a background command since the last read, and whether it is still running. It waits for the command's end unless block is false.",
		parameters: []parameter{
			claudeTask,
			{name: "block", own: "block", schema: `{"type": "boolean", "default": true}`, description: "Whether to wait for the command's end."},
			{name: "timeout", own: "wait", as: inSeconds, schema: `{"type": "number", "minimum": 0, "maximum": 600000, "default": 30000}`, description: "How many milliseconds to wait."},
		},
		fixed: map[string]any{"block": true, "wait": 30},
	},
	{
		tool: "BashKill", name: "TaskStop", title: "End a background command",
		description: "Ends a background command and all processes that it started, and returns its output since the last read.",
		parameters:  []parameter{claudeTask},
	},
	{
		tool: "Edit", name: "Edit", title: "Edit a file",
		description: "Replaces a text in a file. old_string must occur exactly once: include enough lines around the change to make it unique, or set replace_all. " +
			"It must be as in the file, without the line numbers that Read shows. An empty old_string creates the file.",
		parameters: []parameter{
			claudePath,
			{name: "old_string", own: "old_text", schema: `{"type": "string"}`, description: "The text to replace, exactly as in the file, including white space.", required: true},
			{name: "new_string", own: "new_text", schema: `{"type": "string"}`, description: "The text to put in its place, which must differ.", required: true},
			{name: "replace_all", own: "replace_all", schema: `{"type": "boolean", "default": false}`, description: "Replace every occurrence."},
		},
	},
	{
		tool: "Write", name: "Write", title: "Write a file",
		description: "Creates a file or replaces its whole content, and creates missing parent directories. Use Edit to change a part of a file.",
		parameters: []parameter{
			claudePath,
			{name: "content", own: "content", schema: `{"type": "string"}`, description: "The whole new content of the file.", required: true},
		},
	},
	{
		tool: "Glob", name: "Glob", title: "Find files",
		description: "Finds the files whose path matches a pattern, the latest changed first, at most 100: * matches within a name, ** any directories, {a,b} either, [a-z] a character. " +
			"A pattern without a slash is for names in all directories. What .gitignore excludes is left out, unless nothing else matches.",
		parameters: []parameter{
			{name: "pattern", own: "pattern", as: anywhere, schema: `{"type": "string", "minLength": 1}`, description: "Pattern such as *.go, or src/**/*.{ts,tsx}.", required: true},
			{name: "path", own: "cwd", schema: `{"type": "string"}`, description: "Directory that the pattern starts in; the working directory by default."},
		},
		fixed: map[string]any{"limit": claudeGlobLimit, "files": true, "by_time": true},
	},
	{
		tool: "Grep", name: "Grep", title: "Search in files",
		description: "Finds files, or lines of files, that match a regular expression (RE2: no look-around, no back-references). " +
			"Binary files, .git and what .gitignore excludes are left out, unless path names such a thing.",
		parameters: grepParameters,
		fixed:      map[string]any{"paged": true, "mode": grepFiles},
	},
}}

// The parameters that several tools of Claude Code have.
var (
	claudePath = parameter{
		name: "file_path", own: "path", schema: `{"type": "string", "minLength": 1}`,
		description: "Path of the file, absolute or relative to the working directory.", required: true,
	}
	claudeTask = parameter{name: "task_id", own: "id", schema: `{"type": "string", "minLength": 1}`, description: "The ID that Bash returned.", required: true}
)

var grepParameters = []parameter{
	{name: "pattern", own: "pattern", schema: `{"type": "string", "minLength": 1}`, description: "Regular expression of RE2's syntax, matched against each line.", required: true},
	{name: "path", own: "path", schema: `{"type": "string"}`, description: "File or directory to search; the working directory by default."},
	{name: "glob", own: "globs", as: globsOf, schema: `{"type": "string"}`, description: "Search only files that match: *.go by the name, src/**/*.go by the path; several with spaces between them; ! before one leaves out such files."},
	{
		name: "output_mode", own: "mode", schema: `{"type": "string", "enum": ["content", "files_with_matches", "count"], "default": "files_with_matches"}`,
		description: "What to return: the lines (content), the paths of the files, or how many lines of each file match.",
	},
	{name: "-B", own: "before", schema: contextLines, description: "How many lines to show before each match, with content."},
	{name: "-A", own: "after", schema: contextLines, description: "How many lines to show after each match, with content."},
	{name: "context", own: "context", schema: contextLines, description: "How many lines to show around each match, with content."},
	{name: "-C", own: "context", schema: contextLines, description: "The same as context."},
	{name: "-n", own: "numbers", schema: `{"type": "boolean", "default": true}`, description: "Whether to show the numbers of lines, with content."},
	{name: "-i", own: "ignore_case", schema: `{"type": "boolean", "default": false}`, description: "Whether upper and lower case are the same."},
	{name: "-o", own: "only", schema: `{"type": "boolean", "default": false}`, description: "Show only the parts of lines that match, with content."},
	{name: "type", own: "type", schema: `{"type": "string"}`, description: "Search only files of this type of ripgrep's, such as go, js, py, rust or java."},
	{name: "head_limit", own: "head_limit", schema: `{"type": "integer", "minimum": 0, "default": 250}`, description: "How many lines or entries to return at most; 0 for all."},
	{name: "offset", own: "skip", schema: `{"type": "integer", "minimum": 0, "default": 0}`, description: "How many lines or entries to leave out before these."},
	{name: "multiline", own: "multiline", schema: `{"type": "boolean", "default": false}`, description: "Let a match span lines; . then matches the end of a line, too."},
}

const contextLines = `{"type": "integer", "minimum": 0, "maximum": 100}`

// inSeconds converts a number of milliseconds.
func inSeconds(value json.RawMessage) json.RawMessage {
	var millis float64
	_ = json.Unmarshal(value, &millis) // it fits the schema, here and below
	value, _ = json.Marshal(millis / 1000)
	return value
}

// anywhere makes a pattern without a slash one for names in all directories.
func anywhere(value json.RawMessage) json.RawMessage {
	var pattern string
	_ = json.Unmarshal(value, &pattern)
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	value, _ = json.Marshal(pattern)
	return value
}

// globsOf returns the patterns in a text, which have spaces or, outside of braces,
// commas between them.
func globsOf(value json.RawMessage) json.RawMessage {
	var text string
	_ = json.Unmarshal(value, &text)
	depth := 0
	globs := strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '{':
			depth++
		case '}':
			depth--
		}
		return r == ' ' || r == ',' && depth <= 0
	})
	value, _ = json.Marshal(globs)
	return value
}
