//go:build linux

package agentsandbox_test

// One id stays one object, in whatever order the API server gets the calls of launches with and
// without a pool, and of what undoes and ends them. No controller need act for that.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/internal/interleave"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// operation is something that an orchestrator does with the sandbox "a".
type operation func(ctx context.Context, c *launchertest.Cluster, l *agentsandbox.Launcher) (uid string, err error)

func acquires(pool string, fails bool) operation {
	return func(ctx context.Context, c *launchertest.Cluster, l *agentsandbox.Launcher) (string, error) {
		spec := c.Spec("a")
		spec.Take.Pool, spec.Pod.Patch = pool, []byte(`{"spec": {"schedulerName": "nobody"}}`)
		if pool != "" {
			spec.Pod.Patch = nil
		}
		uid, abandon, err := l.Acquire(ctx, spec)
		if err == nil && fails && abandon != nil {
			return "", abandon(ctx)
		}
		return uid, err
	}
}

var operations = map[string]operation{
	"direct":        acquires("", false),
	"claim":         acquires("missing", false),
	"failed direct": acquires("", true),
	"failed claim":  acquires("missing", true),
	"find": func(ctx context.Context, _ *launchertest.Cluster, l *agentsandbox.Launcher) (string, error) {
		return l.FindUID(ctx, "a")
	},
	"terminate": func(ctx context.Context, _ *launchertest.Cluster, l *agentsandbox.Launcher) (string, error) {
		return "", l.Terminate(ctx, "a")
	},
}

// pairs are the operations that may meet, each with what comes before.
var pairs = []struct{ before, names []string }{
	{nil, []string{"direct", "direct"}},
	{nil, []string{"direct", "claim"}},
	{nil, []string{"direct", "find"}},
	{nil, []string{"failed direct", "claim"}},
	{nil, []string{"direct", "failed claim"}},
	{[]string{"direct"}, []string{"claim", "terminate"}},
	{[]string{"claim"}, []string{"direct", "terminate"}},
}

func TestOneIDStaysOneObjectInEachOrderOfCalls(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	c.InstallAgentSandbox(t)
	if err := c.Apply(t.Context(), filepath.Join("..", "..", "..", "deploy", "agent-sandbox-rbac.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, pair := range pairs {
		t.Run(fmt.Sprintf("%s after %s", pair.names, pair.before), func(t *testing.T) {
			orders, enough := interleave.All(t, 2000, func(s *interleave.Schedule) { run(t, c, pair.before, pair.names, s) })
			t.Logf("%d orders", orders)
			if !enough {
				t.Error("they are not all")
			}
		})
	}
}

// run does what comes before, runs the operations in an order, and checks that one object is left,
// or none.
func run(t *testing.T, c *launchertest.Cluster, before, names []string, s *interleave.Schedule) {
	t.Helper()
	for _, name := range before {
		if _, err := operations[name](t.Context(), c, &agentsandbox.Launcher{Cluster: c.Launcher()}); err != nil {
			t.Fatalf("%s before: %v", name, err)
		}
	}
	uids, errs := make([]string, len(names)), make([]error, len(names))
	for i, name := range names {
		s.Go(func(wrap func(http.RoundTripper) http.RoundTripper) {
			k := c.Launcher()
			k.Config = rest.CopyConfig(k.Config)
			k.Config.Wrap(wrap)
			uids[i], errs[i] = operations[name](t.Context(), c, &agentsandbox.Launcher{Cluster: k})
		})
	}
	s.Run()
	left := objectsLeft(t, c)
	if len(left) > 1 {
		t.Errorf("there are %d objects", len(left))
	}
	ends := false
	for i, name := range names {
		ends = ends || name == "terminate"
		if errs[i] != nil && !errors.Is(errs[i], launcher.ErrNotFound) {
			t.Errorf("%s: %v", name, errs[i])
		}
	}
	for i, name := range names {
		if uids[i] != "" && name != "find" && !ends && (len(left) == 0 || left[0] != uids[i]) {
			t.Errorf("%s has an object that does not stay", name)
		}
	}
	if err := (&agentsandbox.Launcher{Cluster: c.Launcher()}).Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
}

// objectsLeft returns the UIDs of the Sandboxes and claims that are not being deleted.
func objectsLeft(t *testing.T, c *launchertest.Cluster) (uids []string) {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Admin)
	if err != nil {
		t.Fatal(err)
	}
	for group, resource := range map[string]string{"agents.x-k8s.io": "sandboxes", "extensions.agents.x-k8s.io": "sandboxclaims"} {
		gvr := schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: resource}
		list, err := client.Resource(gvr).Namespace(c.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range list.Items {
			if object.GetDeletionTimestamp() == nil {
				uids = append(uids, string(object.GetUID()))
			}
		}
	}
	return uids
}
