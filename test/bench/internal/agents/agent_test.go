package main

import (
	"context"
	"errors"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/podapi"
)

func TestAgentOfAPod(t *testing.T) {
	identity, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "its UID"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Env: []corev1.EnvVar{{Name: "PODAGENT_AUTHORIZED_KEY", Value: identity.AuthorizedKey().String()}},
		}}},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go serveAll(listener, pod)
	dial := func(uid types.UID) *podapi.Client {
		client, err := podapi.Dial(podapi.DialOptions{
			Identity: &identity, PodUID: string(uid),
			Dial: func(context.Context) (net.Conn, error) { return net.Dial("tcp", listener.Addr().String()) },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		return client
	}
	client := dial(pod.UID)
	if info, err := client.Info(t.Context()); err != nil || info.PodUID != string(pod.UID) {
		t.Errorf("the agent is that of pod %q: %v", info.PodUID, err)
	}
	if err := client.Command(t.Context(), "true").Run(); err != nil {
		t.Error(err)
	}
	if _, err := dial("another").Info(t.Context()); !errors.Is(err, podapi.ErrWrongPod) {
		t.Errorf("another pod's agent answered: %v", err)
	}
}

// serveAll answers each connection as the agent of the pod.
func serveAll(listener net.Listener, pod *corev1.Pod) {
	agents := newAgents()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = agents.serve(context.Background(), pod, conn) // its error is the caller's, too
		}()
	}
}
