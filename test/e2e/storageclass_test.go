package e2e

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// The cluster of "make cluster" has no default StorageClass. With one, workspaces
// are kept.
func TestWorkspaceIsNotKeptWithoutAStorageClass(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	if err := c.Apply(t.Context(), filepath.Join("..", "..", "deploy", "claims-rbac.yaml")); err != nil {
		t.Fatal(err)
	}
	k, spec := c.Launcher(), c.Spec("job")
	spec.Pod.Workspace.Keep = true
	s, err := k.Launch(t.Context(), spec)
	if hasDefaultClass(t, c) {
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		return
	}
	refused := isWithoutClass(t, err)
	nothingIsLeft(t, c)

	// A launch may be killed before it has removed its claim. The next launch does
	// not wait for that claim either, and the claim ends with the sandbox.
	_, name, _ := strings.Cut(refused.Pod, "/")
	leaveClaim(t, c, name, "job")
	_, err = k.Launch(t.Context(), spec)
	isWithoutClass(t, err)
	if err := k.Terminate(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	nothingIsLeft(t, c)
}

func isWithoutClass(t *testing.T, err error) *launcher.PodError {
	t.Helper()
	refused, ok := errors.AsType[*launcher.PodError](err)
	if !ok || !errors.Is(err, launcher.ErrNoStorageClass) {
		t.Fatalf("Launch: %v", err)
	}
	return refused
}

// leaveClaim makes a sandbox's claim without a class.
func leaveClaim(t *testing.T, c *launchertest.Cluster, name, id string) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name:   name,
			Labels: map[string]string{podmeta.LabelManagedBy: podmeta.ManagedBy}, Annotations: map[string]string{podmeta.AnnotationID: id},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if _, err := c.API(t).CoreV1().PersistentVolumeClaims(c.Namespace).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func hasDefaultClass(t *testing.T, c *launchertest.Cluster) bool {
	t.Helper()
	list, err := c.API(t).StorageV1().StorageClasses().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list.Items, func(class storagev1.StorageClass) bool {
		return class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true"
	})
}

// nothingIsLeft waits until the namespace has neither pods nor claims.
func nothingIsLeft(t *testing.T, c *launchertest.Cluster) {
	t.Helper()
	const hung = 2 * time.Minute
	var pods *corev1.PodList
	var claims *corev1.PersistentVolumeClaimList
	for end := time.Now().Add(hung); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var err1, err2 error
		pods, err1 = c.API(t).CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{})
		claims, err2 = c.API(t).CoreV1().PersistentVolumeClaims(c.Namespace).List(t.Context(), metav1.ListOptions{})
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if len(pods.Items)+len(claims.Items) == 0 {
			return
		}
	}
	t.Errorf("%d pods and %d claims are left", len(pods.Items), len(claims.Items))
}
