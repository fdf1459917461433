package e2b

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// snapshot is what E2B calls a snapshot: a checkpoint in its sandbox's store, with which it goes.
type snapshot struct {
	sandbox    string
	checkpoint checkpoint.ID
}

// snapshotSeparator is between the ids of a sandbox and of its checkpoint in the id of a snapshot, as E2B's ids
// have it before a tag. No name of a template has it.
const snapshotSeparator = ":"

// snapshotOf takes apart the id of a snapshot of the tenant, NAME--TENANT:CHECKPOINT. Of any other text, also of
// another tenant's snapshot, it returns false.
func (c *control) snapshotOf(id string) (snapshot, bool) {
	sandbox, text, _ := strings.Cut(id, snapshotSeparator)
	name, tenant, ok := parseID(sandbox)
	point, err := checkpoint.ParseID(text)
	if !ok || err != nil || tenant != c.Tenant() {
		return snapshot{}, false
	}
	return snapshot{name, point}, true
}

func (c *control) snapshotID(s snapshot) string {
	return idOf(c.Tenant(), s.sandbox) + snapshotSeparator + string(s.checkpoint)
}

// args are what an act says of the snapshot that it is about.
func (s snapshot) args() []string {
	if s.sandbox == "" {
		return nil
	}
	return []string{s.sandbox, string(s.checkpoint)}
}

// source returns where a new sandbox gets the snapshot's files.
func (s snapshot) source() *gateway.CheckpointSource {
	return &gateway.CheckpointSource{Sandbox: s.sandbox, Checkpoint: string(s.checkpoint)}
}

// snapshotOrder returns what a snapshot says of an order. The gateway adds what the snapshot's sandbox is like, and
// only that it has no other ways out it cannot know.
func (c *control) snapshotOrder(from snapshot) (gateway.NewSandbox, error) {
	s, err := c.Find(c.r.Context(), from.sandbox)
	return gateway.NewSandbox{From: from.source(), Confined: s.AllowHosts != nil}, err
}

// describedSnapshot is a snapshot as answers have it.
type describedSnapshot struct {
	ID    string   `json:"snapshotID"`
	Names []string `json:"names"`
	made  checkpoint.Checkpoint
}

func (c *control) describeSnapshot(sandbox string, made checkpoint.Checkpoint) describedSnapshot {
	d := describedSnapshot{c.snapshotID(snapshot{sandbox, made.ID}), []string{}, made}
	if made.Name != "" {
		d.Names = []string{made.Name}
	}
	return d
}

// createSnapshot keeps the files of a sandbox.
func (c *control) createSnapshot() error {
	var in struct {
		Name string `json:"name"`
	}
	wrong := c.body(&in)
	if err := c.begin("snapshot", c.name, in.Name); err != nil {
		return err
	}
	if wrong != nil {
		return wrong
	}
	made, err := c.checkpoint(checkpoint.CreateOptions{Name: in.Name})
	if err != nil {
		return err
	}
	faces.WriteJSON(c.w, http.StatusCreated, c.describeSnapshot(c.name, made))
	return nil
}

// checkpoint makes a checkpoint of the sandbox that the path names.
func (c *control) checkpoint(o checkpoint.CreateOptions) (made checkpoint.Checkpoint, err error) {
	ctx := c.r.Context()
	if _, err := c.present(); err != nil {
		return made, err
	}
	err = c.Use(ctx, c.name, true, func(s *launcher.Sandbox) (err error) {
		made, err = s.Checkpoint(ctx, o)
		return err
	})
	return made, ofCheckpoint(err)
}

// ofCheckpoint says of an agent that is too old what it lacks.
func ofCheckpoint(err error) error {
	if errors.Is(err, podapi.ErrVersion) {
		return gateway.Fail(http.StatusNotImplemented, "unsupported", "snapshots are not supported by the agent of this sandbox: its image is too old")
	}
	return err
}

