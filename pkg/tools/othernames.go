package tools

import "slices"

// wellKnown are parameters by the names that they have elsewhere, in the tools of
// agents and editors that models are trained with, for each tool of this package by
// the name of its own parameter. The names of dialects count as well.
var wellKnown = map[string]map[string][]string{
	"Read": {
		"path":   {"file", "filename", "filepath", "target_file"},
		"offset": {"start", "start_line", "first_line"},
		"limit":  {"lines", "max_lines", "num_lines"},
	},
	"Write": {
		"path":    {"file", "filename", "filepath", "target_file"},
		"content": {"contents", "file_text", "text", "data"},
	},
	"Edit": {
		"path":        {"file", "filename", "filepath", "target_file"},
		"old_text":    {"old_str", "old", "search", "find"},
		"new_text":    {"new_str", "new", "replace", "replacement"},
		"replace_all": {"all", "expected_replacements"},
	},
	"Bash": {
		"command":           {"cmd", "script", "code"},
		"cwd":               {"workdir", "working_directory", "dir", "directory"},
		"timeout":           {"timeout_ms", "timeout_seconds", "max_time"},
		"run_in_background": {"background", "is_background"},
	},
	"BashOutput": {"id": {"bash_id", "shell_id", "process_id"}},
	"BashKill":   {"id": {"bash_id", "shell_id", "process_id"}},
	"Glob": {
		"pattern": {"glob", "glob_pattern", "query"},
		"cwd":     {"dir", "directory", "root", "target_directory"},
		"limit":   {"max_results", "head_limit"},
	},
	"Grep": {
		"pattern":        {"regex", "query", "search", "regexp"},
		"path":           {"dir", "directory", "cwd", "target_directory"},
		"glob":           {"include", "include_pattern", "file_pattern"},
		"case_sensitive": {"ignore_case", "case_insensitive", "-i"},
		"limit":          {"max_results", "head_limit"},
		"context":        {"context_lines", "-C"},
	},
}

// sameAs pairs parameters that dialects turn into different members of the own input
// of a tool, although they are for the same.
var sameAs = map[string]string{"ignore_case": "case_sensitive", "head_limit": "limit", "globs": "glob"}

// otherNames returns the parameters of a tool in its form by the names that these
// have elsewhere. tool is the tool's own name, and form nil if that is its form.
func otherNames(tool string, of *form) map[string]string {
	here := namesIn(tool, of)
	names := map[string]string{}
	add := func(own, other string) {
		if name := here[own]; name != "" && name != other && names[other] == "" {
			names[other] = name
		}
	}
	for own, others := range wellKnown[tool] {
		add(own, own)
		for _, other := range others {
			add(own, other)
		}
	}
	for _, d := range dialects {
		for own, other := range namesIn(tool, d.form(tool)) {
			add(own, other)
		}
	}
	return names
}

// namesIn returns the names of a tool's parameters in a form, by their own names.
func namesIn(tool string, of *form) map[string]string {
	names := map[string]string{}
	if of == nil {
		for own := range wellKnown[tool] {
			names[own] = own
		}
		return names
	}
	for _, p := range slices.Backward(of.parameters) { // the first of several wins
		own := p.own
		if same := sameAs[own]; same != "" {
			own = same
		}
		if own != "" {
			names[own] = p.name
		}
	}
	return names
}
