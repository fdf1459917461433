package e2e

// Git sources in pods.

import (
	"errors"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

func TestGitSourceInAPod(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	s := launch(t, c.Launcher(), spec)
	script := `git init -q -b main /tmp/repo && cd /tmp/repo && git config user.name A && git config user.email a@example.com &&
echo one > file && git add file && git commit -qm one && git tag v1 && echo two > file && git commit -qam two`
	if _, errOut, status := run(t, s, script, nil); status.Code != 0 {
		t.Fatal(errOut)
	}
	spec.Git = &launcher.Git{URL: "/tmp/repo", Ref: "v1"}
	s = launch(t, c.Launcher(), spec)
	if got := get(t, s, "file"); got != "one\n" {
		t.Errorf("the tag has %q", got)
	}
	spec.Git.Ref = "main"
	s = launch(t, c.Launcher(), spec)
	if got := get(t, s, "file"); got != "two\n" {
		t.Errorf("the branch has %q", got)
	}
	spec.Git.Ref = "none"
	var gitErr *launcher.GitError
	if _, err := c.Launcher().Launch(t.Context(), spec); !errors.As(err, &gitErr) || gitErr.Ref != "none" {
		t.Errorf("a ref that is not there: %v", err)
	}
	put(t, s, "file", "mine")
	if out, errOut, _ := run(t, s, "git status --porcelain", nil); out != " M file\n" {
		t.Errorf("git in the workdir says %q, %q", out, errOut)
	}
	spec.Git.Ref = "v1"
	s = launch(t, c.Launcher(), spec)
	if got := get(t, s, "file"); got != "mine" {
		t.Errorf("the local edit became %q", got)
	}
}

// Credentials go to the agent's own program, whatever the PATH has first.
func TestGitCredentialsReachNoProgramOfTheSandboxs(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Env = []string{"PATH=/home/agent/bin:/usr/local/bin:/usr/bin:/bin"}
	s := launch(t, c.Launcher(), spec)
	script := `mkdir ~/bin && for p in podagent git sh; do printf '#!/bin/bash\n(/bin/cat; /usr/bin/env) >> /home/agent/stolen\n' > ~/bin/$p; done; chmod +x ~/bin/*`
	if _, errOut, status := run(t, s, script, nil); status.Code != 0 {
		t.Fatal(errOut)
	}
	spec.Git = &launcher.Git{URL: "https://example.invalid/a", Password: "s3cr3tpw"}
	if _, err := c.Launcher().Launch(t.Context(), spec); err == nil {
		t.Error("a checkout from nowhere succeeded")
	} else {
		t.Log(err)
	}
	// git was found by the PATH: it is the sandbox's, and has no credentials.
	if out, _, _ := run(t, s, "/bin/cat /home/agent/stolen", nil); strings.Contains(out, "s3cr3tpw") || !strings.Contains(out, "GIT_") {
		t.Errorf("the programs of the sandbox got %q", out)
	}
}
