package e2e

// What keeps a holder of "create pods" in the sandboxes' namespace from harm, on the real
// API server.

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// applyPolicy applies the policy of deploy/ to the namespace of a test, under a name of
// its own, with the names of Secrets that pods may use. It returns when the API server
// enforces it.
func applyPolicy(t *testing.T, c *launchertest.Cluster, secrets string) {
	t.Helper()
	data, err := os.ReadFile("../../deploy/admission-policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("podagent-sandboxes", c.Namespace, "metadata.name: podagent\n", "metadata.name: "+c.Namespace+"\n",
		"expression: '[]'", "expression: '"+secrets+"'").Replace(string(data))
	first, second, ok := strings.Cut(text, "\n---\n")
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	for one, object := range map[string]any{first: policy, second: binding} {
		if err := yaml.UnmarshalStrict([]byte(one), object); err != nil || !ok {
			t.Fatalf("admission-policy.yaml has two objects: %v", err)
		}
	}
	api := c.API(t).AdmissionregistrationV1()
	if _, err := api.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, remove := range []func(context.Context, string, metav1.DeleteOptions) error{
			api.ValidatingAdmissionPolicyBindings().Delete, api.ValidatingAdmissionPolicies().Delete,
		} {
			if err := remove(context.Background(), c.Namespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	if _, err := api.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the policy", func() bool { return isRefused(create(t, c, podWith(`{"hostPID": true}`))) })
}

// podWith returns a pod with these fields of a specification, in JSON.
func podWith(spec string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "tried-"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: "image"}},
	}}
	if err := json.Unmarshal([]byte(spec), &pod.Spec); err != nil {
		panic(err)
	}
	return pod
}

// templateOf returns the template of a pod.
func templateOf(pod *corev1.Pod) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "tried"}}, Spec: *pod.Spec.DeepCopy()}
}

// create tries to create an object as an administrator. It creates nothing.
func create(t *testing.T, c *launchertest.Cluster, object runtime.Object) (err error) {
	t.Helper()
	api, ctx, dry := c.API(t), t.Context(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	switch o := object.(type) {
	case *corev1.Pod:
		_, err = api.CoreV1().Pods(c.Namespace).Create(ctx, o, dry)
	case *corev1.PodTemplate:
		_, err = api.CoreV1().PodTemplates(c.Namespace).Create(ctx, o, dry)
	case *corev1.ReplicationController:
		_, err = api.CoreV1().ReplicationControllers(c.Namespace).Create(ctx, o, dry)
	case *appsv1.Deployment:
		_, err = api.AppsV1().Deployments(c.Namespace).Create(ctx, o, dry)
	case *appsv1.ReplicaSet:
		_, err = api.AppsV1().ReplicaSets(c.Namespace).Create(ctx, o, dry)
	case *appsv1.StatefulSet:
		_, err = api.AppsV1().StatefulSets(c.Namespace).Create(ctx, o, dry)
	case *appsv1.DaemonSet:
		_, err = api.AppsV1().DaemonSets(c.Namespace).Create(ctx, o, dry)
	case *batchv1.Job:
		_, err = api.BatchV1().Jobs(c.Namespace).Create(ctx, o, dry)
	case *batchv1.CronJob:
		_, err = api.BatchV1().CronJobs(c.Namespace).Create(ctx, o, dry)
	default:
		t.Fatalf("a %T cannot be created", object)
	}
	return err
}

// makersOf returns one object of each kind that pods are made from.
func makersOf(pod *corev1.Pod) []runtime.Object {
	meta, selector := metav1.ObjectMeta{GenerateName: "tried-"}, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "tried"}}
	template := templateOf(pod)
	once := *template.DeepCopy()
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	return []runtime.Object{
		&corev1.PodTemplate{ObjectMeta: meta, Template: template},
		&corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: selector.MatchLabels, Template: &template}},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}},
		&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}},
		&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}},
		&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}},
		&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: once}},
		&batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "@yearly", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: once}}}},
	}
}

