package tools

import (
	"fmt"
	"strings"
)

// listing is a text of lines, up to MaxText, with notes at its end that say what
// is not in it.
type listing struct {
	text    strings.Builder
	left    int // lines that had no room
	skipped []string
	notes   []string
}

// add adds a line, and reports whether there was room for it.
func (l *listing) add(line string) bool {
	if l.left > 0 || l.text.Len()+len(line)+1 > MaxText {
		l.left++
		return false
	}
	l.text.WriteString(line)
	l.text.WriteByte('\n')
	return true
}

// skip notes something that could not be read.
func (l *listing) skip(name, why string) {
	l.skipped = append(l.skipped, fmt.Sprintf("%s: %s", name, strings.TrimSuffix(why, ".")))
}

func (l *listing) note(format string, args ...any) {
	l.notes = append(l.notes, "("+fmt.Sprintf(format, args...)+")")
}

// result returns the lines and notes; none stands where there are no lines.
func (l *listing) result(none string) Result {
	notes := l.notes
	if n := len(l.skipped); n > 0 {
		some, more := l.skipped, ""
		if n > maxSaid {
			some, more = some[:maxSaid], fmt.Sprintf("; and %d more", n-maxSaid)
		}
		notes = append(notes, fmt.Sprintf("(could not be read: %s%s)", strings.Join(some, "; "), more))
	}
	text := l.text.String()
	if text == "" {
		text = "(" + none + ")\n"
	}
	for _, n := range notes {
		text += n + "\n"
	}
	return Text(strings.TrimSuffix(text, "\n"))
}
