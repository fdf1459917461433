package console_test

import "regexp"

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
