package e2e

// Two versions side by side, through their command lines: today's, and the last one before pools.
// docs/compatibility.md says what holds between them, and what does not.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// oldCommit is the last version before pools.
const oldCommit = "e63ecd0"

// oldAgentImage has the agent of that version, and nothing else.
const oldAgentImage = "podagent.test/agent:" + oldCommit

func TestVersionsSideBySide(t *testing.T) {
	t.Parallel()
	if os.Getenv(launchertest.KubeconfigEnv) != "" {
		t.Skip("the old agent's image can only be loaded into the cluster of \"make cluster\"")
	}
	programs := buildOld(t)
	loadOldAgent(t, filepath.Join(programs, "podagent"))
	newPath := harness.ProgramFile(t, "cmd/orchestrator")
	for name, test := range map[string]func(t *testing.T, c *launchertest.Cluster, before, now orchestrator){
		"the new one uses a sandbox of the old one": testSandboxOfAnother,
		"the old one uses a sandbox of the new one": func(t *testing.T, c *launchertest.Cluster, before, now orchestrator) {
			testSandboxOfAnother(t, c, now, before)
		},
		"a launch with a pool adopts the pod of the old one": testPoolMeetsOldPod,
		"the old one does not find a pod out of a pool":      testOldMeetsPooledPod,
		"the old one lists, reaps and gives keys to it":      testOldSelectsPooledPod,
		"the old one does not find files out of a pool":      testOldMeetsPooledFiles,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted)
			env := append(os.Environ(), "PODAGENT_BACKEND=kubernetes", "KUBECONFIG="+c.WriteKubeconfig(t), "PODAGENT_IMAGE="+c.Image,
				"XDG_CONFIG_HOME="+t.TempDir()) // it has the identity that they share
			now := orchestrator{"the new one", newPath, env}
			before := orchestrator{"the old one", filepath.Join(programs, "orchestrator"), append(slices.Clone(env), "PODAGENT_AGENT_IMAGE="+oldAgentImage)}
			test(t, c, before, now)
		})
	}
}

// testSandboxOfAnother uses a sandbox, all its life, by another version than that which made it.
// Its agent is of the version that made it.
func testSandboxOfAnother(t *testing.T, c *launchertest.Cluster, maker, user orchestrator) {
	kept := []string{"a", "--keep-workspace", "--storage-class", c.Storage(t, 1), "--workspace-size", "1Gi", "--lifetime", "1h"}
	made := maker.up(t, kept...)
	maker.ok(t, "made\n", "put", "a", "first")
	old := strings.Contains(maker.ok(t, "", "version"), oldCommit)
	if d := user.ok(t, "", "describe", "a"); strings.Contains(d, oldCommit) != old {
		t.Errorf("its agent is not of its maker's version:\n%s", d)
	}
	checkUse(t, user)
	if got := user.up(t, kept...); got.Created || got.Pod != made.Pod {
		t.Errorf("a launch of its id: %+v, after %+v", got, made)
	}
	user.ok(t, "", "extend", "a", "2h")
	user.ok(t, "", "pause", "a")
	for _, o := range []orchestrator{maker, user} {
		if list := o.ok(t, "", "list"); !strings.Contains(list, "paused") {
			t.Errorf("listed\n%s", list)
		}
	}
	user.ok(t, "", "resume", "a")
	checkUse(t, user)
	checkUse(t, maker)
	user.ok(t, "", "down", "a")
	if list := maker.ok(t, "", "list"); strings.Count(list, "\n") != 1 { // the titles
		t.Errorf("listed\n%s", list)
	}
}

// checkUse uses the sandbox that has the file first.
func checkUse(t *testing.T, o orchestrator) {
	t.Helper()
	o.ok(t, "used\n", "put", "a", "second")
	for want, args := range map[string][]string{
		"made\n":          {"cat", "a", "first"},
		"made\nused\n":    {"exec", "a", "--", "cat", "first", "second"},
		"second:1:used":   {"grep", "a", "us.d"},
		"first\nsecond\n": {"glob", "a", "*"},
	} {
		if got := o.ok(t, "", args...); !strings.Contains(got, want) {
			t.Errorf("%s says %q, want %q", args, got, want)
		}
	}
	harness.Await(t, "the list says that the pod runs", func() bool { // it answers before its node has reported that
		return strings.Contains(o.ok(t, "", "list"), "running")
	})
}

