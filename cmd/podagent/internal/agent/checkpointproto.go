package agent

import (
	"strings"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// checkpointToProto takes over what a manifest says. Commands may have written one that says anything.
func checkpointToProto(c checkpoint.Checkpoint) *pb.Checkpoint {
	p := &pb.Checkpoint{Id: string(c.ID), Name: validText(c.Name, maxName), Automatic: c.Automatic, Files: counted(c.Files), Bytes: counted(c.Bytes), Stored: counted(c.Stored)}
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
func pathsToProto(list []string, more int64) (paths [][]byte, others int64) {
	size := 0
	for i, path := range list {
		if size += len(path) + attrBytes; size > maxLeftBytes {
			return paths, more + int64(len(list)-i)
		}
		paths = append(paths, []byte(path))
	}
	return paths, more
}

var differenceKinds = map[string]pb.DifferenceKind{
	checkpoint.Added:      pb.DifferenceKind_DIFFERENCE_KIND_ADDED,
	checkpoint.Removed:    pb.DifferenceKind_DIFFERENCE_KIND_REMOVED,
	checkpoint.Modified:   pb.DifferenceKind_DIFFERENCE_KIND_MODIFIED,
	checkpoint.Retyped:    pb.DifferenceKind_DIFFERENCE_KIND_RETYPED,
	checkpoint.Changed:    pb.DifferenceKind_DIFFERENCE_KIND_CHANGED,
	checkpoint.Unreadable: pb.DifferenceKind_DIFFERENCE_KIND_UNREADABLE,
}

func differenceToProto(d checkpoint.Difference) *pb.Difference {
	return &pb.Difference{Path: []byte(d.Path), How: differenceKinds[d.How], Dir: d.Dir, Text: d.Diff, NoText: validText(d.NoDiff, maxWhy)}
}
