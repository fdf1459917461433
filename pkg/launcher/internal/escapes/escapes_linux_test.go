//go:build linux && !race

package escapes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// allTries bounds what an escapee does: hundreds of tries, each in a process, at three levels.
const allTries = 15 * time.Minute

// escapeeVariable makes this test program an [escapee].
const escapeeVariable = "PODAGENT_TEST_ESCAPEE"

func TestMain(m *testing.M) {
	if os.Getenv(escapeeVariable) == "" {
		os.Exit(m.Run())
	}
	if err := escape(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Nothing that is tried by commands (testdata) or by calls of the API leads out of an isolated local
// sandbox, or docs/isolation.md says that its level does not stop it. The same tries lead out where nothing
// isolates, so that each can fail: commands outside of all sandboxes, and calls in a sandbox at the level
// none. All that is outside belongs to the user of the sandbox.
func TestNothingLeavesALocalSandbox(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to be an ordinary user, too")
	}
	const ordinaryUser = 12345 // whom no system knows
	users := []account{{"root", 0, 4242}, {"ordinary", ordinaryUser, 0}}
	all := make([]results, len(users))
	for i, user := range users {
		all[i] = leave(t, user)
	}
	for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		t.Run(string(level), func(t *testing.T) {
			for i, user := range users {
				t.Run(user.name, func(t *testing.T) { all[i].check(t, level, user) })
			}
		})
	}
}

// account is whose sandboxes are tried.
type account struct {
	name string
	id   uint32
	// other is another user, whose rights a program may lend.
	other uint32
}

// fewest is how many tries that lead out without isolation there must be at each level.
const fewest = 60

// results are what came of the tries, by what isolates: the levels, [atOutside] and [atNone].
type results map[isolation.Level]map[string]*result

// atOutside is where commands run without any sandbox.
const atOutside isolation.Level = "outside"

// atNone is what isolates nothing.
const atNone = isolation.Level(isolation.Off)

// result is what came of a try.
type result struct {
	Kind    string // out, refused, or broken
	Text    string // why
	Arrived bool   // something changed outside, or got there
}

func (r *result) leads() bool { return r != nil && (r.Kind == "out" || r.Arrived) }

// check compares what came of the tries at a level with what the page says.
func (r results) check(t *testing.T, level isolation.Level, user account) {
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
			exceptions[name].check(t, level, user, control, within)
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
	page, err := os.ReadFile("../../../../docs/isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(page)), " ")
}

// leave has a process of the user try all, and returns what came of it.
func leave(t *testing.T, user account) (all results) {
	t.Helper()
	s := makeStage(t, user)
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), allTries)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.Dir, "program"))
	cmd.Dir, cmd.Stdin = s.Dir, bytes.NewReader(text)
	cmd.Env = []string{escapeeVariable + "=1", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + s.home(), "SECRET=" + s.Secret}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user.id, Gid: user.id}}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &all)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	return all
}
