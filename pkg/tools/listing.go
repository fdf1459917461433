package tools

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
)

// listing is a text of lines, up to MaxText, with notes at its end about what is
// missing.
type listing struct {
	text    strings.Builder
	full    bool     // a line did not fit
	unread  int      // number of things that could not be read
	skipped []string // the first maxSaid of them, with reasons
	notes   []string
	// narrower says how to get less; empty means by a narrower pattern.
	narrower string
}

// add adds a line, and reports whether it fits. If not, the caller stops.
func (l *listing) add(line string) bool {
	if l.text.Len()+len(line)+1 > MaxText {
		l.full = true
		return false
	}
	l.text.WriteString(line)
	l.text.WriteByte('\n')
	return true
}

// skip records something that could not be read.
func (l *listing) skip(name, why string) {
	if l.unread++; l.unread <= maxSaid {
		l.skipped = append(l.skipped, fmt.Sprintf("%s: %s", name, strings.TrimSuffix(why, ".")))
	}
}

// skipAll notes all that was skipped.
func (l *listing) skipAll(skipped *fsops.SkippedError) {
	for _, err := range skipped.Errs {
		l.skip(skippedName(err), reason(err))
	}
	l.unread += int(skipped.More)
}

// skippedName returns what a reason to skip something is about.
func skippedName(err error) string {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Path
	}
	return "a part of the tree"
}

func (l *listing) note(format string, args ...any) {
	l.notes = append(l.notes, "("+fmt.Sprintf(format, args...)+")")
}

// result returns the lines and notes. Without lines it begins with none.
func (l *listing) result(none string) Result {
	text := l.text.String()
	if text == "" {
		text = none + "\n"
	}
	return Text(strings.TrimSuffix(text+l.remarks(), "\n"))
}

// remarks returns the notes, each in a line.
func (l *listing) remarks() string {
	if l.full {
		l.note("truncated at %d KiB: there is more. %s", MaxText>>10, cmp.Or(l.narrower, "Make the pattern narrower"))
	}
	if l.unread > 0 {
		more := ""
		if n := l.unread - len(l.skipped); n > 0 {
			more = fmt.Sprintf("; and %d more", n)
		}
		l.note("could not be read: %s%s", strings.Join(l.skipped, "; "), more)
	}
	var text strings.Builder
	for _, n := range l.notes {
		text.WriteString(n + "\n")
	}
	return text.String()
}
