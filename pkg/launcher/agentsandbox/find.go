package agentsandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// found is what there is of a sandbox: the Sandbox, once there is one, and the claim that it
// belongs to, unless the Sandbox stands for itself.
type found struct {
	id      string
	sandbox *sandbox
	claim   *claim
	foreign bool // another client made it
}

// main returns the object that stands for the sandbox.
func (f *found) main() metav1.Object {
	if f.claim != nil {
		return f.claim
	}
	return f.sandbox
}

// resource is that of the object that stands for the sandbox.
func (f *found) resource() schema.GroupVersionResource {
	if f.claim != nil {
		return claims
	}
	return sandboxes
}

// subject names the object that keeps the assignment.
func (f *found) subject() string {
	return f.resource().GroupResource().String() + " " + f.main().GetNamespace() + "/" + f.main().GetName() + " " + f.id
}

// countPatience is how long a Sandbox may not count while a launch waits for it: then its own
// launch was killed. ARCHITECTURE.md ("Pods that agent-sandbox makes") says what counts.
const countPatience = 15 * time.Second

// find returns what there is of a sandbox. If there is none, the error is ErrNotFound.
func (c *cluster) find(ctx context.Context, id string) (*found, error) {
	f, err := c.findOwn(ctx, id, false)
	if err != nil || f != nil {
		return f, err
	}
	if len(validation.IsDNS1123Subdomain(id)) > 0 {
		return nil, launcher.ErrNotFound
	}
	return c.findForeign(ctx, id)
}

