package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// event is one that a watch of the API server sends.
type event struct {
	Type   string         `json:"type"`
	Object runtime.Object `json:"object"`
}

// api serves lists of objects, and events after them, as the API server does.
type api struct {
	lists  map[string]any // by the resource
	events map[string]chan event
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	w.Header().Set("Content-Type", "application/json")
	answer := json.NewEncoder(w)
	switch query := r.URL.Query(); {
	case query.Get("watch") == "":
		_ = answer.Encode(a.lists[resource])
		return
	case query.Get("sendInitialEvents") != "": // it can only list them
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = answer.Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
		})
		return
	}
	for {
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case e := <-a.events[resource]:
			_ = answer.Encode(e)
		}
	}
}

// newAPI serves the pods and namespaces of the lab, and no policies yet.
func newAPI() *api {
	a := &api{lists: map[string]any{}, events: map[string]chan event{}}
	pods := &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	for _, pod := range labPods {
		pods.Items = append(pods.Items, *pod)
	}
	namespaces := &corev1.NamespaceList{TypeMeta: metav1.TypeMeta{Kind: "NamespaceList", APIVersion: "v1"}}
	for _, namespace := range labNamespaces {
		namespaces.Items = append(namespaces.Items, *namespace)
	}
	policies := &networkingv1.NetworkPolicyList{TypeMeta: metav1.TypeMeta{Kind: "NetworkPolicyList", APIVersion: "networking.k8s.io/v1"}}
	pods.ResourceVersion, namespaces.ResourceVersion, policies.ResourceVersion = "1", "1", "1"
	for resource, list := range map[string]any{"pods": pods, "namespaces": namespaces, "networkpolicies": policies} {
		a.lists[resource], a.events[resource] = list, make(chan event, 1)
	}
	return a
}

func TestAChangeOfTheClusterIsPutInForce(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	server := l.pods[0].listen(t, podAddress(0), 0)
	a := newAPI()
	serving := httptest.NewServer(a)
	t.Cleanup(serving.CloseClientConnections)
	e, err := newEnforcer(l.filter, &rest.Config{Host: serving.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); l.node.do(func() { e.run(ctx) }) }()
	t.Cleanup(func() { cancel(); <-ended })

	policy := policies(t, ingress+"ingress: [{from: [{podSelector: {matchLabels: {app: welcome}}}]}]")[0]
	policy.TypeMeta = metav1.TypeMeta{Kind: "NetworkPolicy", APIVersion: "networking.k8s.io/v1"}
	client := labPods[1].DeepCopy()
	client.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	client.Labels = map[string]string{"app": "welcome"}
	gone := client.DeepCopy()
	gone.Status.Phase = corev1.PodSucceeded
	for _, step := range []struct {
		what, resource string
		event          event
		reached        bool
	}{
		{"the policy", "networkpolicies", event{"ADDED", policy}, false},
		{"the client's label", "pods", event{"MODIFIED", client}, true},
		{"the client's end", "pods", event{"MODIFIED", gone}, false},
		{"the end of the policy", "networkpolicies", event{"DELETED", policy}, true},
	} {
		step.event.Object.(metav1.Object).SetResourceVersion("2")
		a.events[step.resource] <- step.event
		for deadline := time.Now().Add(hung); l.pods[1].reaches(t, server) != step.reached; time.Sleep(gather) {
			if time.Now().After(deadline) {
				t.Fatalf("%s is not in force", step.what)
			}
		}
	}
}
