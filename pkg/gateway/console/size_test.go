package console_test

import (
	"regexp"
	"testing"
)

// loading finds what a file of the page loads by itself: files that the page names, and static imports.
var loading = regexp.MustCompile(`(?:/console/files/|from\s*"\./|import\s*"\./)([a-zA-Z0-9.-]+\.(?:js|css|svg))"`)

// loads returns the names of the files that text loads by itself, but for styles that scripts add.
func loads(text string) (names []string) {
	for _, found := range loading.FindAllStringSubmatch(text, -1) {
		if found[1] != "terminal.css" {
			names = append(names, found[1])
		}
	}
	return names
}

// The first view is the page, its style, and the scripts that it loads by itself.
func TestFirstViewIsSmall(t *testing.T) {
	d := newDoor(t)
	sum, seen := 0, map[string]bool{}
	var load func(path string)
	load = func(path string) {
		if seen[path] {
			return
		}
		seen[path] = true
		r := d.ask(d.console, "GET", path, "", "Accept-Encoding: gzip")
		sum += len(textOf(t, r))
		for _, next := range loads(textOf(t, d.ask(d.console, "GET", path, ""))) {
			load("/console/files/" + next)
		}
	}
	load("/console")
	t.Logf("%d bytes in %d files", sum, len(seen))
	if sum > 200<<10 || len(seen) < 4 {
		t.Errorf("the first view has %d bytes in %v", sum, seen)
	}
	if seen["/console/files/terminal.js"] {
		t.Error("the terminal is loaded at once")
	}
}
