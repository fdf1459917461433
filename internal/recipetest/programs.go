package recipetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

// node has the versions of Node and npm.
var (
	//go:embed node/package.json
	nodePackage []byte
	//go:embed node/package-lock.json
	nodeLock []byte
)

// installTimeout bounds the installation of Node, which takes 15 seconds on an idle machine.
const installTimeout = 10 * time.Minute

// install moves what npm installs to the place that is its name, unless it is there. The headers of
// Node are most of its files, and nobody needs them.
const install = `set -e
exec 9>"$0.lock" && flock 9
[ ! -e "$0" ] || exit 0
npm ci --ignore-scripts --no-audit --no-fund --prefer-offline
rm -rf node_modules/node-linux-*/include node_modules/node-linux-*/share
rm -rf "$0.part"
mv node_modules "$0.part"
mv -T "$0.part" "$0"`

// Node returns a directory with a Node that reads the variables of proxies, whatever the machine has, and
// npm: both are in its .bin. The first call installs them into the user's cache. The directory
// needs nothing outside of it but the C and C++ libraries, so it can be pushed into sandboxes.
func Node(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "podagent-tests", fmt.Sprintf("node-%.8x", sha256.Sum256(nodeLock)))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	from := t.TempDir()
	for name, content := range map[string][]byte{"package.json": nodePackage, "package-lock.json": nodeLock} {
		if err := os.WriteFile(filepath.Join(from, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", install, dir)
	cmd.Dir = from
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm cannot install Node: %v\n%s", err, out)
	}
	return dir
}

// Install writes Node, npm and Go into the workdir of a sandbox, and returns the variables for them.
func Install(t testing.TB, c *podapi.Client, workdir string) (env []string) {
	t.Helper()
	for name, dir := range map[string]string{"node": Node(t), "go": goRoot(t)} {
		if _, err := c.Push(t.Context(), dir, name, podapi.TransferOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return []string{fmt.Sprintf("PATH=%s/node/.bin:%[1]s/go/bin:/usr/local/bin:/usr/bin:/bin", workdir), "GOROOT=" + workdir + "/go"}
}

// goRoot returns a directory with the go command of this machine, in bin, and what it needs for what
// loads modules. It is the GOROOT of that.
func goRoot(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, dir := string(bytes.TrimSpace(out)), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"bin/go": 0o755, "VERSION": 0o644, "go.env": 0o644} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
