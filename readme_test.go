package podagent_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// block returns the first code block of README.md in a language after its mark.
func block(t *testing.T, language string) string {
	t.Helper()
	return blockAfter(t, "readme_test.go runs this block.", language)
}

func blockAfter(t *testing.T, mark, language string) string {
	t.Helper()
	return blockOf(t, "README.md", mark, language)
}

// blockOf returns the first code block of a page in a language after a mark.
func blockOf(t *testing.T, page, mark, language string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile("(?s)<!-- " + mark + " -->\n```" + language + "\n(.*?)```")
	found := pattern.FindStringSubmatch(string(text))
	if found == nil {
		t.Fatalf("%s has no block of %s to run", page, language)
	}
	return found[1]
}

// programs builds both programs into a directory. It returns an environment that
// finds them there and keeps their state in the test's directory.
func programs(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	build(t, "podagent", filepath.Join(dir, "podagent"))
	build(t, "orchestrator", filepath.Join(dir, "orchestrator"))
	return append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "PODAGENT_BIN="+filepath.Join(dir, "podagent"),
		"XDG_STATE_HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
}

// onCluster returns the environment for programs that work in a cluster.
func onCluster(t *testing.T) []string {
	t.Helper()
	c := launchertest.NewCluster(t, launcher.Restricted)
	return []string{"KUBECONFIG=" + c.WriteKubeconfig(t), "PODAGENT_IMAGE=" + c.Image}
}

func TestReadmeGoRuns(t *testing.T) {
	code := block(t, "go")
	if n := strings.Count(code, "\n"); n > 12 {
		t.Errorf("the library in a dozen lines takes %d", n)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	program := fmt.Sprintf(`package main

import (
	"context"
	"fmt"

	"github.com/podagent/podagent/pkg/launcher"
)

func main() {
	ctx := context.Background()
	if err := example(ctx); err != nil {
		panic(err)
	}
	if list, err := new(launcher.Kubernetes).List(ctx); err != nil || len(list) > 0 {
		panic(fmt.Sprint(list, err))
	}
}

func example(ctx context.Context) error {
%s
}
`, code)
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", file)
	cmd.Env = append(os.Environ(), onCluster(t)...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "hello, world\n") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestReadmeShellRuns(t *testing.T) {
	script := block(t, "sh")
	if n := strings.Count(script, "\n"); n > 10 {
		t.Errorf("the CLI in ten lines takes %d", n)
	}
	env := programs(t)
	t.Run("local", func(t *testing.T) { runReadmeShell(t, script, append(env, "PODAGENT_BACKEND=local")) })
	t.Run("kubernetes", func(t *testing.T) { runReadmeShell(t, script, append(env, onCluster(t)...)) })
}

func runReadmeShell(t *testing.T, script string, env []string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"+hello, sandbox", "hello, sandbox\n", "src/main.go\n", "src/main.go:3:func main() {}", `"reason":"exited"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

// The home has scripts in place of those programs of the page that are no system's. Each says that it ran.
func TestIsolationPageRuns(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"sdk/go/bin/go", ".nvm/bin/node", ".cargo/bin/cargo"} {
		write(program, "#!/bin/sh\necho own $(basename $0) $*; ls $RUSTUP_HOME $GOMODCACHE\n")
	}
	for name, text := range map[string]string{
		"project/main.go": "package main", "project/Makefile": "all:\n\t@echo made\n",
		".rustup/toolchain": "", "go/pkg/mod/module": "", "own-key": "",
	} {
		write(name, text)
	}
	script := "PATH=~/sdk/go/bin:~/.nvm/bin:~/.cargo/bin:$PATH\n"
	for _, last := range []string{"block.", "block too.", "block at last."} {
		script += blockOf(t, "docs/isolation.md", "readme_test.go runs this "+last, "sh")
	}
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script+"echo left:; orchestrator list -o json")
	cmd.Env = append(programs(t), "HOME="+home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{
		"isolation: level ", "own go version\n", "own node --version\n", "own cargo --version\ntoolchain\n", "own go build ./...\nmodule\n", "made\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "own-key") || !strings.HasSuffix(string(out), "left:\n") {
		t.Errorf("the home was read, or sandboxes are left:\n%s", out)
	}
}

func TestReadmeHTTPRuns(t *testing.T) {
	script := blockAfter(t, "readme_test.go runs this block too.", "sh")
	const token = "a-token-of-the-tests"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(programs(t), "PODAGENT_BACKEND=local", "TOKEN="+token)
	const serve = `coproc orchestrator gateway --listen 127.0.0.1:0 --token-file "$0"; gateway=$COPROC_PID
trap 'kill $gateway; wait $gateway || true' EXIT; read -r URL <&"${COPROC[0]}"
`
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", serve+script, file)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{`"id":"job-17","state":"running"`, `"code":0`, `"stdout":"hello\n"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

// builtInImage is the default image of the programs that build makes.
const builtInImage = "registry.example/runtime:1"

// build builds a program as the Makefile does.
func build(t *testing.T, program, path string, env ...string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w -X "+module+"pkg/podapi/wire.version=v1.2.3-test -X "+module+"pkg/launcher.defaultImage="+builtInImage, "-o", path, "./cmd/"+program)
	cmd.Env = append(append(cmd.Environ(), "CGO_ENABLED=0", "GOEXPERIMENT=simd"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}
