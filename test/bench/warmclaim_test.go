package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// sandboxdImage has sandboxd, and a program that does nothing.
const sandboxdImage = "podagent.test/sandboxd:dev"

// claimPool is how many Sandboxes wait in a warm pool of agent-sandbox.
const claimPool = 10

// The resources of agent-sandbox.
var (
	sandboxTemplates = extension("sandboxtemplates")
	sandboxPools     = extension("sandboxwarmpools")
	sandboxClaims    = extension("sandboxclaims")
)

func extension(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Resource: resource}
}

// claimer makes claims on warm pools of agent-sandbox, one in each moment.
type claimer struct {
	dynamic   dynamic.Interface
	namespace string
	pool      string
	began     time.Time
	made      int
}

// newClaimers installs agent-sandbox with two warm pools: one of pods with sandboxd, and one of
// pods with podagent, for the launcher that it returns.
func newClaimers(b *testing.B, c *launchertest.Cluster) (peer, own *claimer, l *agentsandbox.Launcher) {
	b.Helper()
	c.InstallAgentSandbox(b)
	b.Cleanup(c.StartAgentSandbox(b))
	if err := c.Apply(b.Context(), filepath.Join("..", "..", "deploy", "agent-sandbox-rbac.yaml")); err != nil {
		b.Fatal(err)
	}
	api, err := dynamic.NewForConfig(c.Admin)
	if err != nil {
		b.Fatal(err)
	}
	peer = &claimer{dynamic: api, namespace: c.Namespace, pool: "sandboxd"}
	own = &claimer{dynamic: api, namespace: c.Namespace, pool: "podagent"}
	loadSandboxd(b, c)
	l = &agentsandbox.Launcher{Cluster: c.Launcher()}
	text, err := l.Template(b.Context(), own.pool, claimPool, c.Spec(""))
	if err != nil {
		b.Fatal(err)
	}
	objects, err := launchertest.Objects(text)
	if err != nil {
		b.Fatal(err)
	}
	for _, object := range append(objects, sandboxdPool(b)...) {
		resource := sandboxTemplates
		if object.GetKind() == "SandboxWarmPool" {
			resource = sandboxPools
		}
		if _, err := api.Resource(resource).Namespace(c.Namespace).Create(b.Context(), object, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(peer.awaitPool(b.Context()), own.awaitPool(b.Context())); err != nil {
		b.Fatal(err)
	}
	return peer, own, l
}

// loadSandboxd builds the image of sandboxd, and loads it into the cluster.
func loadSandboxd(b *testing.B, c *launchertest.Cluster) {
	b.Helper()
	dir := b.TempDir()
	files, dockerfile, archive := filepath.Join(dir, "files"), filepath.Join(dir, "Dockerfile"), filepath.Join(dir, "sandboxd.tar")
	text := "FROM scratch\nCOPY sandboxd true /bin/\nENV PATH=/bin\n"
	err := errors.Join(os.Mkdir(files, 0o755), os.WriteFile(dockerfile, []byte(text), 0o644),
		os.Rename(buildIn(b, ".", "sandboxd", sandboxdPackage), filepath.Join(files, "sandboxd")),
		os.Rename(buildIn(b, ".", "true", "./testdata/true"), filepath.Join(files, "true")))
	if err != nil {
		b.Fatal(err)
	}
	build := exec.Command(filepath.Join("..", "..", "images", "runtime", "build.sh"))
	build.Env = append(os.Environ(), "BASE=", "PACKAGES=", "IMAGE="+sandboxdImage, "OUT="+archive, "DOCKERFILE="+dockerfile, "CONTEXT="+files)
	load := exec.Command("go", "run", ".", "load", "--dir", filepath.Dir(c.Kubeconfig), archive)
	load.Dir = filepath.Join("..", "cluster")
	for _, cmd := range []*exec.Cmd{build, load} {
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %v\n%s", cmd, err, out)
		}
	}
}

// sandboxdPool returns a template of pods with sandboxd, and a warm pool of them.
func sandboxdPool(b *testing.B) (objects []*unstructured.Unstructured) {
	b.Helper()
	pod := pausePod()
	pod.Spec.Containers[0].Image = sandboxdImage
	pod.Spec.Containers[0].Command = []string{"sandboxd", "--root-dir=/tmp"}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod.Spec)
	if err != nil {
		b.Fatal(err)
	}
	for kind, fields := range map[string]map[string]any{
		"SandboxTemplate": {"podTemplate": map[string]any{"spec": spec}, "networkPolicyManagement": "Unmanaged"},
		"SandboxWarmPool": {"replicas": int64(claimPool), "sandboxTemplateRef": map[string]any{"name": "sandboxd"}},
	} {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": sandboxClaims.GroupVersion().String(), "kind": kind,
			"metadata": map[string]any{"name": "sandboxd"}, "spec": fields,
		}})
	}
	return objects
}

