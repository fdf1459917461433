package launchertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// volumeSize is the stated capacity of the test's volumes.
const volumeSize = "1Gi"

// Storage returns the name of a StorageClass with volumes for n claims of 1 GiB, and
// lets the cluster's launchers create claims. In the cluster of "make cluster", these
// are directories of this machine, which are removed at the end of the test. For
// another cluster, Storage returns "", the default class.
func (c *Cluster) Storage(t testing.TB, n int) string {
	t.Helper()
	root, err := moduleRoot()
	if err == nil {
		err = c.Apply(t.Context(), filepath.Join(root, "deploy", "claims-rbac.yaml"))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if os.Getenv(KubeconfigEnv) != "" {
		return ""
	}
	dir, err := os.MkdirTemp(filepath.Dir(c.Kubeconfig), "volumes-*")
	if err != nil {
		t.Fatal(err)
	}
	client := c.API(t)
	class := c.Namespace + "-" + strings.ToLower(rand.Text()[:6]) // classes have no namespace
	t.Cleanup(func() {
		if err := removeStorage(context.Background(), client, class, n); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := makeStorage(t.Context(), client, class, dir, n); err != nil {
		t.Fatal(err)
	}
	return class
}

func makeStorage(ctx context.Context, client kubernetes.Interface, class, dir string, n int) error {
	_, err := client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: class},
		Provisioner: "kubernetes.io/no-provisioner",
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		return fmt.Errorf("no node for volumes: %w", err)
	}
	for i := range n {
		volume := localVolume(class, i, filepath.Join(dir, strconv.Itoa(i)), nodes.Items[0].Labels[corev1.LabelHostname])
		if err := os.Mkdir(volume.Spec.Local.Path, 0o755); err != nil {
			return err
		}
		if _, err := client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return awaitStorage(ctx, client, class, n)
}

// awaitStorage waits until the controller knows the volumes. Claims created earlier
// would wait for its next check, which is every 15 s.
func awaitStorage(ctx context.Context, client kubernetes.Interface, class string, n int) error {
	for i := range n {
		for {
			volume, err := client.CoreV1().PersistentVolumes().Get(ctx, volumeName(class, i), metav1.GetOptions{})
			if err != nil {
				return err
			}
			if volume.Status.Phase == corev1.VolumeAvailable {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

func localVolume(class string, i int, dir, node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volumeName(class, i)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(volumeSize)},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			StorageClassName:              class,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
}

func volumeName(class string, i int) string { return fmt.Sprintf("%s-%d", class, i) }

func removeStorage(ctx context.Context, client kubernetes.Interface, class string, n int) error {
	for i := range n {
		err := client.CoreV1().PersistentVolumes().Delete(ctx, volumeName(class, i), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return client.StorageV1().StorageClasses().Delete(ctx, class, metav1.DeleteOptions{})
}

// Claim creates a claim for 1 GiB of this class in the namespace.
func (c *Cluster) Claim(t testing.TB, class, name string) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse(volumeSize),
			}},
		},
	}
	if class != "" {
		claim.Spec.StorageClassName = &class
	}
	if _, err := c.API(t).CoreV1().PersistentVolumeClaims(c.Namespace).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
