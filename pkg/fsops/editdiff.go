package fsops

import (
	"strconv"
	"strings"
	"unicode"

	udiff "github.com/aymanbagabas/go-udiff"
)

// diffPlaces returns how many places a diff of a file of that size shows.
func diffPlaces(size int) int { return max(1, diffWork/max(1, size)) }

// unifiedDiff returns the change that the pieces describe as a unified diff,
// and whether that had to be cut. The places are known from the edits, so
// that only what they replaced is compared, and not the whole of a large file.
func unifiedDiff(name string, before []byte, p *pieces) (diff []byte, truncated bool) {
	old := string(before)
	var changes []udiff.Edit
	for _, c := range p.changes() {
		changes = append(changes, refine(old[c.Start:c.End], c)...)
	}
	truncated = p.partial
	if places := diffPlaces(len(old)); len(changes) > places {
		changes, truncated = changes[:places], true
	}
	text, err := udiff.ToUnified(diffLabel("a/", name), diffLabel("b/", name), old, changes, diffContext)
	if err != nil {
		return nil, true // the changes do not overlap, so it has no reason to fail
	}
	if len(text) > maxEditDiff {
		text, truncated = text[:strings.LastIndexByte(text[:maxEditDiff], '\n')+1], true
	}
	return []byte(text), truncated
}

// refine leaves out of a change the lines of old that it does not change:
// callers name some of them to say which place they mean.
func refine(old string, c udiff.Edit) []udiff.Edit {
	if old == c.New {
		return nil
	}
	if len(old)+len(c.New) > maxEditDiff {
		return []udiff.Edit{c}
	}
	finer := udiff.Lines(old, c.New)
	for i := range finer {
		finer[i].Start += c.Start
		finer[i].End += c.Start
	}
	return finer
}

// diffLabel returns the file's name for a diff's header, quoted where it
// would break the header's line.
func diffLabel(prefix, name string) string {
	label := prefix + strings.TrimPrefix(name, "/")
	if strings.ContainsFunc(label, unicode.IsControl) {
		return strconv.Quote(label)
	}
	return label
}
