package e2e

// The tests of this file are about the checkpoints of pods, which are in the workspace's volume.

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// findFiles prints all that a command finds in the workdir.
const findFiles = `find . -type f | sort | xargs grep . /dev/null`

// wantRewound changes what is in the workdir, goes back to a checkpoint, and expects what it had.
func wantRewound(t *testing.T, s *launcher.Sandbox, id checkpoint.ID, want string) {
	t.Helper()
	harness.Run(t, s, "rm -rf src; echo broken >kept; echo new >new", nil)
	if done, err := s.Restore(t.Context(), id, checkpoint.RestoreOptions{}); err != nil || done.Changed == 0 {
		t.Errorf("going back: %+v, %v", done, err)
	}
	if out, stderr, _ := harness.Run(t, s, findFiles, nil); out != want {
		t.Errorf("then the workdir has\n%s\nwant\n%s%s", out, want, stderr)
	}
}

func TestCheckpointsOutliveTheContainerAndThePod(t *testing.T) {
	t.Parallel()
	for _, owned := range []bool{false, true} {
		t.Run(map[bool]string{false: "roots", true: "users"}[owned], func(t *testing.T) {
			t.Parallel()
			c := launchertest.OwnCluster(t, launcher.Restricted)
			k, spec := c.Launcher(), keptSpec(t, c, "a")
			spec.Pod.Workspace.Owned = owned
			s := harness.Launch(t, k, spec)
			if info, err := s.Info(t.Context()); err != nil || !slices.Contains(info.Capabilities, "checkpoints") {
				t.Errorf("the agent can %v: %v", info.Capabilities, err)
			}
			harness.Run(t, s, "mkdir src && echo a >src/a && echo 1 >kept && ln -s a src/link && ln kept same", nil)
			const want = "./kept:1\n./same:1\n./src/a:a\n"
			first, err := s.Checkpoint(t.Context(), checkpoint.CreateOptions{Name: "first"})
			if err != nil || len(first.LeftOut) > 0 {
				t.Fatalf("%+v, %v", first, err)
			}
			wantRewound(t, s, first.ID, want)
			boot := harness.BootOf(t, s)
			c.KillAgent(t, podUID(t, s))
			harness.Await(t, "the next agent", func() bool {
				info, err := s.Info(t.Context())
				return err == nil && info.BootID != boot
			})
			wantRewound(t, s, first.ID, want)
			pause(t, k, s)
			if s, err = k.Resume(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			wantRewound(t, s, first.ID, want)
			list, err := s.Checkpoints(t.Context())
			if err != nil || len(list) != 4 || list[0].Name != "first" {
				t.Errorf("%+v, %v", list, err)
			}
			terminate(t, k, "a")
		})
	}
}

// Neither a command that looks through the workdir nor glob and grep find the store, and other volumes of the
// pod need not be kept for it.
func TestCheckpointsOfAPodAreOutOfTheWay(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.ReadOnlyRoot = true
	s := harness.Launch(t, c.Launcher(), spec)
	harness.Put(t, s, "file", "kept")
	first, err := s.Checkpoint(t.Context(), checkpoint.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if out, _, _ := harness.Run(t, s, "find . -mindepth 1", nil); out != "./file\n" {
		t.Errorf("the workdir has %q", out)
	}
	var found []string
	for m, err := range s.Glob(t.Context(), "**", fsops.GlobOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, m.Path)
	}
	for r, err := range s.Grep(t.Context(), "kept|podpack", fsops.GrepOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, r.Path)
	}
	if !slices.Equal(found, []string{"file", "file"}) {
		t.Errorf("glob and grep find %q", found)
	}
	wantRewound(t, s, first.ID, "./file:kept\n")
	if _, err := s.Restore(t.Context(), first.ID, checkpoint.RestoreOptions{Paths: []string{"../.podagent"}}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a path outside: %v", err)
	}
	// Whoever can write to the workdir can write to the store, too. It is noticed.
	const spoil = `cd /.podagent/checkpoints && find . -type f -exec sh -c 'chmod u+w "$1"; echo x >"$1"' - {} \;`
	if _, stderr, status := harness.Run(t, s, spoil, nil); !status.Success() {
		t.Fatalf("%v: %s", status, stderr)
	}
	harness.Put(t, s, "file", "changed")
	if _, err := s.Restore(t.Context(), first.ID, checkpoint.RestoreOptions{}); err == nil || harness.Get(t, s, "file") != "changed" {
		t.Errorf("going back to what was changed: %v", err)
	}
}

// asOfBefore makes the claim of a sandbox that is paused one of an older version, and launches it.
func asOfBefore(t *testing.T, c *launchertest.Cluster, k *launcher.Kubernetes, spec launcher.Spec) *launcher.Sandbox {
	t.Helper()
	patch := `{"metadata": {"annotations": {` + strings.Join([]string{
		`"` + podmeta.AnnotationFilesIn + `": null`, `"` + podmeta.AnnotationFilesOf + `": null`, `"` + podmeta.AnnotationForm + `": null`,
	}, ", ") + `}}}`
	claims := c.API(t).CoreV1().PersistentVolumeClaims(c.Namespace)
	if _, err := claims.Patch(t.Context(), podmeta.NameOf(spec.ID), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s := harness.Launch(t, k, spec)
	if _, stderr, status := harness.Run(t, s, "rm -r files checkpoints", nil); !status.Success() {
		t.Fatalf("%v: %s", status, stderr)
	}
	return s
}

func TestClaimOfBeforeHasNoCheckpoints(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, spec := c.Launcher(), keptSpec(t, c, "a")
	pause(t, k, harness.Launch(t, k, spec))
	s := asOfBefore(t, c, k, spec)
	harness.Put(t, s, "file", "kept")
	_, err := s.Checkpoint(t.Context(), checkpoint.CreateOptions{})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a checkpoint: %v", err)
	}
	pause(t, k, s)
	if s, err = k.Resume(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	wantKept(t, s)
	terminate(t, k, "a")
}
