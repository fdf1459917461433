// Package ignore tells which files git would ignore: it reads .gitignore files
// and matches paths against them with the rules of gitignore(5), and is tested
// to agree with "git check-ignore --no-index".
//
// A [Rules] is one such file; a [Dir] is a directory in a walk, with all the
// rules that hold in it. The one thing left out is git's own configuration:
// core.excludesFile is the preference of a user, not a property of the tree.
package ignore

import (
	"bytes"
	"strings"
)

// Verdict is what rules say of a path.
type Verdict int

// The verdicts. Unknown leaves the decision to rules of lower precedence.
const (
	Unknown Verdict = iota
	Ignore
	Keep
)

// Rules are the patterns of one .gitignore file. The zero value has none.
type Rules struct{ rules []rule }

// A rule is one line of the file.
type rule struct {
	keep    bool // the line began with '!'
	dirOnly bool // the line ended with '/'
	base    bool // no slash in it: it is matched against the base name
	pattern pattern
}

// utf8BOM is what some editors put at a file's beginning, and git skips.
const utf8BOM = "\xef\xbb\xbf"

// Parse reads the text of a .gitignore file. There are no invalid files: a
// pattern that makes no sense matches nothing.
func Parse(text []byte) Rules {
	var rules Rules
	text = bytes.TrimPrefix(text, []byte(utf8BOM))
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		if r, ok := parseRule(string(line)); ok {
			rules.rules = append(rules.rules, r)
		}
	}
	return rules
}

func parseRule(line string) (rule, bool) {
	line, _, _ = strings.Cut(line, "\x00") // git handles lines as C strings
	line = trimSpaces(line)
	var r rule
	line, r.keep = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	r.base = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return rule{}, false
	}
	r.pattern = compile(line)
	return r, r.pattern.possible
}

// trimSpaces removes trailing spaces that no backslash protects.
func trimSpaces(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
			continue
		case '\\':
			i++
			if i == len(s) {
				return s
			}
		}
		end = i + 1
	}
	return s[:end]
}

// Empty reports whether there are no rules.
func (r Rules) Empty() bool { return len(r.rules) == 0 }

// Match says what the last rule that matches path says. The path is relative
// to the directory of the rules, with '/' between its parts; isDir says
// whether it is a directory. Match looks at path alone: that everything in an
// ignored directory is ignored is up to the caller, as [Dir] does it.
func (r Rules) Match(path string, isDir bool) Verdict {
	base := path[strings.LastIndexByte(path, '/')+1:]
	for i := len(r.rules) - 1; i >= 0; i-- {
		rule := &r.rules[i]
		name := path
		if rule.base {
			name = base
		}
		if rule.dirOnly && !isDir || !rule.pattern.match(name) {
			continue
		}
		if rule.keep {
			return Keep
		}
		return Ignore
	}
	return Unknown
}
