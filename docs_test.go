package podagent_test

import (
	"os/exec"
	"strings"
	"testing"
)

// maxDocLines is how much documentation of a package the author of a host can read
// in an hour. It lies between os/exec (441 lines) and os (1132).
const maxDocLines = 700

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
