package tools

import (
	"fmt"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
)

func (claudeVoice) paths(_ *Env, _ globInput, found *globbed) Result {
	if found.truncated {
		found.note("Results are truncated. Consider using a more specific path or pattern.")
	}
	if found.ignored && found.text.Len() > 0 {
		found.note("all of these are excluded by .gitignore, or in .git")
	}
	return found.result("No files found")
}

func (claudeVoice) matches(env *Env, in grepInput) matches {
	return &claudeMatches{env: env, in: in, context: max(in.Context, in.Before, in.After) > 0}
}

// claudeMatches are the results of a search, in the form of ripgrep's.
type claudeMatches struct {
	listing
	env     *Env
	in      grepInput
	context bool

	path    string // of the last line
	line    int64
	entries int  // with those that are skipped
	limited bool // there are more entries than the model wants
	cut     bool // a line was too long
	files   int64
	total   int64 // matching lines in all files
}

// entry adds a line to the answer if it is in the part that the model wants, and
// reports whether more can be.
func (m *claudeMatches) entry(line string) bool {
	m.entries++
	switch head := m.in.head(); {
	case m.entries <= m.in.Skip:
		return true
	case head > 0 && m.entries > m.in.Skip+head:
		m.limited = true
		return false
	}
	return m.add(line)
}

func (m *claudeMatches) show(r fsops.GrepResult) bool {
	name := m.env.fromWorkdir(r.Path)
	switch m.in.Mode {
	case grepFiles:
		return m.entry(name)
	case grepCount:
		m.files++
		m.total += r.Count
		if !m.limited && !m.full {
			m.entry(fmt.Sprintf("%s:%d", name, r.Count))
		}
		return true // the sum is of all
	}
	if m.context && m.path != "" && (r.Path != m.path || r.Line != m.line+1) && !m.entry("--") {
		return false
	}
	lines := m.linesOf(r)
	m.path, m.line = r.Path, r.Line+int64(strings.Count(string(r.Text), "\n"))
	for _, l := range lines {
		if !m.entry(m.before(r, name, l.number) + l.text) {
			return false
		}
	}
	return true
}

// numbered is a line of a file, or what matches in it.
type numbered struct {
	number int64
	text   string
}

// linesOf returns the lines of a result, or what matches in them.
func (m *claudeMatches) linesOf(r fsops.GrepResult) (lines []numbered) {
	text := string(r.Text)
	// A part of a secret is not found, so the whole line is shown, redacted.
	if m.in.Only && r.Kind == fsops.GrepMatch && m.env.redactor.Redact(text) == text {
		for _, s := range r.Spans {
			if s.End > s.Start {
				at := strings.Count(text[:s.Start], "\n")
				lines = append(lines, split(r.Line+int64(at), text[s.Start:s.End])...)
			}
		}
		return lines
	}
	if r.Cut > 0 {
		m.cut = true
		text = fmt.Sprintf("%s… (+%s)", m.env.redactor.RedactHead(text), count(int(r.Cut), "byte"))
	}
	return split(r.Line, m.env.redactor.Redact(text))
}

// split returns the lines of a text of which the first has this number.
func split(first int64, text string) (lines []numbered) {
	for i, line := range strings.Split(text, "\n") {
		lines = append(lines, numbered{first + int64(i), line})
	}
	return lines
}

// before returns what stands before a line: the path, unless that of a file was given,
// and the number, unless the model wants none.
func (m *claudeMatches) before(r fsops.GrepResult, name string, number int64) string {
	sep, text := "-", ""
	if r.Kind == fsops.GrepMatch {
		sep = ":"
	}
	if m.in.Path == "" || r.Path != m.env.Path(m.in.Path) {
		text = name + sep
	}
	if m.in.Numbers == nil || *m.in.Numbers {
		text += fmt.Sprint(number) + sep
	}
	return text
}

func (m *claudeMatches) end(stats fsops.GrepStats) Result {
	m.limited = m.limited || stats.Truncated
	if m.cut {
		m.note("of a long line you see the first %d bytes, and a match may come after them: use Bash with grep -o for that", maxGrepText)
	}
	page, shown := m.page(), strings.TrimSuffix(m.text.String(), "\n")
	beyond := shown == "" && m.entries > 0
	if beyond {
		shown = "No entries at this offset"
	}
	switch {
	case m.in.Mode == grepCount:
		if shown == "" {
			shown = "No matches found"
		}
		shown += fmt.Sprintf("\n\nFound %d total %s across %s.", m.total, plural(m.total, "occurrence"), count(int(m.files), "file"))
		if page != "" {
			shown += " with pagination = " + page
		}
	case m.in.Mode == grepFiles && shown == "":
		shown = "No files found"
	case m.in.Mode == grepFiles && beyond:
		shown += ". [Showing results with pagination = " + page + "]"
	case m.in.Mode == grepFiles:
		shown = strings.TrimSuffix("Found "+count(strings.Count(shown, "\n")+1, "file")+" "+page, " ") + "\n" + shown
	case shown == "":
		shown = "No matches found"
	case page != "":
		shown += "\n\n[Showing results with pagination = " + page + "]"
	}
	if notes := m.remarks(); notes != "" {
		shown += "\n\n" + strings.TrimSuffix(notes, "\n")
	}
	return Text(shown)
}

// page says which part of the entries this is; "" for all.
func (m *claudeMatches) page() string {
	var parts []string
	if m.limited && m.in.head() > 0 {
		parts = append(parts, fmt.Sprintf("limit: %d", m.in.head()))
	}
	if m.in.Skip > 0 {
		parts = append(parts, fmt.Sprintf("offset: %d", m.in.Skip))
	}
	return strings.Join(parts, ", ")
}

// plural returns a noun for a number.
func plural(n int64, noun string) string {
	_, noun, _ = strings.Cut(count(int(n), noun), " ")
	return noun
}