func testPoolMeetsOldPod(t *testing.T, c *launchertest.Cluster, before, now orchestrator) {
	pooled(t, c, now)
	made := before.up(t, "a")
	if got := now.up(t, "a", "--pool", harness.PoolName); got.Created || got.Pod != made.Pod {
		t.Errorf("got %+v, want the pod of %+v", got, made)
	}
	if n := harness.SandboxPods(t, c, "a"); n != 1 || len(harness.Waiting(t, c)) != 1 {
		t.Errorf("it has %d pods; %d wait", n, len(harness.Waiting(t, c)))
	}
}

// The old one finds pods by their names. So it does not touch the pod, but a launch of the id
// makes another, which nothing can prevent. The new one goes on with the first, and ends both.
func testOldMeetsPooledPod(t *testing.T, c *launchertest.Cluster, before, now orchestrator) {
	pooled(t, c, now)
	held := now.up(t, "a", "--pool", harness.PoolName)
	now.ok(t, "made\n", "put", "a", "first")
	for _, verb := range [][]string{{"exec", "a", "true"}, {"cat", "a", "first"}, {"describe", "a"}, {"extend", "a", "1h"}, {"pause", "a"}, {"resume", "a"}} {
		if said, err := before.run(t, "", verb...); err == nil || !strings.Contains(said, `no sandbox "a"`) {
			t.Errorf("%s: %v, %s", verb, err, said)
		}
	}
	before.ok(t, "", "down", "a")
	checkUse(t, now)
	for range 2 {
		if second := before.up(t, "a"); !second.Created || second.Pod == held.Pod {
			t.Errorf("a launch of the old one got %+v", second)
		}
		if got := now.up(t, "a"); got.Created || got.Pod != held.Pod {
			t.Errorf("a launch of the new one got %+v, want the pod of %+v", got, held)
		}
		if said, err := before.run(t, "", "cat", "a", "first"); err == nil {
			t.Errorf("the old one uses the pod that it does not know: %s", said)
		}
		if list := now.ok(t, "", "list"); strings.Count(list, "\na ") != 2 {
			t.Errorf("listed\n%s", list)
		}
		before.ok(t, "", "down", "a") // it ends its own
		checkUse(t, now)
	}
	before.up(t, "a")
	now.ok(t, "", "down", "a")
	if n := harness.SandboxPods(t, c, "a"); n != 0 {
		t.Errorf("%d pods stay", n)
	}
}

// What selects pods by their labels finds those out of a pool, too.
func testOldSelectsPooledPod(t *testing.T, c *launchertest.Cluster, before, now orchestrator) {
	pooled(t, c, now)
	held := now.up(t, "a", "--pool", harness.PoolName)
	if list := before.ok(t, "", "list"); !strings.Contains(list, held.Pod) {
		t.Errorf("listed\n%s", list)
	}
	before.ok(t, "", "identity", "rotate")
	now.ok(t, "", "exec", "a", "true")
	if reaped := before.ok(t, "", "reap"); reaped != "" {
		t.Errorf("reaped %s, which is in use", reaped)
	}
	long := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, podmeta.AnnotationHeartbeat, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339Nano))
	if _, err := c.API(t).CoreV1().Pods(c.Namespace).Patch(t.Context(), held.Pod, types.MergePatchType, long, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if reaped := before.ok(t, "", "reap", "--heartbeat-only"); !strings.Contains(reaped, "a") {
		t.Errorf("reaped %q", reaped)
	}
	harness.Await(t, "the end of the pod", func() bool { return harness.SandboxPods(t, c, "a") == 0 })
	if got := now.up(t, "a"); !got.Created {
		t.Errorf("the next launch got %+v", got)
	}
}

// The old one knows the files of a sandbox out of a pool no more than its first pod. The later
// pods have the name by which it finds them, but it does not know that the files are the sandbox's.
func testOldMeetsPooledFiles(t *testing.T, c *launchertest.Cluster, before, now orchestrator) {
	kept := []string{"--keep-workspace", "--storage-class", c.Storage(t, 3), "--workspace-size", "1Gi"}
	pooled(t, c, now, kept...)
	up := append([]string{"a", "--pool", harness.PoolName}, kept...)
	held := now.up(t, up...)
	now.ok(t, "made\n", "put", "a", "first")
	before.ok(t, "", "down", "a")
	checkUse(t, now)
	now.ok(t, "", "pause", "a")
	now.ok(t, "", "resume", "a")
	checkUse(t, before)
	before.ok(t, "", "down", "a")
	if list := now.ok(t, "", "list"); !strings.Contains(list, "paused") {
		t.Errorf("listed\n%s", list)
	}
	if second := before.up(t, append([]string{"a"}, kept...)...); !second.Created || second.Pod == held.Pod {
		t.Errorf("a launch of the old one got %+v", second)
	}
	if got := now.up(t, up...); got.Created || got.Warm {
		t.Errorf("a launch of the new one got %+v, and not the files", got)
	}
	checkUse(t, now)
	now.ok(t, "", "down", "a")
	awaitNothingOf(t, c, "a")
}

