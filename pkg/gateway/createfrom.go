package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// CheckpointSource is where a new sandbox gets its files: a checkpoint of another one of the tenant.
type CheckpointSource struct {
	Sandbox    string `json:"sandbox" pattern:"^[a-z0-9]+(-[a-z0-9]+)*$" maxLength:"36" doc:"the name of the sandbox that has the checkpoint"`
	Checkpoint string `json:"checkpoint,omitempty" pattern:"^[0-9a-f]{64}$" doc:"the checkpoint's id; a new, automatic one is made if it is missing"`
}

// specFrom returns the Spec of a create whose files come from a checkpoint, and the id of that.
func (g *Gateway) specFrom(ctx context.Context, in *createInput, policy *Policy) (launcher.Spec, checkpoint.ID, error) {
	order, tenant := in.Body, tenantOf(ctx)
	if order.Git != nil {
		return launcher.Spec{}, "", invalid("git and from exclude each other: a repository would be in the checkpoint")
	}
	if err := g.mayFill(ctx, in); err != nil {
		return launcher.Spec{}, "", err
	}
	point, err := g.pointOf(ctx, order.From)
	if err != nil {
		return launcher.Spec{}, "", err
	}
	if err := g.addLike(ctx, &order, policy); err != nil {
		return launcher.Spec{}, "", err
	}
	spec, err := specOf(g.Base, tenant, policy, order)
	return spec, point, err
}

// mayFill refuses to fill a sandbox that is there, unless the same request with the same key has made it: then that may
// not have come to its end.
func (g *Gateway) mayFill(ctx context.Context, in *createInput) error {
	s, err := g.find(ctx, in.Body.ID)
	switch {
	case errors.Is(err, launcher.ErrNotFound):
		return nil
	case err != nil:
		return err
	case in.Key == "" || s.Labels[labelRequest] != requestLabel(in.Key, &in.Body):
		return newProblem(http.StatusConflict, "exist", "there is a sandbox with this id, whose files stay as they are")
	}
	return nil
}

// pointOf returns the checkpoint that a create asks for.
func (g *Gateway) pointOf(ctx context.Context, from *CheckpointSource) (checkpoint.ID, error) {
	id := checkpoint.ID(from.Checkpoint)
	err := g.onCheckpoints(ctx, from.Sandbox, func(s *launcher.Sandbox) error {
		if id == "" {
			made, err := s.Checkpoint(ctx, checkpoint.CreateOptions{Automatic: true})
			id = made.ID
			return err
		}
		list, err := s.Checkpoints(ctx)
		if err == nil && !slices.ContainsFunc(list, func(c checkpoint.Checkpoint) bool { return c.ID == id }) {
			err = fmt.Errorf("the sandbox has no checkpoint %.12s…: %w", id, fs.ErrNotExist)
		}
		return err
	})
	return id, err
}

// addLike adds to an order what the sandbox is like that its files come from. What the order says itself stays. A launcher
// that does not know what its sandboxes are like adds only what labels say.
func (g *Gateway) addLike(ctx context.Context, order *NewSandbox, policy *Policy) error {
	from, err := g.find(ctx, order.From.Sandbox)
	if err != nil {
		return err
	}
	if hosts := allowHosts(from); order.AllowHosts == nil && hosts != nil {
		order.AllowHosts = *hosts
	}
	spec, err := launcher.SpecOf(ctx, g.Launcher, from.ID)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err == nil {
		order.addSpec(&spec, g.Base.Env, policy)
	}
	return err
}

// addSpec adds to an order what it leaves out and another sandbox's Spec has, as far as the policy allows that now. It
// goes the way of all that a tenant asks for: nothing else of the Spec, which others than the gateway may have changed,
// has an effect. base is the environment that each new sandbox has in any case.
func (n *NewSandbox) addSpec(spec *launcher.Spec, base []string, policy *Policy) {
	if n.Image == "" && n.Pool == "" {
		if policy.allowsImage(spec.Pod.Image) {
			n.Image = spec.Pod.Image
		}
		if spec.Take.Pool != "" && matches(policy.Pools, spec.Take.Pool) {
			n.Pool = spec.Take.Pool
		}
	}
	if n.Env == nil {
		n.Env = slices.DeleteFunc(slices.Clone(spec.Env), func(v string) bool { return slices.Contains(base, v) })
	}
	limits := spec.Pod.Resources.Limits
	n.CPU = cmp.Or(n.CPU, atMost(limits[corev1.ResourceCPU], policy.Max.CPU))
	n.Memory = cmp.Or(n.Memory, atMost(limits[corev1.ResourceMemory], policy.Max.Memory))
	n.Storage = cmp.Or(n.Storage, atMost(spec.Pod.Workspace.Size, policy.Max.Storage))
}

// atMost returns an amount as an order has it, or the most if it is more; "" if there is none.
func atMost(q, most resource.Quantity) string {
	if !most.IsZero() && q.Cmp(most) > 0 {
		q = most
	}
	if text := q.String(); q.Sign() > 0 && quantity.MatchString(text) {
		return text
	}
	return ""
}

// fill gives a sandbox that was just launched the files of a checkpoint. If that fails, the sandbox is removed, unless
// another request has made it, as its label identity tells, or one with the same key may be filling it or have filled it.
func (g *Gateway) fill(ctx context.Context, in *createInput, s *launcher.Sandbox, identity string, point checkpoint.ID) error {
	err := g.copyInto(ctx, in, s, point)
	if err == nil {
		return nil
	}
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
	defer cancel()
	if now, findErr := g.find(cleanup, in.Body.ID); !s.Created || in.Key != "" || findErr != nil || now.Labels[labelIdentity] != identity {
		_ = s.Close()
		return err
	}
	g.held.forget(s.ID)
	g.waysOut.forget(s.ID)
	defer g.forgetLookups(s.ID)
	if err := s.Terminate(cleanup); err != nil {
		g.Log.ErrorContext(ctx, "a sandbox stays that did not get its files", "sandbox", s.ID, "error", err)
		return err
	}
	g.giveBack(cleanup, s.ID)
	return err
}

func (g *Gateway) copyInto(ctx context.Context, in *createInput, s *launcher.Sandbox, point checkpoint.ID) error {
	if !s.Created {
		if err := g.mayFill(ctx, in); err != nil {
			return err
		}
	}
	var copied podapi.CopiedCheckpoint
	err := g.onCheckpoints(ctx, in.Body.From.Sandbox, func(from *launcher.Sandbox) (err error) {
		copied, err = from.CopyCheckpoint(ctx, point, s.Client, podapi.CopyOptions{Populate: true})
		return err
	})
	switch {
	case in.Key != "" && errors.Is(err, syscall.EEXIST):
		return nil // another request with the key has filled it
	case errors.Is(err, checkpoint.ErrIncomplete) && len(copied.Kept) > 0:
		return newProblem(http.StatusUnprocessableEntity, "incomplete", fmt.Sprintf("the new sandbox cannot have all of the checkpoint: %.200q: %s", copied.Kept[0].Path, copied.Kept[0].Why))
	}
	return err
}
