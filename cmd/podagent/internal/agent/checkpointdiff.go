package agent

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// checkpointToProto takes over what a manifest says. Commands may have written one that says anything.
func checkpointToProto(c checkpoint.Checkpoint) *pb.Checkpoint {
	p := &pb.Checkpoint{Id: string(c.ID), Name: validText(c.Name, maxName), Files: counted(c.Files), Bytes: counted(c.Bytes), Stored: counted(c.Stored)}
	if year := c.Time.Year(); year >= 1970 && year < 2200 {
		p.Time = c.Time.UnixNano()
	}
	return p
}

// counted returns a number that counts something. Sizes of files with holes may add up to more than numbers hold.
func counted(n int64) int64 {
	if n < 0 || n > maxCount {
		return maxCount
	}
	return n
}

// validText returns the beginning of a text as the wire's strings must be.
func validText(s string, limit int) string {
	return strings.ToValidUTF8(s[:min(len(s), limit)], "\uFFFD")
}

// leftToProto returns what fits into an answer, and how many more there are.
func leftToProto(list []checkpoint.LeftOut, more int64) (left []*pb.LeftPath, others int64) {
	size := 0
	for i, l := range list {
		if size += len(l.Path) + len(l.Why) + attrBytes; size > maxLeftBytes {
			return left, more + int64(len(list)-i)
		}
		left = append(left, &pb.LeftPath{Path: []byte(l.Path), Why: validText(l.Why, maxWhy)})
	}
	return left, more
}

// pathsToProto is leftToProto for paths alone.
func pathsToProto(list []string) (paths [][]byte, others int64) {
	size := 0
	for i, path := range list {
		if size += len(path) + attrBytes; size > maxLeftBytes {
			return paths, int64(len(list) - i)
		}
		paths = append(paths, []byte(path))
	}
	return paths, 0
}

var differenceKinds = map[string]pb.DifferenceKind{
	checkpoint.Added:    pb.DifferenceKind_DIFFERENCE_KIND_ADDED,
	checkpoint.Removed:  pb.DifferenceKind_DIFFERENCE_KIND_REMOVED,
	checkpoint.Modified: pb.DifferenceKind_DIFFERENCE_KIND_MODIFIED,
	checkpoint.Retyped:  pb.DifferenceKind_DIFFERENCE_KIND_RETYPED,
	checkpoint.Changed:  pb.DifferenceKind_DIFFERENCE_KIND_CHANGED,
}

func differenceToProto(d checkpoint.Difference, text bool) *pb.Difference {
	p := &pb.Difference{Path: []byte(d.Path), How: differenceKinds[d.How], Dir: d.Dir}
	switch {
	case !text || d.NoContent == "" && d.Before == nil && d.After == nil:
	case d.NoContent != "":
		p.NoText = validText(d.NoContent, maxWhy)
	case !isText(d.Before) || !isText(d.After):
		p.NoText = "it is binary"
	default:
		p.Text = unified(d)
	}
	return p
}

func isText(content []byte) bool { return utf8.Valid(content) && bytes.IndexByte(content, 0) < 0 }

// unified returns how the content of a file differs.
func unified(d checkpoint.Difference) []byte {
	from, to := label("a/"+d.Path), label("b/"+d.Path)
	if d.Before == nil {
		from = "/dev/null"
	}
	if d.After == nil {
		to = "/dev/null"
	}
	return []byte(udiff.Unified(from, to, string(d.Before), string(d.After)))
}

// label returns a path as diffs have it, on one line.
func label(path string) string {
	if utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) || r == '"' }) {
		return path
	}
	return strconv.Quote(path)
}
