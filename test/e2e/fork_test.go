package e2e

// The tests of this file are about sandboxes whose workdir is that of another one.

import (
	"testing"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// forkable is a sandbox with a checkpoint of odd files, which have changed since, and what its forks are to have.
func forkable(t *testing.T, k *launcher.Kubernetes, spec launcher.Spec) (s *launcher.Sandbox, id checkpoint.ID, want string) {
	t.Helper()
	s = harness.Launch(t, k, spec)
	harness.Run(t, s, `mkdir -p src/deep && for i in $(seq 200); do echo $i >src/deep/f$i; done && ln -s deep src/link &&
head -c 3000000 /dev/urandom >large && ln large same && truncate -s 1M holes && chmod 750 src/deep && touch -d 2001-02-03 src/deep/f1`, nil)
	c, err := s.Checkpoint(t.Context(), checkpoint.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want = surveyOf(t, s)
	harness.Run(t, s, "rm -r src && echo changed >large", nil)
	return s, c.ID, want
}

// surveyOf describes what is in the workdir.
func surveyOf(t *testing.T, s *launcher.Sandbox) string {
	t.Helper()
	out, stderr, status := harness.Run(t, s, `find . -mindepth 1 | sort | while read -r f; do stat -c '%n %f %h %s %Y' "$f"; readlink "$f"; done
find . -type f | sort | xargs sha256sum`, nil)
	if !status.Success() {
		t.Fatalf("%v: %s", status, stderr)
	}
	return out
}

func TestForksInOtherPodsAreEqual(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, spec := c.Launcher(), c.Spec("from")
	spec.Env, spec.Labels = []string{"COLOR=blue"}, map[string]string{"team": "a"}
	from, id, want := forkable(t, k, spec)
	like, err := launcher.SpecOf(t.Context(), k, "from")
	if err != nil {
		t.Fatal(err)
	}
	specs := []launcher.Spec{like, like, like}
	specs[0].ID, specs[1].ID, specs[2].ID = "same", "image", "kept"
	specs[1].Pod.Image, specs[1].Pod.AgentImage = launchertest.ProgramsImage, ""
	specs[2].Pod.Workspace = keptSpec(t, c, "kept").Pod.Workspace
	forks, err := launcher.Fork(t.Context(), k, from, id, specs...)
	if err != nil {
		t.Fatal(err)
	}
	for _, fork := range forks {
		if got := surveyOf(t, fork); got != want {
			t.Errorf("%s has\n%s\nwant\n%s", fork.ID, got, want)
		}
		if out, _, _ := harness.Run(t, fork, "echo $COLOR", nil); out != "blue\n" {
			t.Errorf("%s: its environment has %q", fork.ID, out)
		}
		found, err := k.Find(t.Context(), fork.ID)
		if err != nil || found.Labels["team"] != "a" {
			t.Errorf("%s: its labels are %v, %v", fork.ID, found.Labels, err)
		}
	}
	if image := podOf(t, c, "image").Spec.Containers[0].Image; image != launchertest.ProgramsImage {
		t.Errorf("its image is %s", image)
	}
	pause(t, k, forks[2])
	resumed, err := k.Resume(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	if got := surveyOf(t, resumed); got != want {
		t.Errorf("after a pause it has\n%s", got)
	}
	for _, id := range []string{"from", "same", "image", "kept"} {
		terminate(t, k, id)
	}
}

func TestForkTakesAPodOfThePool(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := harness.PoolOf(t, c, 2)
	from, id, want := forkable(t, k, harness.Pooled(c, "from"))
	if !from.Start.Warm {
		t.Fatalf("the first one is cold: %s", from.Start.Cold)
	}
	harness.AwaitPool(t, c, 2)
	like, err := launcher.SpecOf(t.Context(), k, "from")
	if err != nil {
		t.Fatal(err)
	}
	like.ID = "fork"
	forks, err := launcher.Fork(t.Context(), k, from, id, like)
	if err != nil {
		t.Fatal(err)
	}
	if !forks[0].Start.Warm {
		t.Errorf("the fork is cold: %s", forks[0].Start.Cold)
	}
	if got := surveyOf(t, forks[0]); got != want {
		t.Errorf("it has\n%s\nwant\n%s", got, want)
	}
	terminate(t, k, "from")
	terminate(t, k, "fork")
}
