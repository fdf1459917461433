package launcher

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

func TestWayIsTheOptionsOrElseTheRuntimeClasss(t *testing.T) {
	for _, tt := range []struct {
		option Connection
		class  string
		want   Connection
	}{
		{"", "", ByPortForward},
		{"", "nvidia", ByPortForward},
		{"", "gvisor", ByExec},
		{"", "runsc-debug", ByExec},
		{"", "kata-qemu", ByExec},
		{ByPortForward, "gvisor", ByPortForward},
		{ByAddress, "kata", ByAddress},
		{ByExec, "", ByExec},
	} {
		pod := &corev1.Pod{}
		if tt.class != "" {
			pod.Spec.RuntimeClassName = &tt.class
		}
		if got := (&cluster{connection: tt.option}).connectionTo(pod); got != tt.want {
			t.Errorf("with %q and RuntimeClass %q it is %s, want %s", tt.option, tt.class, got, tt.want)
		}
	}
}

func TestAgentListensOnItsPodsAddressOnlyIfItWasMadeSo(t *testing.T) {
	identity, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	pod := manifest(&Spec{ID: "a"}, "ns", []wire.AuthorizedKey{identity.AuthorizedKey()}, time.Now())
	listen := func() (text string, before []string) {
		for _, v := range pod.Spec.Containers[0].Env {
			if v.Name == listenVariable {
				return v.Value, before
			}
			before = append(before, v.Name)
		}
		return "", nil
	}
	if got, _ := listen(); got != "tcp:127.0.0.1:7463" || listensOnAddress(pod) {
		t.Errorf("by default it listens on %s, and %v on the address", got, listensOnAddress(pod))
	}
	listenOnAddress(pod)
	got, before := listen()
	if got != "tcp:127.0.0.1:7463,tcp:[$(PODAGENT_POD_IP)]:7463" || !listensOnAddress(pod) {
		t.Errorf("it listens on %s, and %v on the address", got, listensOnAddress(pod))
	}
	// Kubernetes puts in only what comes before.
	if last := before[len(before)-1]; !cmp.Equal(last, podIPVariable) {
		t.Errorf("before it is %s", last)
	}
}
