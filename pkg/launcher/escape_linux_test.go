//go:build linux && !race

package launcher_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// Nothing that is tried by commands (testdata/escape) or by calls of the API leads out of an isolated local
// sandbox, or docs/isolation.md says that its level does not stop it. The same tries lead out where nothing
// isolates, so that each can fail: commands outside of all sandboxes, and calls in a sandbox at the level
// none. All that is outside belongs to the user of the sandbox.
func TestNothingLeavesALocalSandbox(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to be an ordinary user, too")
	}
	users := []escapeUser{{"root", 0, 4242}, {"ordinary", ordinaryUser, 0}}
	results := make([]escapeResults, len(users))
	for i, user := range users {
		results[i] = runEscape(t, user)
	}
	for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		t.Run(string(level), func(t *testing.T) {
			for i, user := range users {
				t.Run(user.name, func(t *testing.T) { results[i].check(t, level, user) })
			}
		})
	}
}

// escapeUser is whose sandboxes are tried.
type escapeUser struct {
	name string
	id   uint32
	// other is another user, whose rights a program may lend.
	other uint32
}

// fewest is how many tries that lead out without isolation there must be at each level.
const fewest = 60

// escapeResults are what came of the tries, by what isolates: the levels, [atOutside] and [atNone].
type escapeResults map[isolation.Level]map[string]*escapeResult

// atOutside is where commands run without any sandbox.
const atOutside isolation.Level = "outside"

// atNone is what isolates nothing.
const atNone = isolation.Level(isolation.Off)

// escapeResult is what came of a try.
type escapeResult struct {
	Kind    string // out, refused, or broken
	Text    string // why
	Arrived bool   // something changed outside, or got there
}

func (r *escapeResult) leads() bool { return r != nil && (r.Kind == "out" || r.Arrived) }

// check compares what came of the tries at a level with what the page says.
func (r escapeResults) check(t *testing.T, level isolation.Level, user escapeUser) {
	tries, controlled := r[level], 0
	for name, within := range tries {
		control := r[atOutside][name]
		if control == nil {
			control = r[atNone][name]
		}
		if control.leads() {
			controlled++
		}
		t.Run(name, func(t *testing.T) {
			t.Logf("without isolation: %+v; within: %+v", *control, *within)
			escapeExceptions[name].check(t, level, user, control, within)
		})
	}
	t.Logf("%d tries, %d of which lead out without isolation", len(tries), controlled)
	if controlled < fewest {
		t.Errorf("these are less than %d", fewest)
	}
}

// isolationPage is docs/isolation.md on one line.
func isolationPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(page)), " ")
}

// runEscape has all tried by a process of the user.
func runEscape(t *testing.T, user escapeUser) (results escapeResults) {
	t.Helper()
	s := stageEscape(t, user)
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.Dir, "program"))
	cmd.Dir, cmd.Stdin = s.Dir, bytes.NewReader(text)
	cmd.Env = []string{roleVariable + "=escapee", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + s.home(), "SECRET=" + s.Secret}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user.id, Gid: user.id}}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &results)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	return results
}
