package launchertest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// KubeconfigEnv is the variable with the path of an administrator's kubeconfig for
// the tests' cluster. Without it, tests use the cluster of "make cluster".
const KubeconfigEnv = "PODAGENT_TEST_KUBECONFIG"

// ImageEnv is the variable with the name of the runtime image in the cluster. Without
// it, tests use the one that "make image" builds.
const ImageEnv = "PODAGENT_TEST_IMAGE"

// builtImage is what "make image" builds.
const builtImage = "podagent/runtime:dev"

// ProgramsImage is the runtime image with more programs: vim, less and tmux; curl, Python
// and pip. The cluster has it, too.
const ProgramsImage = "podagent.test/programs:dev"

// orchestratorAccount is the service account of deploy/rbac.yaml.
const orchestratorAccount = "podagent-orchestrator"

// Cluster is a test's own namespace in a real cluster, with the objects of deploy/.
type Cluster struct {
	// Admin may do everything, Orchestrator only what the Role of deploy/rbac.yaml
	// allows.
	Admin, Orchestrator *rest.Config
	// Kubeconfig is the path of Admin's kubeconfig.
	Kubeconfig string
	// Namespace is the test's namespace. It is deleted at the end of the test.
	Namespace string
	// Image is the runtime image.
	Image string
	// Identity is the test's own identity.
	Identity podapi.Identity
	// Connection is how launchers reach agents; empty means the default.
	Connection launcher.Connection

	own, disrupted bool // see OwnCluster and DisruptedCluster
}

