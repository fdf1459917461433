package watch

import (
	"strconv"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// renamedFrom returns the path that a renamed file had before; it is empty for any
// other file. The kernel pairs the two names by a cookie. fsnotify v1.10 knows the
// old path, but shows it only in the text of an event, which ends with an arrow and
// that path in quotes. Nothing else in the text looks like that, since a quoted
// path has no bare quotation mark.
func renamedFrom(e fsnotify.Event) string {
	const arrow = `" ← "`
	text := e.String()
	at := strings.Index(text, arrow)
	if at < 0 {
		return ""
	}
	from, err := strconv.Unquote(text[at+len(arrow)-1:])
	if err != nil {
		return ""
	}
	return from
}