func isRefused(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") && strings.Contains(err.Error(), "refused here")
}

// The namespace has no Pod Security Standard, so that only the policy refuses.
func TestAdmissionPolicyRefusesWhatReachesBeyondTheSandbox(t *testing.T) {
	t.Parallel()
	c := unlabelled(t)
	applyPolicy(t, c, `["allowed"]`)
	for _, spec := range []string{
		`{"hostNetwork": true}`,
		`{"hostPID": true}`,
		`{"hostIPC": true}`,
		`{"containers": [{"name": "main", "image": "image", "ports": [{"containerPort": 80, "hostPort": 80}]}]}`,
		`{"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}`,
		`{"volumes": [{"name": "a", "nfs": {"server": "a", "path": "/"}}]}`,
		`{"volumes": [{"name": "a", "secret": {"secretName": "podagent-identity"}}]}`,
		`{"volumes": [{"name": "a", "projected": {"sources": [{"configMap": {"name": "a"}}, {"secret": {"name": "podagent-identity"}}]}}]}`,
		`{"volumes": [{"name": "a", "csi": {"driver": "a", "nodePublishSecretRef": {"name": "podagent-identity"}}}]}`,
		`{"containers": [{"name": "main", "image": "image", "securityContext": {"privileged": true}}]}`,
		`{"containers": [{"name": "main", "image": "image", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]}`,
		`{"initContainers": [{"name": "init", "image": "image", "securityContext": {"privileged": true}}]}`,
		`{"containers": [{"name": "main", "image": "image", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "podagent-identity", "key": "identity.pem"}}}]}]}`,
		`{"containers": [{"name": "main", "image": "image", "envFrom": [{"secretRef": {"name": "podagent-identity"}}]}]}`,
		`{"initContainers": [{"name": "init", "image": "image", "envFrom": [{"secretRef": {"name": "podagent-identity"}}]}]}`,
	} {
		pod := podWith(spec)
		for _, object := range append(makersOf(pod), pod) {
			if err := create(t, c, object); !isRefused(err) {
				t.Errorf("%T of %s: %v", object, spec, err)
			}
		}
	}
	for _, spec := range []string{
		`{}`,
		`{"imagePullSecrets": [{"name": "registry"}]}`,
		`{"volumes": [{"name": "a", "secret": {"secretName": "allowed"}}, {"name": "b", "emptyDir": {}}, {"name": "c", "persistentVolumeClaim": {"claimName": "a"}}]}`,
		`{"volumes": [{"name": "a", "projected": {"sources": [{"secret": {"name": "allowed"}}, {"downwardAPI": {}}]}}, {"name": "b", "configMap": {"name": "a"}}]}`,
		`{"containers": [{"name": "main", "image": "image", "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}], "envFrom": [{"secretRef": {"name": "allowed"}}, {"configMapRef": {"name": "a"}}]}]}`,
		`{"containers": [{"name": "main", "image": "image", "securityContext": {"capabilities": {"add": ["CHOWN"], "drop": ["NET_RAW"]}}, "ports": [{"containerPort": 80}]}]}`,
	} {
		pod := podWith(spec)
		for _, object := range append(makersOf(pod), pod) {
			if err := create(t, c, object); err != nil {
				t.Errorf("%T of %s: %v", object, spec, err)
			}
		}
	}
}