// NewCluster creates a namespace in the tests' cluster, which enforces this Pod
// Security Standard. It fails the test if there is no cluster.
func NewCluster(t testing.TB, profile launcher.Profile) *Cluster {
	t.Helper()
	c, err := newCluster(t.Context(), profile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// This deletes everything in it, but the test does not wait for that.
		err := c.API(t).CoreV1().Namespaces().Delete(context.Background(), c.Namespace, metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	return c
}

// By returns the cluster for launchers that reach agents in this way, with the
// permissions for it.
func (c *Cluster) By(t testing.TB, way launcher.Connection) *Cluster {
	t.Helper()
	if way == launcher.ByExec {
		root, err := moduleRoot()
		if err == nil {
			err = c.Apply(t.Context(), filepath.Join(root, "deploy", "exec-rbac.yaml"))
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	by := *c
	by.Connection = way
	return &by
}

// Launcher returns a launcher with the permissions of the Role.
func (c *Cluster) Launcher() *launcher.Kubernetes {
	return &launcher.Kubernetes{Config: c.Orchestrator, Namespace: c.Namespace, Identity: &c.Identity, Connection: c.Connection}
}

// Spec returns the Spec of a sandbox with the runtime image.
func (c *Cluster) Spec(id string) launcher.Spec {
	return launcher.Spec{ID: id, Pod: launcher.Pod{Image: c.Image}}
}

// WriteKubeconfig writes a kubeconfig with the permissions of the Role, for the
// namespace, and returns its path.
func (c *Cluster) WriteKubeconfig(t testing.TB) string {
	t.Helper()
	config := api.NewConfig()
	config.Clusters["test"] = &api.Cluster{Server: c.Orchestrator.Host, CertificateAuthorityData: c.Orchestrator.CAData, CertificateAuthority: c.Orchestrator.CAFile}
	config.AuthInfos["test"] = &api.AuthInfo{Token: c.Orchestrator.BearerToken}
	config.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "test", Namespace: c.Namespace}
	config.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// API returns a client with an administrator's permissions.
func (c *Cluster) API(t testing.TB) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Admin)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// EndPod ends a pod within moments, by its active deadline. A pod with such a short
// deadline from the start might end before Launch has returned.
func (c *Cluster) EndPod(t testing.TB, name string) {
	t.Helper()
	patch := []byte(`{"spec":{"activeDeadlineSeconds":1}}`)
	if _, err := c.API(t).CoreV1().Pods(c.Namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func newCluster(ctx context.Context, profile launcher.Profile) (*Cluster, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	kubeconfig, err := kubeconfigPath()
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		Kubeconfig: kubeconfig,
		Namespace:  "test-" + strings.ToLower(rand.Text()[:10]),
		Image:      cmp.Or(os.Getenv(ImageEnv), builtImage),
	}
	if c.Identity, err = podapi.NewIdentity(); err != nil {
		return nil, err
	}
	c.Admin, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("no cluster to test on: run \"make cluster\", or set %s: %w", KubeconfigEnv, err)
	}
	c.Admin.QPS, c.Admin.Burst = 200, 400
	if err := c.deploy(ctx, filepath.Join(root, "deploy"), profile); err != nil {
		return nil, fmt.Errorf("cannot prepare namespace %s of the cluster (is it up? \"make cluster\" starts it): %w", c.Namespace, err)
	}
	c.Orchestrator, err = c.Account(ctx, orchestratorAccount)
	return c, err
}

// deploy creates the namespace and the objects that every orchestrator needs.
func (c *Cluster) deploy(ctx context.Context, dir string, profile launcher.Profile) error {
	client, err := kubernetes.NewForConfig(c.Admin)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: c.Namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": string(profile)},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, filepath.Join(dir, "rbac.yaml")); err != nil {
		return err
	}
	// Pods are not admitted before the controller has created their account.
	for {
		_, err := client.CoreV1().ServiceAccounts(c.Namespace).Get(ctx, "default", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Account returns the configuration of a service account in the namespace.
func (c *Cluster) Account(ctx context.Context, name string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(c.Admin)
	if err != nil {
		return nil, err
	}
	token, err := client.CoreV1().ServiceAccounts(c.Namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(c.Admin)
	config.BearerToken = token.Status.Token
	return config, nil
}

// Apply creates the objects of a file of deploy/ in the test's namespace, which stands
// for all namespaces of that file, and waits until the API server applies the Roles among
// them.
func (c *Cluster) Apply(ctx context.Context, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	data = namespaceLabel.ReplaceAll(data, []byte("${1}"+c.Namespace))
	client, err := dynamic.NewForConfig(c.Admin)
	if err != nil {
		return err
	}
	objects, err := Objects(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, object := range objects {
		if err := c.create(ctx, client, object); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return c.awaitAccess(ctx, objects)
}

// Objects returns the objects of a YAML text.
func Objects(text []byte) (list []*unstructured.Unstructured, err error) {
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		object := &unstructured.Unstructured{}
		err := d.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, err
		case object.Object != nil:
			list = append(list, object)
		}
	}
}

// namespaceLabel matches where a file of deploy/ selects one of its namespaces.
var namespaceLabel = regexp.MustCompile(`(kubernetes\.io/metadata\.name: )podagent(-system)?\b`)

// create creates an object. A field that the API does not know is an error.
func (c *Cluster) create(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured) error {
	object.SetNamespace(c.Namespace)
	if subjects, ok, _ := unstructured.NestedSlice(object.Object, "subjects"); ok {
		for _, s := range subjects {
			s.(map[string]any)["namespace"] = c.Namespace
		}
		if err := unstructured.SetNestedSlice(object.Object, subjects, "subjects"); err != nil {
			return err
		}
	}
	kind := object.GroupVersionKind()
	plural := strings.ToLower(kind.Kind) + "s"
	if base, ok := strings.CutSuffix(plural, "ys"); ok {
		plural = base + "ies"
	}
	resource := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: plural}
	_, err := client.Resource(resource).Namespace(c.Namespace).Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}

// kubeconfigPath returns the path of the kubeconfig of the tests' cluster.
func kubeconfigPath() (string, error) {
	if path := os.Getenv(KubeconfigEnv); path != "" {
		return filepath.Abs(path)
	}
	root, err := moduleRoot()
	return filepath.Join(root, ".cluster", "kubeconfig"), err
}

// module is the module of podagent. A testing module may use another version of it.
const module = "github.com/podagent/podagent"

// moduleRoot returns the directory of podagent's module.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
