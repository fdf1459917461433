package fsops

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"

	udiff "github.com/aymanbagabas/go-udiff"
)

// diffHunks returns how many changes a diff of a file of that size shows.
func diffHunks(size int) int { return min(maxDiffHunks, diffWork/max(1, size)) }

// unifiedDiff returns the change that the pieces describe as a unified diff, and
// whether it was cut. The pieces say where the changes are, so it reads only their
// surroundings, and not the whole of a large file.
func unifiedDiff(name string, before []byte, p *pieces) (diff []byte, truncated bool) {
	changes, truncated := shownChanges(before, p)
	if len(changes) == 0 {
		return nil, truncated
	}
	text := []byte("--- " + diffLabel("a/", name) + "\n+++ " + diffLabel("b/", name) + "\n")
	at := hunks{before: before}
	for len(changes) > 0 && len(text) <= maxEditDiff {
		n := at.near(changes)
		text = append(text, at.render(changes[:n])...)
		changes = changes[n:]
	}
	if len(text) > maxEditDiff {
		text, truncated = text[:bytes.LastIndexByte(text[:maxEditDiff], '\n')+1], true
	}
	return text, truncated
}

// shownChanges returns the changes that a diff shows, and whether there are
// more.
func shownChanges(before []byte, p *pieces) (changes []udiff.Edit, more bool) {
	hunks := diffHunks(len(before))
	for _, c := range p.changes() {
		changes = append(changes, refine(string(before[c.Start:c.End]), c)...)
		if len(changes) > hunks {
			return changes[:hunks], true
		}
	}
	return changes, p.partial
}

// refine removes unchanged lines from a change: callers often include some to make the
// old text unique.
func refine(old string, c udiff.Edit) []udiff.Edit {
	if old == c.New {
		return nil
	}
	lines := strings.Contains(old, "\n") || strings.Contains(c.New, "\n")
	if !lines || len(old)+len(c.New) > maxEditDiff {
		return []udiff.Edit{c}
	}
	finer := udiff.Lines(old, c.New)
	for i := range finer {
		finer[i].Start += c.Start
		finer[i].End += c.Start
	}
	return finer
}

// diffLabel returns the file's name for a diff's header, quoted if it would break the
// header's line.
func diffLabel(prefix, name string) string {
	label := prefix + strings.TrimPrefix(name, "/")
	if strings.ContainsFunc(label, unicode.IsControl) {
		return strconv.Quote(label)
	}
	return label
}
