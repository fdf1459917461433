package e2e

// Git sources in pods.

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestGitSourceInAPod(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	s := harness.Launch(t, c.Launcher(), spec)
	script := `git init -q -b main /tmp/repo && cd /tmp/repo && git config user.name A && git config user.email a@example.com &&
echo one > file && git add file && git commit -qm one && git tag v1 && echo two > file && git commit -qam two`
	if _, errOut, status := harness.Run(t, s, script, nil); status.Code != 0 {
		t.Fatal(errOut)
	}
	spec.Git = &launcher.Git{URL: "/tmp/repo", Ref: "v1"}
	s = harness.Launch(t, c.Launcher(), spec)
	if got := harness.Get(t, s, "file"); got != "one\n" {
		t.Errorf("the tag has %q", got)
	}
	spec.Git.Ref = "main"
	s = harness.Launch(t, c.Launcher(), spec)
	if got := harness.Get(t, s, "file"); got != "two\n" {
		t.Errorf("the branch has %q", got)
	}
	spec.Git.Ref = "none"
	var gitErr *launcher.GitError
	if _, err := c.Launcher().Launch(t.Context(), spec); !errors.As(err, &gitErr) || gitErr.Ref != "none" {
		t.Errorf("a ref that is not there: %v", err)
	}
	harness.Put(t, s, "file", "mine")
	if out, errOut, _ := harness.Run(t, s, "git status --porcelain", nil); out != " M file\n" {
		t.Errorf("git in the workdir says %q, %q", out, errOut)
	}
	spec.Git.Ref = "v1"
	s = harness.Launch(t, c.Launcher(), spec)
	if got := harness.Get(t, s, "file"); got != "mine" {
		t.Errorf("the local edit became %q", got)
	}
}

// Credentials go to the agent's own git, whichever git is first in PATH.
func TestGitCredentialsReachNoProgramOfTheSandboxs(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Env = []string{"PATH=/home/agent/bin:/usr/local/bin:/usr/bin:/bin"}
	s := harness.Launch(t, c.Launcher(), spec)
	script := `mkdir ~/bin && for p in podagent git sh; do printf '#!/bin/bash\n(/bin/cat; /usr/bin/env) >> /home/agent/stolen\n' > ~/bin/$p; done; chmod +x ~/bin/*`
	if _, errOut, status := harness.Run(t, s, script, nil); status.Code != 0 {
		t.Fatal(errOut)
	}
	spec.Git = &launcher.Git{URL: "https://example.invalid/a", Password: "s3cr3tpw"}
	if _, err := c.Launcher().Launch(t.Context(), spec); err == nil {
		t.Error("a checkout from nowhere succeeded")
	} else {
		t.Log(err)
	}
	// The git from PATH belongs to the sandbox, and gets no credentials.
	if out, _, _ := harness.Run(t, s, "/bin/cat /home/agent/stolen", nil); strings.Contains(out, "s3cr3tpw") || !strings.Contains(out, "GIT_") {
		t.Errorf("the programs of the sandbox got %q", out)
	}
}

// privateRepository serves a repository with one file from a pod of its own, with a
// password. It returns the URL, and the sandbox that has the repository in work/.
func privateRepository(t *testing.T, c *launchertest.Cluster, name, password string) (url string, server *launcher.Sandbox) {
	t.Helper()
	s := harness.Launch(t, c.Launcher(), c.Spec("server"))
	harness.PutProgram(t, s, "gitserver")
	script := `git config --global user.name A && git config --global user.email a@example.com && git init -q -b main work && cd work &&
echo one > file && git add file && git commit -qm one && git clone -q --bare . ../served/a.git && git remote add origin ../served/a.git`
	if _, errOut, status := harness.Run(t, s, script, nil); status.Code != 0 {
		t.Fatal(errOut)
	}
	cmd := s.Command(t.Context(), "./gitserver", s.Workdir+"/served", name, password)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	var port int
	if err == nil {
		_, err = fmt.Fscan(out, &port)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + net.JoinHostPort(runningPodOf(t, c, "server").Status.PodIP, strconv.Itoa(port)) + "/a.git", s
}

// Neither the pod's own git nor its hooks and other programs can see credentials
// during a checkout, and no file has them afterwards.
func TestPrivateGitSourceInAPod(t *testing.T) {
	t.Parallel()
	const name, password = "someone", "s3cr3tpw"
	c := launchertest.NewCluster(t, launcher.Restricted)
	url, server := privateRepository(t, c, name, password)
	spec := c.Spec("a")
	spec.Env = []string{"PATH=/home/agent/bin:/usr/local/bin:/usr/bin:/bin"}
	s := harness.Launch(t, c.Launcher(), spec)
	spy := `mkdir ~/bin && cat > ~/bin/git <<'END' && chmod +x ~/bin/git
#!/bin/bash
for p in /proc/[0-9]*; do tr '\0' '\n' <$p/cmdline; tr '\0' '\n' <$p/environ; done >> /home/agent/seen 2>/dev/null
exec /usr/bin/git "$@"
END`
	if _, errOut, status := harness.Run(t, s, spy, nil); status.Code != 0 {
		t.Fatal(errOut)
	}
	pair := base64.StdEncoding.EncodeToString([]byte(name + ":" + password))
	checkClean := func() {
		t.Helper()
		seen := harness.Get(t, s, "/home/agent/seen")
		if !strings.Contains(seen, "GIT_CONFIG") || !strings.Contains(seen, url) {
			t.Errorf("the spy has not seen the checkout: %q", seen)
		}
		secrets := func(cmd *podapi.Cmd) { cmd.Stdin = strings.NewReader(password + "\n" + pair + "\n") }
		script := "grep -rlsaF -f - /workspace /home/agent /tmp /etc /dev/shm /proc/[0-9]*/cmdline /proc/[0-9]*/environ"
		if out, _, status := harness.Run(t, s, script, secrets); out != "" || status.Code == 0 || strings.Contains(seen, password) || strings.Contains(seen, pair) {
			t.Errorf("the credentials are in %q", out)
		}
	}
	spec.Git = &launcher.Git{URL: url, Username: name, Password: password}
	s = harness.Launch(t, c.Launcher(), spec)
	if got := harness.Get(t, s, "file"); got != "one\n" {
		t.Errorf("the clone has %q", got)
	}
	checkClean()

	if _, errOut, status := harness.Run(t, server, "cd work && echo two > file && git commit -qam two && git push -q origin main", nil); status.Code != 0 {
		t.Fatal(errOut)
	}
	s = harness.Launch(t, c.Launcher(), spec)
	if got := harness.Get(t, s, "file"); got != "two\n" {
		t.Errorf("after a fetch it has %q", got)
	}
	checkClean()

	wrong := spec
	wrong.Git = &launcher.Git{URL: url, Username: name, Password: "wr0ngpw"}
	_, err := c.Launcher().Launch(t.Context(), wrong)
	if failed, ok := errors.AsType[*launcher.GitError](err); !ok || failed.URL != url || !strings.Contains(failed.Msg, "I got Basic [REDACTED]") {
		t.Errorf("with another password: %v", err)
	}

	harness.Put(t, s, "file", "mine")
	s = harness.Launch(t, c.Launcher(), spec)
	if got := harness.Get(t, s, "file"); got != "mine" {
		t.Errorf("the local edit became %q", got)
	}
}