// findOwn returns what launchers have made for the id; nil if there is nothing. A launch waits while
// there is a Sandbox in doubt.
func (c *cluster) findOwn(ctx context.Context, id string, launching bool) (*found, error) {
	var seen types.UID // the Sandbox that has not counted since
	var since time.Time
	for {
		f, doubt, err := c.read(ctx, id)
		if err != nil || !launching || doubt == nil {
			return f, err
		}
		if doubt.UID != seen {
			seen, since = doubt.UID, time.Now()
		}
		if time.Since(since) > countPatience {
			err = c.decide(ctx, f, doubt)
		}
		if err != nil && !apierrors.IsConflict(err) && !errors.Is(err, launcher.ErrGone) {
			return nil, err
		}
		delay.For(ctx, againPause)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// decide ends the doubt about a Sandbox whose launch was killed: beside a claim it goes.
func (c *cluster) decide(ctx context.Context, f *found, doubt *sandbox) error {
	alone := &found{id: f.id, sandbox: doubt}
	if f.claim != nil {
		return c.delete(ctx, alone, doubt.ResourceVersion)
	}
	return c.annotate(ctx, alone, podmeta.AnnotationCounts, now())
}

// read returns what launchers have made for the id; nil if there is nothing. It also returns a
// Sandbox that may come to count, or not.
func (c *cluster) read(ctx context.Context, id string) (f *found, doubt *sandbox, err error) {
	name := podmeta.NameOf(id)
	f = &found{id: id}
	if f.claim, err = ifThere(c.claims().get(ctx, name)); err != nil {
		return nil, nil, err
	}
	own, err := c.sandboxes().get(ctx, name)
	if isMissing(err) {
		own, err = nil, nil
	}
	if err != nil || own == nil && f.claim == nil {
		return nil, nil, err
	}
	if own != nil && !isDecided(own) && (f.claim == nil || !metav1.IsControlledBy(own, f.claim)) {
		doubt = own
	}
	f.claim, f.sandbox = mainOf(f.claim, own)
	if f.claim != nil {
		err = c.addSandbox(ctx, f)
	}
	if err == nil {
		err = c.checkOurs(f)
	}
	return f, doubt, err
}

// mainOf returns the object that stands for a sandbox that has a claim, a Sandbox of the same name,
// or both: a Sandbox that counts, else the claim.
func mainOf(of *claim, own *sandbox) (*claim, *sandbox) {
	if own != nil && (of == nil || counts(own) && !metav1.IsControlledBy(own, of)) {
		return nil, own
	}
	return of, nil
}

// counts reports whether the launch that made a Sandbox has seen no claim.
func counts(s *sandbox) bool { return s.Annotations[podmeta.AnnotationCounts] != "" }

// isDecided reports whether it is known whether a Sandbox counts.
func isDecided(s *sandbox) bool { return counts(s) || s.DeletionTimestamp != nil }

// checkOurs returns an error if another client has made the object of a sandbox's name, or a newer
// launcher.
func (c *cluster) checkOurs(f *found) error {
	if f.main().GetAnnotations()[podmeta.AnnotationID] != f.id {
		return podError(c.namespace, f.main().GetName(), launcher.ErrNotOurs, "", "another client made the object of this name")
	}
	return c.checkForm(f)
}

func (c *cluster) checkForm(f *found) error {
	if newer := podmeta.NewerForm(f.main().GetAnnotations()); newer != "" {
		return podError(c.namespace, f.main().GetName(), launcher.ErrNewer, "", "its object "+newer)
	}
	return nil
}

// addSandbox adds the Sandbox of a claim, if there is one that belongs to it. The claim's status
// says what it means that there is none.
func (c *cluster) addSandbox(ctx context.Context, f *found) (err error) {
	f.sandbox = nil
	name := f.claim.Status.Sandbox.Name
	if name == "" {
		return nil
	}
	s, err := ifThere(c.sandboxes().get(ctx, name))
	if s != nil && metav1.IsControlledBy(s, f.claim) {
		f.sandbox = s
	}
	return err
}

// findForeign returns what another client has made by the name: a claim, or a Sandbox that belongs
// to nothing else. The error is ErrNotFound if there is nothing.
func (c *cluster) findForeign(ctx context.Context, name string) (*found, error) {
	f := &found{id: name, foreign: true}
	var err error
	if f.claim, err = ifThere(c.claims().get(ctx, name)); err != nil {
		return nil, err
	}
	if f.claim != nil {
		err = c.look(ctx, f)
	} else if f.sandbox, err = c.sandboxes().get(ctx, name); isMissing(err) {
		return nil, launcher.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if owner := metav1.GetControllerOf(f.main()); owner != nil {
		return nil, podError(c.namespace, name, launcher.ErrNotOurs, "", fmt.Sprintf("it belongs to %s %s", owner.Kind, owner.Name))
	}
	if id, ok := f.main().GetAnnotations()[podmeta.AnnotationID]; ok {
		return nil, podError(c.namespace, name, launcher.ErrNotOurs, "", fmt.Sprintf("it belongs to sandbox %q", id))
	}
	return f, c.checkForm(f)
}

// findForeignSandbox returns what another client has made, by the name of its Sandbox: with the claim that this
// belongs to, if any. Whose it is, mine knows by the labels of its pods.
func (c *cluster) findForeignSandbox(ctx context.Context, name, uid string, mine func(labels map[string]string) bool) (*found, error) {
	s, err := c.sandboxes().get(ctx, name)
	switch {
	case isMissing(err):
		return nil, launcher.ErrNotFound
	case err != nil:
		return nil, err
	case uid != "" && uid != string(s.UID), !mine(s.Spec.PodTemplate.Metadata.Labels):
		return nil, launcher.ErrNotFound
	}
	f := &found{id: name, sandbox: s, foreign: true}
	if owner := metav1.GetControllerOf(s); owner != nil {
		f.id = owner.Name // by which Open finds it, too
		if f.claim, err = ifThere(c.claims().get(ctx, owner.Name)); err != nil {
			return nil, err
		}
		if f.claim == nil || !metav1.IsControlledBy(s, f.claim) { // it still waits in a pool, or its claim is gone
			return nil, launcher.ErrNotFound
		}
	}
	if _, ours := f.main().GetAnnotations()[podmeta.AnnotationID]; ours {
		return nil, launcher.ErrNotFound
	}
	return f, c.checkForm(f)
}

// look reads the objects of a sandbox again. The error is ErrGone if the object that stands for it
// is not there any more.
func (c *cluster) look(ctx context.Context, f *found) error {
	now := *f
	err := c.refresh(ctx, &now)
	switch {
	case isMissing(err), err == nil && now.main().GetUID() != f.main().GetUID():
		return podError(c.namespace, f.main().GetName(), launcher.ErrGone, "", "its object was deleted or replaced")
	case err == nil:
		*f = now
	}
	return err
}

// refresh reads the objects of the same names.
func (c *cluster) refresh(ctx context.Context, f *found) error {
	if f.claim == nil {
		now, err := c.sandboxes().get(ctx, f.sandbox.Name)
		if err == nil {
			f.sandbox = now
		}
		return err
	}
	now, err := c.claims().get(ctx, f.claim.Name)
	if err != nil {
		return err
	}
	f.claim = now
	return c.addSandbox(ctx, f)
}

// ifThere returns nil without an error for an object that is not there. A cluster without the
// extensions has no claims.
func ifThere[T any](object *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// isMissing reports whether there is no object of a name, of a resource that the API server knows.
func isMissing(err error) bool {
	return apierrors.IsNotFound(err) && !errors.Is(err, ErrNotInstalled)
}
