//go:build linux

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// throughAGateway are the scripts of [TestScripts] that also run with the remote backend: what users
// do in a sandbox is the same there. The others are about ids that no gateway takes (completion, cpid), flags
// that it is not asked for (confine, lifecycle, protect), this machine's programs and settings (audit,
// cluster-flags, doctor, errors, gateway, settings), or what [TestMCPThroughAGateway] has (mcp).
var throughAGateway = []string{
	"code", "cp", "detach", "editors", "exec", "execid", "files", "forward", "git", "json", "kill", "killed", "search", "ssh", "stats", "strays", "terminal", "tool", "watch",
}

// TestScriptsThroughAGateway runs these, and the scripts in testdata/remote, with a gateway over the
// local launcher.
func TestScriptsThroughAGateway(t *testing.T) {
	bin, cache := buildPrograms(t), goCache(t)
	scripts, err := filepath.Glob(filepath.Join("testdata", "remote", "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, name := range throughAGateway {
		scripts = append(scripts, filepath.Join("testdata", "script", name+".txtar"))
	}
	p := localScript(t, bin, cache)
	p.Files = scripts
	setUp := p.Setup
	p.Setup = func(env *testscript.Env) error {
		if err := setUp(env); err != nil {
			return err
		}
		vars, end, err := serveGateway(bin, env.WorkDir, env.Vars)
		env.Defer(end)
		env.Vars = append(env.Vars, vars...)
		return err
	}
	testscript.Run(t, p)
}

// serveGateway serves a gateway over the local launcher until end is called, and returns the variables
// with which the orchestrator uses it. Its token is in dir.
func serveGateway(bin, dir string, env []string) (vars []string, end func(), err error) {
	token := filepath.Join(dir, ".token")
	if err := os.WriteFile(token, []byte("0123456789abcdef"), 0o600); err != nil {
		return nil, func() {}, err
	}
	cmd := exec.Command(filepath.Join(bin, "orchestrator"), "gateway", "--backend", "local", "--listen", "127.0.0.1:0", "--token-file", token)
	cmd.Env = env
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, func() {}, err
	}
	end = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	return []string{
		"PODAGENT_BACKEND=" + throughGateway, "PODAGENT_IMAGE=",
		"PODAGENT_GATEWAY=" + strings.TrimSpace(url), "PODAGENT_GATEWAY_TOKEN_FILE=" + token,
	}, end, err
}

// remote returns c with the sandboxes of a gateway, of which one is called box.
func (c *cli) remote() *cli {
	c.t.Helper()
	vars, end, err := serveGateway(c.bin, c.t.TempDir(), c.env)
	c.t.Cleanup(end)
	if err != nil {
		c.t.Fatal(err)
	}
	r := &cli{t: c.t, bin: c.bin, env: append(slices.Clip(c.env), vars...)}
	r.run(nil, io.Discard, "up", "box")
	c.t.Cleanup(func() { r.run(nil, io.Discard, "down", "box") })
	return r
}

func TestMCPThroughAGateway(t *testing.T) {
	bin := buildPrograms(t)
	for name, test := range map[string]func(mcpTest){
		"ClientListsAndCallsEveryTool":              mcpTest.listsAndCallsEveryTool,
		"SandboxIsLaunchedByTheFirstCallAndDeleted": mcpTest.launchesSandboxForTheFirstCall,
		"SignalEndsCommandsAndSandboxes":            mcpTest.endsByASignal,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCLIOf(t, bin).remote()
			test(mcpTest{t, c, c.mcpOverStdio})
		})
	}
}
