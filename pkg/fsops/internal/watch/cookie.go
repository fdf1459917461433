package watch

import (
	"strconv"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// renamedFrom returns the path that a created file had before, as the kernel's
// cookies pair the two names of a renaming; it is empty for any other file.
// fsnotify v1.10 knows it, but shows it in the text of an event alone, which
// ends with an arrow and the old path in quotes. Nothing else in the text looks
// like that, since a quoted path has no bare quotation mark.
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
