package gateway

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

func (g *Gateway) checkpointOperations() {
	const (
		checkpoints = sandboxRoot + "/checkpoints"
		one         = checkpoints + "/{checkpoint}"
	)
	register(g, http.MethodPost, checkpoints, "create-checkpoint", "Keep the state of the files in the workdir", g.createCheckpoint)
	register(g, http.MethodGet, checkpoints, "list-checkpoints", "List the checkpoints, the oldest first", g.listCheckpoints)
	register(g, http.MethodDelete, one, "delete-checkpoint", "Remove a checkpoint, and what only it has", g.deleteCheckpoint)
	register(g, http.MethodPost, one+"/restore", "restore-checkpoint", "Make the files in the workdir what they were in a checkpoint", g.restoreCheckpoint)
	g.rawWith(huma.Operation{
		OperationID: "diff-checkpoint", Method: http.MethodGet, Path: one + "/diff", Summary: "Show how the files differ from a checkpoint",
		Description: "It compares with what is in the workdir now, or with another checkpoint. The answer comes in lines. " + linesDoc +
			"A comparison that fails after the first line is cut off, without one of type end.",
		Parameters: []*huma.Param{
			checkpointParam(),
			param("query", "to", huma.TypeString, "the id of the checkpoint to compare it with: the files as they are now unless said otherwise"),
			param("query", "text", huma.TypeBoolean, "with unified diffs of text"),
		},
		Responses: map[string]*huma.Response{"200": {Description: "a line for each path that differs, and one at the end", Content: g.lineOf(reflect.TypeFor[DiffLine]())}},
	}, (*rawCall).readComparison, (*rawCall).diffCheckpoint)
	g.checkpointFileOperations()
}

const (
	checkpointDoc     = "the checkpoint's id"
	checkpointPattern = "^[0-9a-f]{64}$"
)

// Checkpoint is a state of the files in a sandbox's workdir.
type Checkpoint struct {
	ID        string    `json:"id" doc:"a hash of what it consists of: keep it, since by it a restore notices if commands have changed the checkpoint"`
	Name      string    `json:"name,omitempty"`
	Automatic bool      `json:"automatic,omitempty" doc:"it goes with those without a name"`
	Time      time.Time `json:"time"`
	Files     int64     `json:"files" doc:"how many it has, without directories"`
	Bytes     int64     `json:"bytes" doc:"the sum of their sizes"`
	Stored    int64     `json:"stored_bytes" doc:"how much was written for it"`
}

func checkpointOf(c checkpoint.Checkpoint) Checkpoint {
	return Checkpoint{ID: string(c.ID), Name: c.Name, Automatic: c.Automatic, Time: c.Time.UTC(), Files: c.Files, Bytes: c.Bytes, Stored: c.Stored}
}

// LeftPath is a path that a call left as it is, and why.
type LeftPath struct {
	Path      string `json:"path,omitempty"`
	PathOther []byte `json:"path_base64,omitempty" doc:"in place of path, if that is not UTF-8"`
	Why       string `json:"why,omitempty"`
}

func leftOf(list []checkpoint.LeftOut) []LeftPath {
	left := []LeftPath{}
	for _, l := range list {
		p := LeftPath{Why: l.Why}
		p.Path, p.PathOther = split(l.Path)
		left = append(left, p)
	}
	return left
}

type createCheckpointInput struct {
	ID   string `path:"id" doc:"the sandbox's name"`
	Body struct {
		Name      string   `json:"name,omitempty" maxLength:"200" doc:"what it is called, for people; up to 200 bytes"`
		Automatic bool     `json:"automatic,omitempty" doc:"a program makes it at each step: it goes with those without a name"`
		Exclude   []string `json:"exclude,omitempty" maxItems:"1000" nullable:"false" doc:"globs of files that it does not have, and that a restore leaves alone"`
	}
}

func (in *createCheckpointInput) detail(context.Context) Detail {
	return Detail{Args: texts([]byte(in.Body.Name))}
}

