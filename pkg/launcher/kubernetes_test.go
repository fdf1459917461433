//go:build linux

package launcher_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// pods returns how many pods of sandboxes stay in the namespace.
func pods(t *testing.T, c *launchertest.Cluster) int {
	t.Helper()
	list, err := c.API(t).CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

func TestLaunchThatFailsDeletesWhatItMade(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	abandon, err := c.Launcher().CreatePod(t.Context(), c.Spec("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Launcher().Heartbeat(t.Context(), "a"); err != nil { // its own, say
		t.Fatal(err)
	}
	if err := abandon(t.Context()); err != nil || pods(t, c) != 0 {
		t.Errorf("%d pods are left: %v", pods(t, c), err)
	}
}

func TestLaunchThatFailsLeavesWhatAnotherAdopted(t *testing.T) {
	for name, adopt := range map[string]func(context.Context, launcher.Launcher, launcher.Spec) (*launcher.Sandbox, error){
		"by Launch": func(ctx context.Context, l launcher.Launcher, spec launcher.Spec) (*launcher.Sandbox, error) {
			return l.Launch(ctx, spec)
		},
		"by Open": func(ctx context.Context, l launcher.Launcher, spec launcher.Spec) (*launcher.Sandbox, error) {
			return l.Open(ctx, spec.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := launchertest.NewCluster(t, launcher.Restricted)
			creator := c.Launcher()
			abandon, err := creator.CreatePod(t.Context(), c.Spec("a"))
			if err != nil {
				t.Fatal(err)
			}
			s, err := adopt(t.Context(), c.Launcher(), c.Spec("a"))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			// The creator's heartbeat comes after the adoption.
			if err := errors.Join(creator.Heartbeat(t.Context(), "a"), abandon(t.Context())); err != nil {
				t.Error(err)
			}
			if _, err := s.Stat(t.Context(), "."); err != nil || pods(t, c) != 1 {
				t.Errorf("%d pods are left: %v", pods(t, c), err)
			}
		})
	}
}
