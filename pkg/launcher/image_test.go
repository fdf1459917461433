package launcher_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
)

func TestPodNeedsAnImage(t *testing.T) {
	k := &launcher.Kubernetes{Kubeconfig: "/nowhere"}
	launch := func(spec launcher.Spec) error {
		_, err := k.Launch(t.Context(), spec)
		return err
	}
	t.Setenv("PODAGENT_IMAGE", "")
	problem, ok := errors.AsType[*launcher.SpecError](launch(launcher.Spec{ID: "a"}))
	if !ok || problem.Field != "Pod.Image" || !strings.Contains(problem.Msg, "PODAGENT_IMAGE") {
		t.Errorf("without an image: %v", problem)
	}
	findings := slices.Collect(k.Preflight(t.Context(), launcher.Spec{ID: "a"}))
	if f := findings[0]; f.Verdict != launcher.Failed || !strings.Contains(f.Err.Error(), "PODAGENT_IMAGE") {
		t.Errorf("Preflight: %+v", f)
	}
	if err := launch(launcher.Spec{ID: "a", Pod: launcher.Pod{Image: "image"}}); !isAboutTheKubeconfig(err) {
		t.Errorf("with an image: %v", err)
	}
	t.Setenv("PODAGENT_IMAGE", "image")
	if err := launch(launcher.Spec{ID: "a"}); !isAboutTheKubeconfig(err) {
		t.Errorf("with one in the environment: %v", err)
	}
	t.Setenv("PODAGENT_IMAGE", "an image")
	if problem, ok := errors.AsType[*launcher.SpecError](launch(launcher.Spec{ID: "a"})); !ok || problem.Field != "Pod.Image" {
		t.Errorf("with a bad one in the environment: %v", problem)
	}
}

// isAboutTheKubeconfig reports whether a launch got as far as to look for a cluster.
func isAboutTheKubeconfig(err error) bool {
	return err != nil && !errors.As(err, new(*launcher.SpecError)) && strings.Contains(err.Error(), "kubeconfig")
}