// pooled makes a pool of one pod, with these flags.
func pooled(t *testing.T, c *launchertest.Cluster, now orchestrator, flags ...string) {
	t.Helper()
	if err := c.Apply(t.Context(), filepath.Join("..", "..", "deploy", "pools-rbac.yaml")); err != nil {
		t.Fatal(err)
	}
	now.ok(t, "", append([]string{"pool", "create", harness.PoolName, "--size", "1"}, flags...)...)
	harness.AwaitPool(t, c, 1)
}

// orchestrator is a command line of one version.
type orchestrator struct {
	name, path string
	env        []string
}

// run runs a verb, and returns all that it said.
func (o orchestrator) run(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, o.path, args...)
	cmd.Env, cmd.Stdin = o.env, strings.NewReader(input)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	return string(out) + errs.String(), err
}

// ok runs a verb that must succeed.
func (o orchestrator) ok(t *testing.T, input string, args ...string) string {
	t.Helper()
	said, err := o.run(t, input, args...)
	if err != nil {
		t.Fatalf("%s: %s: %v\n%s", o.name, args, err, said)
	}
	return said
}

// launched is what "up -o json" says.
type launched struct {
	Pod           string
	Created, Warm bool
}

func (o orchestrator) up(t *testing.T, args ...string) (l launched) {
	t.Helper()
	said := o.ok(t, "", append([]string{"up", "-o", "json"}, args...)...)
	if err := json.NewDecoder(strings.NewReader(said)).Decode(&l); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return l
}

// buildOld builds the programs of the old version, and returns their directory.
func buildOld(t *testing.T) string {
	t.Helper()
	source, programs := t.TempDir(), t.TempDir()
	root := filepath.Join("..", "..")
	hasCommit := func() error { return exec.Command("git", "-C", root, "cat-file", "-e", oldCommit+"^{commit}").Run() }
	var out []byte
	err := hasCommit()
	if err != nil { // a shallow clone can get the rest of its history
		out, _ = exec.Command("git", "-C", root, "fetch", "--quiet", "--unshallow").CombinedOutput()
		err = hasCommit()
	}
	if err != nil {
		t.Fatalf("the history of this repository lacks commit %s, which this test builds: a clone must not be shallow: %v\n%s", oldCommit, err, out)
	}
	archive := filepath.Join(source, "source.tar")
	must(t, exec.Command("git", "-C", root, "archive", "--output", archive, oldCommit))
	must(t, exec.Command("tar", "-x", "-f", archive, "-C", source))
	modules, err := filepath.Abs(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	// Other tests go on beside this build. With today's modules, most of it is built already.
	build := exec.Command("nice", "go", "build", "-modfile="+modules, "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w -X github.com/podagent/podagent/pkg/podapi/wire.version="+oldCommit,
		"-o", programs+"/", "./cmd/podagent", "./cmd/orchestrator")
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOEXPERIMENT=simd")
	must(t, build)
	return programs
}

// loadOldAgent loads an image of the old agent into the cluster. Launches install the agent from
// it into the pods of the present image.
func loadOldAgent(t *testing.T, agent string) {
	t.Helper()
	dir := t.TempDir()
	files, dockerfile, archive := filepath.Join(dir, "files"), filepath.Join(dir, "Dockerfile"), filepath.Join(dir, "agent.tar")
	must(t, exec.Command("install", "-D", agent, filepath.Join(files, "old")))
	if err := os.WriteFile(dockerfile, []byte("FROM scratch\nCOPY old /usr/local/bin/podagent\nENV PATH=/usr/local/bin\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(filepath.Join("..", "..", "images", "runtime", "build.sh"))
	build.Env = append(os.Environ(), "BASE=", "PACKAGES=", "IMAGE="+oldAgentImage, "OUT="+archive, "DOCKERFILE="+dockerfile, "CONTEXT="+files)
	must(t, build)
	load := exec.Command("go", "run", ".", "load", "--dir", filepath.Join("..", "..", ".cluster"), archive)
	load.Dir = filepath.Join("..", "cluster")
	must(t, load)
}

// must runs a program that must succeed.
func must(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}
