//go:build linux && !race

// Package runtime_test has the tests of the runtime image, and of the page that
// explains how to embed podagent into another image. They build both, and run
// podagent from the archives with the users and entrypoints that the images name.
package runtime_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hung is when a test gives up. A first build makes its base, which takes about a
// minute; meanwhile another build may hold the cache.
const hung = 10 * time.Minute

// otherUser is a user that no image knows.
const otherUser = 12345

// build runs a build script with variables, and returns its output.
func build(t *testing.T, script string, env ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, script)
	cmd.Env = append(cmd.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// mustBuild builds an archive with a script, and unpacks it.
func mustBuild(t *testing.T, script string, env ...string) image {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	if out, err := build(t, script, append(env, "OUT="+archive)...); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return unpack(t, archive)
}

func TestRuntimeImage(t *testing.T) {
	img := mustBuild(t, "./build.sh", "IMAGE=podagent.test/image-test:dev", "PACKAGES=tree", "VERSION=v1.2.3-test")
	if diff := cmp.Diff([]string{"podagent.test/image-test:dev"}, img.names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	want := config{User: "1000:1000", WorkingDir: "/workspace", Entrypoint: []string{"podagent"}, Cmd: []string{"serve"}, Env: img.config.Env}
	if diff := cmp.Diff(want, img.config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	img.owned(t, "/usr/local/bin/podagent", 0, 0o755)
	img.owned(t, "/workspace", 1000, 0o755)
	img.owned(t, "/home/agent", 1000, 0o755)
	img.holdsNothingOfTheMachine(t)
	img.runsPodagent(t)
	for _, command := range []string{"git --version", "bash -c true", "tree --version", "test -s /etc/ssl/certs/ca-certificates.crt"} {
		if out, err := img.command(otherUser, strings.Fields(command)...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", command, err, out)
		}
	}
	if out, _ := img.command(otherUser, "podagent", "version").CombinedOutput(); !strings.Contains(string(out), "v1.2.3-test") {
		t.Errorf("podagent version prints %q", out)
	}
}

func TestReadmeExampleWorksOnAnotherBase(t *testing.T) {
	img := mustBuild(t, "./testdata/busybox.sh")
	if _, err := os.Stat(filepath.Join(img.root, "etc/debian_version")); err == nil {
		t.Error("the base is Debian, but should be another one")
	}
	img.owned(t, "/usr/local/bin/podagent", 0, 0o711) // nobody looks into what cannot be read
	img.runsPodagent(t)
}

func TestOnlyWhatChangedIsBuiltAgain(t *testing.T) {
	dir := t.TempDir()
	dockerfile, archive := filepath.Join(dir, "Dockerfile"), filepath.Join(dir, "image.tar")
	if err := os.WriteFile(dockerfile, []byte("FROM scratch\nCOPY podagent /\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	rebuild := func(version, want string) os.FileInfo {
		out, err := build(t, "./build.sh", "DOCKERFILE="+dockerfile, "OUT="+archive, "IMAGE=podagent.test/scratch-test:dev", "VERSION="+version)
		if err != nil || !strings.Contains(out, want) {
			t.Fatalf("%v: %q is missing in:\n%s", err, want, out)
		}
		info, err := os.Stat(archive)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first, second := rebuild("v1", "is written"), rebuild("v1", "is up to date")
	if !os.SameFile(first, second) || !first.ModTime().Equal(second.ModTime()) {
		t.Error("the unchanged archive was written again")
	}
	if third := rebuild("v2", "is written"); os.SameFile(first, third) {
		t.Error("the archive of another podagent was not written")
	}
}

func TestBaseThatCannotBePulledIsAnError(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "image.tar")
	out, err := build(t, "./build.sh", "OUT="+archive, "BASE=registry.invalid/none:1")
	if err == nil || !strings.Contains(out, "cannot pull the image registry.invalid/none:1 (set by BASE)") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(archive); !os.IsNotExist(err) {
		t.Errorf("there is an archive: %v", err)
	}
}

// owned checks the owner and mode of a file in the image.
func (i image) owned(t *testing.T, name string, uid uint32, perm os.FileMode) {
	t.Helper()
	info, err := os.Stat(filepath.Join(i.root, name))
	if err != nil {
		t.Error(err)
		return
	}
	stat := info.Sys().(*syscall.Stat_t)
	if stat.Uid != uid || stat.Gid != uid || info.Mode().Perm() != perm {
		t.Errorf("%s is %d:%d's with mode %v, want %d:%[4]d with %[5]v", name, stat.Uid, stat.Gid, info.Mode().Perm(), uid, perm)
	}
}

// holdsNothingOfTheMachine checks that the image has nothing from the machine that
// built it.
func (i image) holdsNothingOfTheMachine(t *testing.T) {
	t.Helper()
	for _, name := range []string{"/etc/resolv.conf", "/etc/hostname", "/etc/machine-id"} {
		data, err := os.ReadFile(filepath.Join(i.root, name))
		if err != nil && !os.IsNotExist(err) || len(data) > 0 {
			t.Errorf("%s: %v: %q", name, err, data)
		}
	}
	for _, pattern := range []string{"/var/lib/apt/lists/*", "/var/cache/apt/archives/*.deb", "/etc/apt/apt.conf.d/machine"} {
		if found, _ := filepath.Glob(filepath.Join(i.root, pattern)); len(found) > 0 {
			t.Errorf("%s: %v", pattern, found)
		}
	}
}

// runsPodagent starts the image's command as PID 1, as the image's user and as
// another one, with the variables of a pod. It checks that podagent is healthy, and
// ends when told to.
func (i image) runsPodagent(t *testing.T) {
	t.Helper()
	uid, err := strconv.ParseUint(strings.Split(i.config.User, ":")[0], 10, 32)
	if err != nil || uid == 0 {
		t.Fatalf("the user is %q, want a number that is not root's", i.config.User)
	}
	for _, uid := range []uint32{uint32(uid), otherUser} {
		t.Run(fmt.Sprintf("uid-%d", uid), func(t *testing.T) { i.serves(t, uid) })
	}
}

func (i image) serves(t *testing.T, uid uint32) {
	health := fmt.Sprintf("PODAGENT_HEALTH=unix:@image-test-%d-%d", os.Getpid(), uid)
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	agent := i.command(uid, append(i.config.Entrypoint, i.config.Cmd...)...)
	agent.Env = append(agent.Env, health, "PODAGENT_LISTEN=tcp:127.0.0.1:0", "PODAGENT_AUTHORIZED_KEY=ed25519:"+strings.Repeat("A", 43)+"=")
	agent.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID // makes it PID 1
	stderr, err := agent.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = agent.Process.Kill() }) // its end is awaited below
	defer stop()
	lines := bufio.NewReader(stderr)
	log := awaitLine(lines, "msg=serving")
	probe := i.command(uid, "podagent", "health")
	probe.Env = append(probe.Env, health)
	if out, err := probe.CombinedOutput(); err != nil {
		t.Errorf("podagent health: %v: %s", err, out)
	}
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	log += awaitLine(lines, "") // to its end
	if err := agent.Wait(); err != nil {
		t.Errorf("%v: %v\n%s", agent, err, log)
	}
}
