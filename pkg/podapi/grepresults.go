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

// grepKinds are the kinds of results that the caller gets. Unknown kinds of later
// agents are left out, as the contract says.
var grepKinds = map[pb.GrepKind]fsops.GrepKind{
	pb.GrepKind_GREP_KIND_MATCH:   fsops.GrepMatch,
	pb.GrepKind_GREP_KIND_CONTEXT: fsops.GrepContext,
	pb.GrepKind_GREP_KIND_FILE:    fsops.GrepFile,
}

// grepResults gives the results of a search to its caller, and collects the agent's
// other messages for the end.
type grepResults struct {
	opts    *fsops.GrepOptions
	yield   func(fsops.GrepResult, error) bool
	stats   *fsops.GrepStats
	skipped fsops.SkippedError

	// What has come: matches and context that the caller got, and results that it did
	// not get.
	matches, context, aside int64
	idle                    idleMessages
}

func (g *grepResults) take(r *pb.GrepResponse) error {
	results := r.GetBatch().GetResults()
	switch end := r.GetEnd(); {
	case end != nil:
		return g.end(end)
	case len(results) == 0:
		return g.idle.add()
	}
	for _, result := range results {
		if err := g.takeOne(result); err != nil {
			return err
		}
	}
	return nil
}

func (g *grepResults) end(end *pb.GrepEnd) error {
	if err := checkNumbers("a number of files or matches", end.Files, end.Matches, end.Binary, end.Shortened); err != nil {
		return err
	}
	g.stats.Files, g.stats.Matches, g.stats.Truncated = end.Files, end.Matches, end.Truncated
	g.stats.Binary += end.Binary
	g.stats.Shortened += end.Shortened
	return allSkipped(&g.skipped, end.Skipped)
}

func (g *grepResults) takeOne(r *pb.GrepResult) error {
	kind, known := grepKinds[r.Kind]
	if !known {
		return g.takeAside(r)
	}
	if err := firstError(g.checkOrder(kind), g.check(kind, r)); err != nil {
		return err
	}
	if kind != fsops.GrepContext {
		g.stats.Matches += max(r.Count, 1)
	}
	if !g.yield(grepResultFromProto(kind, r), nil) {
		return errLoopLeft
	}
	return nil
}

// takeAside takes a result that the caller does not get. Agents of the minor version
// before send one for each file that they leave out.
func (g *grepResults) takeAside(r *pb.GrepResult) error {
	if g.aside++; g.aside > maxSkipped {
		return protocolError("more than %d files that were not searched", maxSkipped)
	}
	switch r.Kind {
	case pb.GrepKind_GREP_KIND_FILE_ERROR:
		g.skip(r, wire.DecodeError(cmp.Or(r.Error, &pb.Error{Message: "not searched"})))
	case pb.GrepKind_GREP_KIND_BINARY:
		g.takeBinary(r)
	case pb.GrepKind_GREP_KIND_FILE_TRUNCATED:
		g.stats.Shortened++
	}
	return nil
}

// checkOrder refuses more results than the options allow, and another kind of them.
func (g *grepResults) checkOrder(kind fsops.GrepKind) error {
	if (kind == fsops.GrepFile) != (g.opts.Report != fsops.GrepLines) {
		return protocolError("results of a kind that was not asked for")
	}
	if kind != fsops.GrepContext {
		g.matches++
	} else {
		g.context++
	}
	if limit := int64(g.opts.Limit); limit > 0 && g.matches > limit {
		return protocolError("more than the %d matches that were asked for", limit)
	}
	if g.context > (g.matches+1)*int64(max(g.opts.Before, 0)+max(g.opts.After, 0)) {
		return protocolError("more context than was asked for")
	}
	return nil
}

// check refuses a result that no file has.
func (g *grepResults) check(kind fsops.GrepKind, r *pb.GrepResult) error {
	if most := cmp.Or(g.opts.MaxLine, maxGrepLine); len(r.Text) > most {
		return protocolError("%d bytes of a line, and not %d at most", len(r.Text), most)
	}
	if kind != fsops.GrepFile && r.Line < 1 {
		return protocolError("a line of number %d", r.Line)
	}
	if len(r.Spans)%2 != 0 || len(r.Spans) > 0 && !g.opts.Spans {
		return protocolError("%d ends of spans", len(r.Spans))
	}
	for i := 0; i < len(r.Spans); i += 2 {
		if start, end := r.Spans[i], r.Spans[i+1]; start < 0 || start > end || end > int64(len(r.Text)) {
			return protocolError("a span from %d to %d in a line of %d bytes", start, end, len(r.Text))
		}
	}
	return firstError(checkPath(r.Path), checkNumbers("a place in a file", r.Line, r.Offset, r.Cut, r.Count))
}

// takeBinary takes a binary file. Agents of the previous minor version also send
// those that are left out by rule, and then without an error.
func (g *grepResults) takeBinary(r *pb.GrepResult) {
	named := slices.ContainsFunc(g.opts.Paths, func(name string) bool { return path.Clean(name) == string(r.Path) })
	if r.Error != nil || r.Offset > 0 || named {
		g.skip(r, &fsops.BinaryError{Offset: r.Offset})
	} else {
		g.stats.Binary++
	}
}

// skip notes a file that was not searched. It cuts the path, because an agent may
// not have done so.
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
