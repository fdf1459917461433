package agentsandbox

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

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

// place names the object that keeps the assignment.
func (f *found) place() string { return placeOf(f.claim != nil, f.main(), f.id) }

func placeOf(isClaim bool, object metav1.Object, id string) string {
	resource := sandboxes
	if isClaim {
		resource = claims
	}
	return resource.GroupResource().String() + " " + object.GetNamespace() + "/" + object.GetName() + " " + id
}

// One id may get a Sandbox from one launch and a claim from another at the same time. So who makes
// a Sandbox looks for a claim afterwards, and then marks the Sandbox (podmeta.AnnotationCounts)
// or deletes it. Who makes a claim looks for a Sandbox afterwards. At least one of the two sees
// the other. A Sandbox that counts wins; one that does not is waited for, and after this time,
// which says that its launch was killed, it loses.
const countPatience = 15 * time.Second

// find returns what there is of a sandbox. If there is none, the error is ErrNotFound.
func (c *cluster) find(ctx context.Context, id string) (*found, error) {
	f, err := c.findOwn(ctx, id)
	if err != nil || f != nil {
		return f, err
	}
	if len(validation.IsDNS1123Subdomain(id)) > 0 {
		return nil, launcher.ErrNotFound
	}
	return c.findForeign(ctx, id)
}

// findOwn returns what launchers have made for the id; nil if there is nothing.
func (c *cluster) findOwn(ctx context.Context, id string) (*found, error) {
	for began := time.Now(); ; {
		f, isUndecided, err := c.read(ctx, id)
		if err != nil || !isUndecided {
			return f, err
		}
		if time.Since(began) > countPatience {
			err = c.delete(ctx, f, f.sandbox.ResourceVersion)
		}
		if err != nil && !apierrors.IsConflict(err) {
			return nil, err
		}
		sleep(ctx, againPause)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// read returns what launchers have made for the id; nil if there is nothing. A Sandbox is undecided
// while it does not count.
func (c *cluster) read(ctx context.Context, id string) (f *found, isUndecided bool, err error) {
	name := podmeta.NameOf(id)
	f = &found{id: id}
	if f.claim, err = ifThere(c.claims().get(ctx, name)); err != nil {
		return nil, false, err
	}
	own, err := c.sandboxes().get(ctx, name)
	if isMissing(err) {
		own, err = nil, nil
	}
	if err != nil {
		return nil, false, err
	}
	switch {
	case own != nil && (f.claim == nil || !metav1.IsControlledBy(own, f.claim)):
		f.claim, f.sandbox = nil, own
		isUndecided = own.Annotations[podmeta.AnnotationCounts] == "" && own.DeletionTimestamp == nil && isOf(own, id)
	case f.claim == nil:
		return nil, false, nil
	default:
		err = c.addSandbox(ctx, f, own)
	}
	if err == nil && !isOf(f.main(), id) {
		err = podError(c.namespace, name, launcher.ErrNotOurs, "", "another client made the object of this name")
	}
	if newer := podmeta.NewerForm(f.main().GetAnnotations()); err == nil && newer != "" {
		err = podError(c.namespace, name, launcher.ErrNewer, "", "its object "+newer)
	}
	return f, isUndecided, err
}

// addSandbox adds the Sandbox of a claim, if there is one. The claim's status says what it means
// that there is none.
func (c *cluster) addSandbox(ctx context.Context, f *found, own *sandbox) (err error) {
	switch f.claim.Status.Sandbox.Name {
	case "":
	case f.claim.Name:
		f.sandbox = own
	default:
		f.sandbox, err = ifThere(c.sandboxes().get(ctx, f.claim.Status.Sandbox.Name))
	}
	return err
}

// findForeign returns what another client has made by the name. The error is ErrNotFound if there
// is nothing.
func (c *cluster) findForeign(ctx context.Context, name string) (*found, error) {
	f := &found{id: name, foreign: true}
	var err error
	if f.claim, err = ifThere(c.claims().get(ctx, name)); err != nil {
		return nil, err
	}
	if f.claim != nil {
		return f, c.addSandbox(ctx, f, nil)
	}
	f.sandbox, err = c.sandboxes().get(ctx, name)
	if isMissing(err) {
		return nil, launcher.ErrNotFound
	}
	return f, err
}

// look reads the objects of a sandbox again. The error is ErrGone if the object that stands for it
// is not there any more.
func (c *cluster) look(ctx context.Context, f *found) error {
	now := found{id: f.id, foreign: f.foreign}
	var err error
	if f.claim == nil {
		now.sandbox, err = c.sandboxes().get(ctx, f.sandbox.Name)
	} else if now.claim, err = c.claims().get(ctx, f.claim.Name); err == nil {
		var own *sandbox
		if now.claim.Status.Sandbox.Name == now.claim.Name {
			own, err = ifThere(c.sandboxes().get(ctx, now.claim.Name))
		}
		if err == nil {
			err = c.addSandbox(ctx, &now, own)
		}
	}
	switch {
	case isMissing(err), err == nil && now.main().GetUID() != f.main().GetUID():
		return podError(c.namespace, f.main().GetName(), launcher.ErrGone, "", "its object was deleted or replaced")
	case err == nil:
		*f = now
	}
	return err
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

// isOf reports whether an object says that it belongs to the sandbox.
func isOf(object metav1.Object, id string) bool {
	return object.GetAnnotations()[podmeta.AnnotationID] == id
}
