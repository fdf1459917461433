// Package ignore tells which files git and ripgrep would ignore. It reads
// .gitignore files and matches paths against them with the rules of
// gitignore(5), and is tested to agree with "git check-ignore --no-index".
//
// A [Rules] is one such file; a [Dir] is a directory in a walk, with all the rules
// that hold in it. The first of these that says something of a file decides:
//
//   - .rgignore and then .ignore files, which are ripgrep's, in the directory
//     and all of its parents, in a repository or outside;
//   - .gitignore files in the directory and its parents up to the root of the
//     repository;
//   - the repository's info/exclude file;
//   - the user's file that git's setting core.excludesFile names, or else
//     git/ignore in $XDG_CONFIG_HOME or ~/.config.
//
// All have the syntax of .gitignore. Some of git's configuration is not read: files
// that include.path names, config.worktree, and the variables GIT_CONFIG_COUNT and
// GIT_CONFIG_PARAMETERS. A ~ is expanded, ~user is not.
package ignore

import (
	"bytes"
	"iter"
	"strings"
)

// Decision is the decision of rules on a path.
type Decision int

// The decisions. Undecided leaves it to rules of lower precedence.
const (
	Undecided Decision = iota
	Ignore
	Keep
)

// Rules are the patterns of one file. The zero value has none.
type Rules struct {
	rules []rule
	index index
}

// A rule is one line of the file.
type rule struct {
	keep    bool // the line began with '!'
	dirOnly bool // the line ended with '/'
	base    bool // no slash in it: it is matched against the base name
	pattern pattern
}

// utf8BOM is a mark that some editors put at a file's beginning, and git skips.
const utf8BOM = "\xef\xbb\xbf"

// Parse reads the text of a file of rules. No file is invalid: a pattern that makes
// no sense matches nothing.
func Parse(text []byte) Rules {
	rules := Rules{rules: make([]rule, 0, countRules(text))}
	for line := range ruleLines(text) {
		if r, ok := parseRule(string(line)); ok {
			rules.rules = append(rules.rules, r)
		}
	}
	rules.index = indexOf(rules.rules)
	return rules
}

// countRules returns how many lines of a text are rules, or more.
func countRules(text []byte) int {
	n := 0
	for range ruleLines(text) {
		n++
	}
	return n
}

// ruleLines yields the lines of a text that are neither empty nor comments.
func ruleLines(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for line := range bytes.Lines(bytes.TrimPrefix(text, []byte(utf8BOM))) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			if len(line) == 0 || line[0] == '#' {
				continue
			}
			if !yield(bytes.TrimSuffix(line, []byte("\r"))) {
				return
			}
		}
	}
}

func parseRule(line string) (rule, bool) {
	r, glob := splitRule(line)
	if glob == "" {
		return rule{}, false
	}
	r.pattern = compile(glob)
	return r, r.pattern.possible
}

// splitRule returns the rule of a line without its pattern, and the glob of that, which is
// empty if the line has none.
func splitRule(line string) (rule, string) {
	line, _, _ = strings.Cut(line, "\x00") // git handles lines as C strings
	line = trimSpaces(line)
	var r rule
	line, r.keep = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	r.base = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if base, ok := strings.CutPrefix(line, "**/"); ok && base != "" && !strings.Contains(base, "/") {
		line, r.base = base, true // the same, and much faster
	}
	return r, line
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

// Match returns the decision of the last rule that matches path. The path is relative to
// the directory of the rules, with '/' between its parts; isDir says whether it is
// a directory. Match looks at path alone. The caller must ignore everything in an
// ignored directory, as [Dir] does.
func (r Rules) Match(path string, isDir bool) Decision {
	slash := strings.LastIndexByte(path, '/') + 1
	return r.match(&subject{dir: path[:slash], base: path[slash:], path: path}, isDir)
}

func (r *Rules) match(s *subject, isDir bool) Decision {
	if s.base == "" {
		return Undecided
	}
	switch last := r.last(s, isDir); {
	case last < 0:
		return Undecided
	case r.rules[last].keep:
		return Keep
	}
	return Ignore
}
