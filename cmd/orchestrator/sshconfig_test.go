package main

import (
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
