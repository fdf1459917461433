package podapi

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// grepKinds are the kinds of results that are given to the caller. What a later
// agent may add is left out, as the contract says.
var grepKinds = map[pb.GrepKind]fsops.GrepKind{
	pb.GrepKind_GREP_KIND_MATCH:   fsops.GrepMatch,
	pb.GrepKind_GREP_KIND_CONTEXT: fsops.GrepContext,
	pb.GrepKind_GREP_KIND_FILE:    fsops.GrepFile,
}

// grepResults gives the results of a search to its caller, and gathers what else the
// agent says for the end.
type grepResults struct {
	opts    *fsops.GrepOptions
	yield   func(fsops.GrepResult, error) bool
	stats   *fsops.GrepStats
	skipped fsops.SkippedError
}

func (g *grepResults) take(r *pb.GrepResponse) error {
	if end := r.GetEnd(); end != nil {
		g.stats.Files, g.stats.Matches, g.stats.Truncated = end.Files, end.Matches, end.Truncated
		g.stats.Binary += end.Binary
		g.stats.Shortened += end.Shortened
		return allSkipped(&g.skipped, end.Skipped)
	}
	for _, result := range r.GetBatch().GetResults() {
		if err := g.takeOne(result); err != nil {
			return err
		}
	}
	return nil
}

func (g *grepResults) takeOne(r *pb.GrepResult) error {
	switch r.Kind {
	case pb.GrepKind_GREP_KIND_FILE_ERROR:
		g.skip(r, wire.DecodeError(cmp.Or(r.Error, &pb.Error{Message: "not searched"})))
	case pb.GrepKind_GREP_KIND_BINARY:
		g.takeBinary(r)
	case pb.GrepKind_GREP_KIND_FILE_TRUNCATED:
		g.stats.Shortened++
	}
	kind, known := grepKinds[r.Kind]
	if !known {
		return nil
	}
	if kind != fsops.GrepContext {
		g.stats.Matches += max(r.Count, 1)
	}
	if !g.yield(grepResultFromProto(kind, r), nil) {
		return errLoopLeft
	}
	return nil
}

// takeBinary takes a binary file. Agents of the minor version before send also those
// that are left out by rule, and an error for none.
func (g *grepResults) takeBinary(r *pb.GrepResult) {
	named := slices.ContainsFunc(g.opts.Paths, func(name string) bool { return path.Clean(name) == string(r.Path) })
	if r.Error != nil || r.Offset > 0 || named {
		g.skip(r, &fsops.BinaryError{Offset: r.Offset})
	} else {
		g.stats.Binary++
	}
}

// skip notes a file that was not searched. The path is cut, which an agent may not have
// done.
func (g *grepResults) skip(r *pb.GrepResult, err error) {
	if named, ok := errors.AsType[*fs.PathError](err); ok {
		err = named.Err
	}
	name := r.Path[:min(len(r.Path), maxSkippedPath)]
	g.skipped.Add(&fs.PathError{Op: "grep", Path: string(name), Err: err})
}

func grepResultFromProto(kind fsops.GrepKind, r *pb.GrepResult) fsops.GrepResult {
	out := fsops.GrepResult{
		Kind: kind, Path: string(r.Path),
		Line: r.Line, Offset: r.Offset, Text: r.Text, Cut: r.Cut, Count: r.Count,
	}
	for i := 0; i+1 < len(r.Spans); i += 2 {
		out.Spans = append(out.Spans, fsops.Span{Start: int(r.Spans[i]), End: int(r.Spans[i+1])})
	}
	return out
}