// deleteSnapshot removes a snapshot, by the path that E2B has for templates.
func (c *control) deleteSnapshot() error {
	ctx, id := c.r.Context(), c.r.PathValue("template")
	s, ok := c.snapshotOf(id)
	if err := c.begin("delete-snapshot", s.sandbox, s.args()...); err != nil {
		return err
	}
	switch {
	case ok:
	case slices.Contains(c.face.templateNames(), id):
		return errUnsupported
	default:
		return gateway.Fail(http.StatusNotFound, "no_template", "there is no such snapshot")
	}
	err := c.Use(ctx, s.sandbox, true, func(in *launcher.Sandbox) error { return in.RemoveCheckpoint(ctx, s.checkpoint) })
	if err != nil {
		return ofCheckpoint(err)
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// listSnapshots answers with the snapshots of one sandbox, or of all that run, the newest first, in pages.
func (c *control) listSnapshots() error {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return faces.BadRequest("the query: %v", err)
	}
	page, err := parsePage(values)
	if err != nil {
		return err
	}
	all, err := c.snapshots(values.Get("sandboxID"))
	if err != nil {
		return err
	}
	name := values.Get("name")
	all = slices.DeleteFunc(all, func(d describedSnapshot) bool {
		return page.isBefore(&d) || name != "" && name != d.ID && !slices.Contains(d.Names, name)
	})
	slices.SortFunc(all, compareSnapshots)
	if len(all) > page.limit {
		all = all[:page.limit]
		last := &all[page.limit-1]
		c.w.Header().Set(headerNext, pageToken(last.made.Time, last.ID))
	}
	faces.WriteJSON(c.w, http.StatusOK, all)
	return nil
}

// compareSnapshots orders the newest first.
func compareSnapshots(a, b describedSnapshot) int {
	if order := b.made.Time.Compare(a.made.Time); order != 0 {
		return order
	}
	return strings.Compare(a.ID, b.ID)
}

// isBefore reports whether a snapshot was on an earlier page.
func (q *pageQuery) isBefore(d *describedSnapshot) bool {
	last := describedSnapshot{ID: q.afterID, made: checkpoint.Checkpoint{Time: q.afterTime}}
	return q.afterID != "" && compareSnapshots(*d, last) <= 0
}

// snapshots returns those of the sandbox with this id, or, of "", those of all that run: of one that is paused they
// cannot be known, and it is not woken. There is none of what is no sandbox.
func (c *control) snapshots(id string) ([]describedSnapshot, error) {
	if id == "" {
		return c.allSnapshots()
	}
	name, tenant, ok := parseID(id)
	if !ok || tenant != "" && tenant != c.Tenant() {
		return []describedSnapshot{}, nil
	}
	found, err := c.snapshotsOf(c.r.Context(), name, true)
	if errors.Is(err, launcher.ErrNotFound) {
		return []describedSnapshot{}, nil
	}
	return found, err
}

func (c *control) allSnapshots() ([]describedSnapshot, error) {
	sandboxes, err := c.List(c.r.Context())
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	all := []describedSnapshot{}
	asking, ctx := errgroup.WithContext(c.r.Context())
	asking.SetLimit(listedAtOnce)
	for _, s := range sandboxes {
		if launcher.State(s.State) != launcher.Running {
			continue
		}
		asking.Go(func() error {
			found, err := c.snapshotsOf(ctx, s.ID, false)
			if isWithout(err) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, found...)
			return err
		})
	}
	return all, asking.Wait()
}

// isWithout reports whether an error says that a sandbox has no snapshots to list: it has ended or is paused since, or
// its agent keeps none.
func isWithout(err error) bool {
	return slices.ContainsFunc([]error{launcher.ErrGone, launcher.ErrNotFound, launcher.ErrPaused, launcher.ErrStale, podapi.ErrVersion}, func(class error) bool { return errors.Is(err, class) })
}

// snapshotsOf returns those of a sandbox: its checkpoints, but for those that programs make at each step, or forks.
func (c *control) snapshotsOf(ctx context.Context, name string, wake bool) ([]describedSnapshot, error) {
	found := []describedSnapshot{}
	err := c.Use(ctx, name, wake, func(s *launcher.Sandbox) error {
		list, err := s.Checkpoints(ctx)
		for _, made := range list {
			if !made.Automatic {
				found = append(found, c.describeSnapshot(name, made))
			}
		}
		return err
	})
	return found, err
}
