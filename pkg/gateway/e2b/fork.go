package e2b

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
)

// forkRequest is the body of a fork.
type forkRequest struct {
	Timeout *int64 `json:"timeout"` // in seconds
	Count   *int   `json:"count"`
}

// forked is what came of one of the sandboxes that a fork asks for: either.
type forked struct {
	Sandbox *created  `json:"sandbox,omitempty"`
	Error   *apiError `json:"error,omitempty"`
}

// fork makes sandboxes with the files that a sandbox has now, and otherwise as that was made. Each may fail by itself.
func (c *control) fork() error {
	names, life, wrong := c.forks()
	if err := c.begin("fork", c.name, names...); err != nil {
		return err
	}
	if wrong != nil {
		return wrong
	}
	order, template, err := c.forkOrder(life)
	if err != nil {
		return err
	}
	made, err := c.checkpoint(checkpoint.CreateOptions{Automatic: true})
	if err != nil {
		return err
	}
	order.From = snapshot{c.name, made.ID}.source()
	results := make([]forked, len(names))
	var making errgroup.Group
	making.SetLimit(forksAtOnce)
	for i, name := range names {
		making.Go(func() error {
			results[i] = c.forkOne(order, name, template)
			return nil
		})
	}
	_ = making.Wait()
	faces.WriteJSON(c.w, http.StatusCreated, results)
	return nil
}

// forks reads how many sandboxes a fork asks for, which it names, and how long they live.
func (c *control) forks() (names []string, life time.Duration, err error) {
	var in forkRequest
	if err := c.body(&in); err != nil {
		return nil, 0, err
	}
	count := 1
	if in.Count != nil {
		count = *in.Count
	}
	if count < 1 || count > forksLimit {
		return nil, 0, faces.BadRequest("count: %d is not from 1 to %d", count, forksLimit)
	}
	if life, err = timeoutOf(in.Timeout, timeoutV1); err != nil {
		return nil, 0, err
	}
	for range count {
		names = append(names, c.NewName())
	}
	return names, life, nil
}

// forkOrder returns what the forks of a sandbox are asked to be, but for their files and names, and the template of
// the sandbox. What the gateway takes over from a sandbox does not say that it has no ways out of its own, nor how it
// ends.
func (c *control) forkOrder(life time.Duration) (o gateway.NewSandbox, template string, err error) {
	s, err := c.Find(c.r.Context(), c.name)
	if err != nil {
		return o, "", err
	}
	d, r, ok := c.describe(&s)
	if !ok {
		return o, "", errNoSandbox
	}
	r.Template, r.Started = d.Template, time.Now().UTC()
	o = gateway.NewSandbox{AllPublic: s.AllPublic, PublicPorts: s.PublicPorts, Confined: s.AllowHosts != nil}
	if s.AllowHosts != nil {
		o.AllowHosts = append([]string{}, *s.AllowHosts...)
	}
	c.setLife(&o, &r, life)
	o.Labels, err = r.labels(d.Metadata)
	return o, d.Template, err
}

// forkOne makes one of the sandboxes of a fork.
func (c *control) forkOne(order gateway.NewSandbox, name, template string) forked {
	order.ID = name
	order.Labels, order.AllowHosts, order.PublicPorts = maps.Clone(order.Labels), slices.Clone(order.AllowHosts), slices.Clone(order.PublicPorts)
	opened, err := c.tokens(name)
	if err == nil {
		_, _, err = c.Create(c.r.Context(), order)
	}
	if err != nil {
		why := c.failure(err)
		return forked{Error: &apiError{Code: why.Status, Message: why.Text}}
	}
	return forked{Sandbox: new(c.created(name, template, opened))}
}
