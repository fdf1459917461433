package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Versions of ssh without the fix of CVE-2023-51385 would have a shell run x'`id`'.podagent.
func TestNoHostIsASandboxWhoseNameAShellMayReadOtherwise(t *testing.T) {
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Fatal(err)
	}
	c := &sshConfig{program: []string{"/bin/false"}, knownHosts: "/dev/null", scope: "podagent-1"}
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(c.block()), 0o600); err != nil {
		t.Fatal(err)
	}
	isSandbox := func(host string) bool {
		// It fails for what this version of ssh takes for no host at all.
		out, _ := exec.CommandContext(t.Context(), "ssh", "-G", "-F", config, "--", host).Output()
		return strings.Contains(string(out), "hostkeyalias "+knownHost+"\n")
	}
	for _, name := range []string{"job-1", "Job_1.x+main", "a"} {
		if !isSandbox(name + sshHost) {
			t.Errorf("%q is no sandbox for ssh", name)
		}
	}
	patterns, _, _ := strings.Cut(c.block(), "\n")
	for _, char := range "'`\\$!;&|<>(){}[]~#%^=,:/ " {
		if isSandbox("x" + string(char) + "y" + sshHost) {
			t.Errorf("a name with %q is a sandbox for ssh", char)
		}
		if !strings.Contains(patterns, ` "!*`+string(char)+`*"`) { // this ssh may refuse it by itself
			t.Errorf("no pattern excludes %q: %s", char, patterns)
		}
	}
}

// "orchestrator code" looks in what ssh says for the ProxyCommand of the block.
func TestTheBlockCountsOnEverySystem(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		c := &sshConfig{program: []string{"/a b/orchestrator"}, knownHosts: "/k", scope: "podagent-1", system: system}
		if want := "\n    ProxyCommand " + c.settled()["proxycommand"] + "\n"; !strings.Contains(c.block(), want) {
			t.Errorf("%s: %q is not in the block:\n%s", system, want, c.block())
		}
	}
	c := &sshConfig{system: "windows"}
	if proxy := c.settled()["proxycommand"]; !strings.HasSuffix(proxy, ` "%n"`) {
		t.Errorf("code looks for %s", proxy)
	}
}

func TestInstallGoesThroughALinkThatLeadsNowhereYet(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	link := filepath.Join(home, ".ssh", "config")
	for _, dir := range []string{".ssh", "dotfiles/ssh"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const target = "../dotfiles/ssh/config"
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := installSSH("Host *.podagent\n"); err != nil {
			t.Fatal(err)
		}
		if to, err := os.Readlink(link); to != target {
			t.Errorf("the link is gone: %q, %v", to, err)
		}
		if text, err := os.ReadFile(filepath.Join(home, "dotfiles/ssh/config")); strings.Count(string(text), "Host ") != 1 {
			t.Errorf("%q, %v", text, err)
		}
	}
	if err := os.RemoveAll(filepath.Join(home, "dotfiles")); err != nil {
		t.Fatal(err)
	}
	if path, err := installSSH(""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("where the link's directory is missing: %q, %v", path, err)
	}
	_ = os.Remove(link)
	if err := os.Symlink("config", link); err != nil {
		t.Fatal(err)
	}
	if path, err := installSSH(""); err == nil {
		t.Errorf("a link to itself: %q", path)
	}
}

// It would break the configuration for all hosts.
func TestAPathThatSSHWouldReadOtherwiseIsRefused(t *testing.T) {
	for path, taken := range map[string]bool{
		"/a b/%h/$x/known": true, `/a"b/known`: false, "/${HOME}/known": false, "/a\nb/known": false, `/a\b/known`: false,
	} {
		c := &sshConfig{program: []string{"/p"}, knownHosts: path, scope: "podagent-1", system: "linux"}
		if err := c.check(); (err == nil) != taken {
			t.Errorf("%q: %v", path, err)
		}
		if !taken {
			continue
		}
		config := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(config, []byte(c.block()), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "ssh", "-G", "-F", config, "a"+sshHost).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "\nuserknownhostsfile "+path+"\n") {
			t.Errorf("%q: %v: %s", path, err, out)
		}
	}
	c := &sshConfig{program: []string{"/p", "--namespace=a\nProxyCommand evil"}, knownHosts: "/k", system: "linux"}
	if c.check() == nil {
		t.Error("a setting may end the line")
	}
}

func TestWordsOfAProxyCommandAreQuotedForTheirSystem(t *testing.T) {
	for _, tt := range []struct{ system, word, want string }{
		{"linux", "/a b/it's", `'/a b/it'\''s'`},
		{"darwin", "%n", `'%n'`},
		{"windows", `C:\Program Files\orchestrator.exe`, `"C:\Program Files\orchestrator.exe"`},
		{"windows", `C:\dir\`, `"C:\dir\\"`},
		{"windows", "it's", `"it's"`},
		{"windows", "%n", `"%n"`},
	} {
		if got := wordFor(tt.system, tt.word); got != tt.want {
			t.Errorf("%q on %s: %s, want %s", tt.word, tt.system, got, tt.want)
		}
	}
}