// unlabelled returns a cluster whose namespace enforces no Pod Security Standard.
func unlabelled(t *testing.T) *launchertest.Cluster {
	t.Helper()
	c := launchertest.NewCluster(t, launcher.Baseline)
	patch := []byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}`)
	if _, err := c.API(t).CoreV1().Namespaces().Patch(t.Context(), c.Namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// What the launcher makes passes in every form. What was there before the policy can
// still be changed in other ways, and deleted.
func TestAdmissionPolicyLeavesOurPodsAndOlderObjectsAlone(t *testing.T) {
	t.Parallel()
	c := unlabelled(t)
	older := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "older"}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "tried"}}, Template: templateOf(podWith(`{"hostPID": true}`)),
	}}
	deployments := c.API(t).AppsV1().Deployments(c.Namespace)
	if _, err := deployments.Create(t.Context(), older, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	applyPolicy(t, c, `[]`)
	for id, change := range map[string]func(*launcher.Pod){
		"plain": func(*launcher.Pod) {},
		"full": func(p *launcher.Pod) {
			p.Profile, p.ReadOnlyRoot, p.AgentImage = launcher.Baseline, true, c.Image
			p.ReadOnly = []launcher.ReadOnlyDir{{Path: "/rules", From: "/etc/skel"}}
			p.PullSecrets = []string{"registry"}
		},
	} {
		spec := c.Spec(id)
		change(&spec.Pod)
		harness.Put(t, harness.Launch(t, c.Launcher(), spec), "file", "x")
	}
	patch := func(text string) error {
		_, err := deployments.Patch(t.Context(), "older", types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	if err := patch(`{"metadata": {"labels": {"a": "b"}}, "spec": {"paused": true}}`); err != nil {
		t.Errorf("an older object cannot be changed: %v", err)
	}
	if err := patch(`{"spec": {"template": {"spec": {"hostIPC": true}}}}`); !isRefused(err) {
		t.Errorf("an older object gets worse: %v", err)
	}
	if err := deployments.Delete(t.Context(), "older", metav1.DeleteOptions{}); err != nil {
		t.Errorf("an older object cannot be deleted: %v", err)
	}
	pods := c.API(t).CoreV1().Pods(c.Namespace)
	pod := podOf(t, c, "plain")
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: c.Image, SecurityContext: &corev1.SecurityContext{Privileged: new(true)},
	}}}
	if _, err := pods.UpdateEphemeralContainers(t.Context(), pod.Name, pod, metav1.UpdateOptions{}); !isRefused(err) {
		t.Errorf("a privileged ephemeral container: %v", err)
	}
}

func TestAdmissionPolicyAdmitsAPodThatIsResumed(t *testing.T) {
	t.Parallel()
	c := unlabelled(t)
	applyPolicy(t, c, `[]`)
	spec := c.Spec("a")
	spec.Pod.Workspace = launcher.Workspace{Keep: true, Size: resource.MustParse("1Gi"), StorageClass: c.Storage(t, 1)}
	harness.Put(t, harness.Launch(t, c.Launcher(), spec), "file", "x")
	if err := c.Launcher().Pause(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	resumed, err := c.Launcher().Resume(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer resumed.Close()
	if got := harness.Get(t, resumed, "file"); got != "x" {
		t.Errorf("the file has %q", got)
	}
}

// The identity is apart from the sandboxes: neither the account's rights there nor a pod
// there reach it.
func TestIdentityInANamespaceOfItsOwn(t *testing.T) {
	t.Parallel()
	c, system := launchertest.NewCluster(t, launcher.Restricted), launchertest.NewCluster(t, launcher.Restricted)
	own := &launcher.Kubernetes{Config: c.Admin, Namespace: c.Namespace, IdentitySecret: system.Namespace + "/" + launcher.DefaultIdentitySecret}
	harness.Put(t, harness.Launch(t, own, c.Spec("a")), "file", "x")
	if _, err := c.API(t).CoreV1().Secrets(system.Namespace).Get(t.Context(), launcher.DefaultIdentitySecret, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if list, err := c.API(t).CoreV1().Secrets(c.Namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("the sandboxes' namespace has %d Secrets: %v", len(list.Items), err)
	}
	again := &launcher.Kubernetes{Config: c.Admin, Namespace: c.Namespace, IdentitySecret: own.IdentitySecret}
	if s := harness.Launch(t, again, c.Spec("a")); s.Created {
		t.Error("another launcher with this identity made another pod")
	}
}
