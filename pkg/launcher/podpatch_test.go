package launcher

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A quantity is the same however it was written, and however it is kept.
func TestPatchBesideAWorkspaceOfAnySize(t *testing.T) {
	printed := resource.MustParse("8Gi")
	_ = printed.String() // which it keeps
	for _, size := range []resource.Quantity{
		printed, resource.MustParse("1.5Gi"), resource.MustParse("1024Mi"), *resource.NewQuantity(3<<30, resource.BinarySI),
	} {
		spec := &Spec{ID: "a", Pod: Pod{Workspace: Workspace{Size: size}, Patch: []byte("metadata: {annotations: {a: b}}")}}
		if err := spec.checkPatch(); err != nil {
			t.Errorf("%s: %v", &size, err)
		}
	}
	spec := &Spec{ID: "a", Pod: Pod{Workspace: Workspace{Size: printed}, Patch: []byte("spec: {volumes: [{name: workspace, emptyDir: {sizeLimit: 9Gi}}]}")}}
	if err := spec.checkPatch(); err == nil || !strings.Contains(err.Msg, "spec.volumes[workspace]") {
		t.Errorf("another size: %v", err)
	}
}

func TestEnvFromWhoseVariablesAreNoSettings(t *testing.T) {
	for prefix, ok := range map[string]bool{"DB_": true, "PODS_": true, "": false, "P": false, "POD": false, "PODAGENT_": false, "PODAGENT_X_": false} {
		for list, container := range map[string]string{"containers": containerName, "initContainers": "install"} {
			patch := "spec: {" + list + ": [{name: " + container + ", envFrom: [{prefix: '" + prefix + "', secretRef: {name: x}}]}]}"
			spec := &Spec{ID: "a", Pod: Pod{AgentImage: "agent", Patch: []byte(patch)}}
			want := "spec." + list + "[" + container + "].envFrom[0]"
			if err := spec.checkPatch(); ok && err != nil || !ok && (err == nil || !strings.Contains(err.Msg, want)) {
				t.Errorf("%q in %s: %v", prefix, list, err)
			}
		}
	}
	spec := &Spec{ID: "a", Pod: Pod{Patch: []byte("spec: {containers: [{name: side, image: x, envFrom: [{secretRef: {name: x}}]}]}"), Profile: "privileged"}}
	if err := spec.checkPatch(); err != nil {
		t.Errorf("another container: %v", err)
	}
}

// A merge puts the containers of a patch first.
func TestListenerOfAPodWhosePatchAddsAContainer(t *testing.T) {
	pod, err := patched(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: containerName, Env: []corev1.EnvVar{{Name: listenVariable, Value: "tcp:127.0.0.1:1"}},
	}}}}, []byte("spec: {containers: [{name: side, image: x}]}"))
	if err != nil || pod.Spec.Containers[0].Name != "side" {
		t.Fatalf("%+v, %v", pod, err)
	}
	listenOnAddress(pod)
	if !listensOnAddress(pod) {
		t.Errorf("%+v", pod.Spec.Containers)
	}
	spec := &Spec{ID: "a", Pod: Pod{Patch: []byte("spec: {containers: [{name: agent, env: [{name: PODAGENT_POD_IP, $patch: delete}]}]}")}}
	if err := spec.checkPatch(); err == nil || !strings.Contains(err.Msg, "env[PODAGENT_POD_IP]") {
		t.Errorf("a patch without the address: %v", err)
	}
}