type createCheckpointOutput struct {
	Body struct {
		Checkpoint
		LeftOut     []LeftPath `json:"left_out" nullable:"false" doc:"files that it lacks, such as sockets and what cannot be read"`
		MoreLeftOut int64      `json:"more_left_out,omitempty" doc:"how many others"`
		Moving      []LeftPath `json:"moving" nullable:"false" doc:"files that changed whenever they were read"`
		MoreMoving  int64      `json:"more_moving,omitempty" doc:"how many others"`
	}
}

func (g *Gateway) createCheckpoint(ctx context.Context, in *createCheckpointInput) (*createCheckpointOutput, error) {
	out := &createCheckpointOutput{}
	return out, g.onCheckpoints(ctx, in.ID, func(s *launcher.Sandbox) error {
		c, err := s.Checkpoint(ctx, checkpoint.CreateOptions{Name: in.Body.Name, Automatic: in.Body.Automatic, Exclude: in.Body.Exclude})
		out.Body.Checkpoint, out.Body.LeftOut, out.Body.MoreLeftOut = checkpointOf(c), leftOf(c.LeftOut), c.MoreLeftOut
		var moving []checkpoint.LeftOut
		for _, path := range c.Moving {
			moving = append(moving, checkpoint.LeftOut{Path: path})
		}
		out.Body.Moving, out.Body.MoreMoving = leftOf(moving), c.MoreMoving
		return err
	})
}

type listCheckpointsOutput struct {
	Body struct {
		Checkpoints []Checkpoint `json:"checkpoints" nullable:"false"`
	}
}

func (g *Gateway) listCheckpoints(ctx context.Context, in *sandboxPath) (*listCheckpointsOutput, error) {
	out := &listCheckpointsOutput{}
	out.Body.Checkpoints = []Checkpoint{}
	return out, g.onCheckpoints(ctx, in.ID, func(s *launcher.Sandbox) error {
		list, err := s.Checkpoints(ctx)
		for _, c := range list {
			out.Body.Checkpoints = append(out.Body.Checkpoints, checkpointOf(c))
		}
		return err
	})
}

type checkpointPath struct {
	ID         string `path:"id" doc:"the sandbox's name"`
	Checkpoint string `path:"checkpoint" pattern:"^[0-9a-f]{64}$" doc:"the checkpoint's id"`
}

func (in *checkpointPath) detail(context.Context) Detail {
	return Detail{Args: []string{in.Checkpoint}}
}

func (g *Gateway) deleteCheckpoint(ctx context.Context, in *checkpointPath) (*struct{}, error) {
	return nil, g.onCheckpoints(ctx, in.ID, func(s *launcher.Sandbox) error {
		return s.RemoveCheckpoint(ctx, checkpoint.ID(in.Checkpoint))
	})
}

type restoreInput struct {
	ID         string `path:"id" doc:"the sandbox's name"`
	Checkpoint string `path:"checkpoint" pattern:"^[0-9a-f]{64}$" doc:"the checkpoint's id"`
	Body       struct {
		Paths []string `json:"paths,omitempty" maxItems:"1000" nullable:"false" doc:"what to restore, each with all that is below it: everything unless said otherwise"`
	}
}

func (in *restoreInput) detail(context.Context) Detail {
	return Detail{Args: []string{in.Checkpoint}, Paths: in.Body.Paths}
}

type restoreOutput struct {
	Body struct {
		Before   Checkpoint `json:"before" doc:"what was there before: a restore of it undoes this one"`
		Changed  int64      `json:"changed" doc:"how many files, directories and links were made, replaced, changed or removed"`
		Kept     []LeftPath `json:"kept" nullable:"false" doc:"what is not as in the checkpoint; none if all is"`
		MoreKept int64      `json:"more_kept,omitempty" doc:"how many others"`
	}
}

