package launcher

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lacksStorage reports whether a claim waits for the cluster to have a default
// StorageClass, perhaps for ever. Admission names the class of a claim when it is
// created, so a claim without one exists only if the cluster has no default. This
// check needs no permission to read StorageClasses. A class named "" is no class
// either, but was chosen.
func lacksStorage(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.StorageClassName == nil && claim.Spec.VolumeName == ""
}

// makeClaim creates a claim. If the claim would have to wait for a default
// StorageClass, it removes the claim and returns an error.
func (c *cluster) makeClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	made, err := c.api.CoreV1().PersistentVolumeClaims(c.namespace).Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return nil, c.createError(claim.Name, err)
	}
	if lacksStorage(made) {
		return nil, errors.Join(c.noStorageClass(made), c.removeClaim(ctx, made))
	}
	return made, nil
}

func (c *cluster) noStorageClass(claim *corev1.PersistentVolumeClaim) error {
	return c.podError(claim, ErrNoStorageClass, "", "and the workspace names none for its claim")
}

// checkStorageClass finds out whether the claim of a workspace would have a class.
func (p *clusterPatient) checkStorageClass(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	w := p.spec.Pod.Workspace
	if w.StorageClass != "" {
		return p.checkNamedClass(ctx, w.StorageClass)
	}
	claim, err := p.api.CoreV1().PersistentVolumeClaims(p.namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "doctor-"}, Spec: w.claimSpec(),
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err != nil: // such as a quota that others use up now, or a webhook that knows no dry run
		return Finding{Verdict: NotChecked, Detail: fmt.Sprintf("a claim cannot be tried without making it: %v", err)}
	case lacksStorage(claim):
		return failed(ErrNoStorageClass, p.adviceFor(ErrNoStorageClass))
	}
	return passed("%s, the default", *claim.Spec.StorageClassName)
}

// checkNamedClass looks for a StorageClass, if permitted.
func (p *clusterPatient) checkNamedClass(ctx context.Context, name string) Finding {
	_, err := p.api.StorageV1().StorageClasses().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return Finding{Verdict: NotChecked, Detail: "you may not ask for " + name + ", and need not"}
	case apierrors.IsNotFound(err):
		return failed(err, "Name one that \"kubectl get storageclass\" lists (--storage-class), or none for the default.")
	case err != nil:
		return failed(err, "See what \"kubectl get storageclass "+name+"\" says.")
	}
	return passed("%s is there", name)
}