// claimAndExec does what agent-sandbox's clients do: it makes a claim, waits until that is Ready,
// and has the pod's sandboxd run a command, straight at the pod's address.
func (k *claimer) claimAndExec(b *testing.B) error {
	ctx := b.Context()
	k.began = time.Now()
	claims := k.dynamic.Resource(sandboxClaims).Namespace(k.namespace)
	claim, err := claims.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": sandboxClaims.GroupVersion().String(), "kind": "SandboxClaim",
		"metadata": map[string]any{"generateName": "claim-"},
		"spec":     map[string]any{"warmPoolRef": map[string]any{"name": k.pool}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	address, err := k.awaitReady(ctx, claim)
	if err != nil {
		return err
	}
	d := dialSandboxd(b, net.JoinHostPort(address, strconv.Itoa(sandboxdGRPC)), net.JoinHostPort(address, strconv.Itoa(sandboxdREST)))
	return d.run(b, "true")()
}

// awaitReady returns the address of a claim's pod, once the claim is Ready.
func (k *claimer) awaitReady(ctx context.Context, claim *unstructured.Unstructured) (string, error) {
	w, err := k.dynamic.Resource(sandboxClaims).Namespace(k.namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", claim.GetName()).String(),
		ResourceVersion: claim.GetResourceVersion(),
	})
	if err != nil {
		return "", err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		now, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		addresses, _, _ := unstructured.NestedStringSlice(now.Object, "status", "sandbox", "podIPs")
		conditions, _, _ := unstructured.NestedSlice(now.Object, "status", "conditions")
		for _, c := range conditions {
			if m, ok := c.(map[string]any); ok && m["type"] == "Ready" && m["status"] == "True" && len(addresses) > 0 {
				return addresses[0], nil
			}
		}
	}
	return "", fmt.Errorf("claim %s was not ready when its watch ended", claim.GetName())
}

// next waits for the next moment, or after the last of a round until the pool is full.
func (k *claimer) next() error {
	if k.made++; k.made%poolTaken != 0 {
		time.Sleep(time.Until(k.began.Add(poolMoment)))
		return nil
	}
	ctx := context.Background()
	err := k.dynamic.Resource(sandboxClaims).Namespace(k.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	return errors.Join(err, k.awaitPool(ctx))
}

// awaitPool waits until the warm pool is full, and no claim is left.
func (k *claimer) awaitPool(ctx context.Context) error {
	for ctx.Err() == nil {
		claims, err := k.dynamic.Resource(sandboxClaims).Namespace(k.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		now, err := k.dynamic.Resource(sandboxPools).Namespace(k.namespace).Get(ctx, k.pool, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ready, _, _ := unstructured.NestedInt64(now.Object, "status", "readyReplicas"); ready == claimPool && len(claims.Items) == 0 {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return ctx.Err()
}

// launchAndExec makes a claim through podagent's launcher, and runs a command in its pod.
func (k *claimer) launchAndExec(ctx context.Context, c *launchertest.Cluster, l *agentsandbox.Launcher) error {
	k.began = time.Now()
	spec := c.Spec("")
	spec.Take.Pool, spec.Env, spec.OnClose = k.pool, []string{"A=1"}, launcher.CloseKeep
	s, err := firstExec(ctx, l, spec)
	if err != nil {
		return err
	}
	if !s.Start.Warm {
		err = fmt.Errorf("the sandbox started cold: %s", s.Start.Cold)
	}
	return errors.Join(err, s.Close())
}