// restoreCheckpoint goes on in the sandbox when its caller has gone.
func (g *Gateway) restoreCheckpoint(ctx context.Context, in *restoreInput) (*restoreOutput, error) {
	out := &restoreOutput{}
	return out, g.onCheckpoints(ctx, in.ID, func(s *launcher.Sandbox) error {
		done, err := s.Restore(ctx, checkpoint.ID(in.Checkpoint), checkpoint.RestoreOptions{Paths: in.Body.Paths})
		out.Body.Before, out.Body.Changed = checkpointOf(done.Before), done.Changed
		out.Body.Kept, out.Body.MoreKept = leftOf(done.Kept), done.MoreKept
		if errors.Is(err, checkpoint.ErrIncomplete) {
			return nil // the answer says so
		}
		return err
	})
}

// DiffLine is a line of the answer to a comparison with a checkpoint.
type DiffLine struct {
	Type      string `json:"type" enum:"difference,end" doc:"the last line is the end"`
	Path      string `json:"path,omitempty"`
	PathOther []byte `json:"path_base64,omitempty" doc:"in place of path, if that is not UTF-8"`
	How       string `json:"how,omitempty" enum:"added,removed,modified,retyped,changed,unreadable" doc:"changed is what has another mode, owner or time alone; what is unreadable may differ"`
	Directory bool   `json:"directory,omitempty"`
	Diff      string `json:"diff,omitempty" doc:"a unified diff, of text of up to 256 KiB"`
	DiffOther []byte `json:"diff_base64,omitempty" doc:"in place of diff, if that is not UTF-8"`
	NoDiff    string `json:"no_diff,omitempty" doc:"why there is none, or why it cannot be read"`
	Truncated bool   `json:"truncated,omitempty" doc:"at the end: there is more"`
}

// comparison is what diff-checkpoint compares.
type comparison struct {
	from, to checkpoint.ID
	checkpoint.DiffOptions
}

func (c *rawCall) readComparison() (d Detail, err error) {
	c.differs = &comparison{}
	if c.differs.from, err = checkpointID(c.r.PathValue("checkpoint")); err != nil {
		return d, err
	}
	d.Args = []string{string(c.differs.from)}
	if c.queries.Has("to") {
		if c.differs.to, err = checkpointID(c.query("to")); err != nil {
			return d, err
		}
		d.Args = append(d.Args, string(c.differs.to))
	}
	return d, c.flags(map[string]*bool{"text": &c.differs.Text})
}

func (c *rawCall) diffCheckpoint() error {
	defer c.keepLines()()
	end := DiffLine{Type: "end"}
	for d, err := range c.sandbox.Diff(c, c.differs.from, c.differs.to, c.differs.DiffOptions) {
		if errors.Is(err, podapi.ErrTooLarge) {
			end.Truncated = true
			break
		}
		if err != nil {
			return noCheckpoints(err)
		}
		line := DiffLine{Type: "difference", How: d.How, Directory: d.Dir, NoDiff: d.NoDiff}
		line.Path, line.PathOther = split(d.Path)
		line.Diff, line.DiffOther = split(string(d.Diff))
		if err := c.line(line, false); err != nil {
			return err
		}
	}
	return c.line(end, true)
}

func checkpointID(text string) (checkpoint.ID, error) {
	id, err := checkpoint.ParseID(text)
	if err != nil {
		return "", invalid("%v", err)
	}
	return id, nil
}

// onCheckpoints is on for calls about checkpoints, which older agents do not know.
func (g *Gateway) onCheckpoints(ctx context.Context, name string, do func(*launcher.Sandbox) error) error {
	return g.on(ctx, name, func(s *launcher.Sandbox) error { return noCheckpoints(do(s)) })
}

// noCheckpoints turns the error of an agent that knows none into that of one that has no place for them.
func noCheckpoints(err error) error {
	if errors.Is(err, podapi.ErrVersion) {
		return &refusal{http.StatusNotImplemented, "unsupported", "the sandbox's agent keeps no checkpoints: update its image"}
	}
	return err
}
