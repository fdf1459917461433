package podagent_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// maxDocLines is how much documentation of a package the author of a host can read
// in an hour. It lies between os/exec (441 lines) and os (1132).
const maxDocLines = 790

func TestDocumentationOfEachPackageOfHostsIsShort(t *testing.T) {
	for _, name := range []string{"podapi", "launcher", "tools"} {
		out, err := exec.Command("go", "doc", "-all", "./pkg/"+name).Output()
		if err != nil {
			t.Fatalf("go doc of %s: %v", name, err)
		}
		if n := strings.Count(string(out), "\n"); n >= maxDocLines {
			t.Errorf("go doc -all ./pkg/%s prints %d lines, want fewer than %d", name, n, maxDocLines)
		}
	}
}

// ARCHITECTURE.md says who can forge what. SECURITY.md says what that means, for each of
// them.
func TestSecurityHasARowForWhoeverCanForge(t *testing.T) {
	architecture, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	security, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	forgers := regexp.MustCompile(`(?m)^\|[^|]+\| (who may (?:patch|create) [a-z]+)`).FindAllSubmatch(architecture, -1)
	if len(forgers) < 3 {
		t.Fatalf("the table names only %q", forgers)
	}
	for _, f := range forgers {
		if !strings.Contains(string(security), "\n| "+string(f[1])) {
			t.Errorf("SECURITY.md has no row for %q", f[1])
		}
	}
}
