package podagent_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link is a Markdown link to a file of the repository, with an optional heading.
var link = regexp.MustCompile(`\]\(([^)#\s:]*)(?:#([^)\s]*))?\)`)

func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	found := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			found++
			target := page
			if match[1] != "" {
				target = filepath.Join(filepath.Dir(page), match[1])
			}
			if !leadsTo(target, match[2]) {
				t.Errorf("%s: the link %s leads nowhere", page, match[0])
			}
		}
	}
	if found == 0 {
		t.Error("no page has links")
	}
}

// pages returns the Markdown pages of the repository: not those of packages that were installed into
// it, and not parts of a page elsewhere, whose links start there.
func pages(t *testing.T) []string {
	t.Helper()
	var pages []string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		hidden := len(path) > 1 && strings.HasPrefix(entry.Name(), ".")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (hidden || entry.Name() == "node_modules" || path == "test/contracts/rows"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".md"):
			pages = append(pages, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// leadsTo reports whether the file exists and, if a heading is named, contains it.
func leadsTo(path, heading string) bool {
	info, err := os.Stat(path)
	if err != nil || heading == "" {
		return err == nil
	}
	if info.IsDir() {
		return false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") && anchor(title) == heading {
			return true
		}
	}
	return false
}

// anchor returns the name that links use for a heading.
func anchor(title string) string {
	title = strings.ToLower(strings.TrimSpace(title))
	title = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(title, "")
	return strings.ReplaceAll(title, " ", "-")
}
