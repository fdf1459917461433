//go:build linux && !race

package launcher_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// onRepository are programs on a clone of this repository, with a change.
var onRepository = program{
	`git clone -q $REPOSITORY . && git fsck --no-progress && git checkout -qb mine
git config user.email me@example.com && git config user.name me && echo 'package fsops' >pkg/fsops/mine.go && git add . && git commit -qm mine
git log --format=%s -1 && git diff --stat HEAD~1 | tail -n 1
go build ./pkg/fsops
make help | grep -c '^  unit '
node -p 'require("./clients/js/package.json").name'
python3 -m compileall -q clients/python && PYTHONPATH=clients/python python3 -c 'import podagent; print(podagent.__name__)'`,
	"mine\n 1 file changed, 1 insertion(+)\n1\npodagent\npodagent",
}

// repositoryErrand is that of a user whose sandbox has a clone of this repository and Go, with the modules and the compiled
// packages of this machine, which it cannot write.
func repositoryErrand(t *testing.T, uid int, level isolation.Level) *errand {
	t.Helper()
	e := &errand{Dir: stageFor(t, uid), UID: uint32(uid), Mode: isolation.Mode(level), Mounts: map[string]string{}}
	of := func(name string) string { return filepath.Join(e.Dir, name) }
	for name, variable := range map[string]string{"go": "GOROOT", "modules": "GOMODCACHE", "compiled": "GOCACHE"} {
		out, err := exec.Command("go", "env", variable).Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(of(name), 0o755); err != nil {
			t.Fatal(err)
		}
		e.Mounts[name] = strings.TrimSpace(string(out))
		e.Readable = append(e.Readable, of(name))
		e.Env = append(e.Env, variable+"="+of(name))
	}
	e.Readable = append(e.Readable, of("repository"))
	// It could not keep an index of packages beside what is compiled.
	e.Env = append(e.Env, "PATH="+of("go")+"/bin:/usr/local/bin:/usr/bin:/bin", "REPOSITORY="+of("repository"),
		"GODEBUG=goindex=0", "GOPROXY=off", "GOTOOLCHAIN=local", "GOFLAGS=-trimpath -tags=grpcnotrace -buildvcs=false", "CGO_ENABLED=0", "GOEXPERIMENT=simd")
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Fatalf("this is no clone of the repository: %v", err)
	}
	for _, args := range [][]string{
		{"git", "clone", "-q", "--bare", "--depth", "1", "file://" + strings.TrimSpace(string(top)), of("repository")},
		{"chown", "-R", strconv.Itoa(uid) + ":" + strconv.Itoa(uid), of("repository")},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	return e
}

// hungRepository is how long the unit tests of a package take at most, on a machine that has much else to do.
const hungRepository = 12 * time.Minute

// failsInside are the tests of package fsops that pass outside alone, with words of docs/isolation.md.
var failsInside = map[isolation.Level]map[string]string{
	isolation.Namespaces: {"TestWatchLimitNamesTheSetting": byNoUsers},
	isolation.Landlock: {
		"TestWatchLimitNamesTheSetting":           byNoUsers,
		"TestArchiveSkipsSpecialFiles":            byNoSockets,
		"TestGrepNeverOpensSpecialFiles":          byNoSockets,
		"TestReadDoesNotWaitForFIFOsAndSockets":   byNoSockets,
		"TestHostileIgnoreFilesAreSkippedAndSaid": byNoProc,
	},
}

const (
	byNoUsers   = "such as user namespaces of their own"
	byNoSockets = "What does not work there: unix sockets"
	byNoProc    = "writes to `/proc`"
)

// tooMany is a test that is not run: it makes half a million files in /dev/shm, and on disk without that.
const tooMany, byTooMany = "TestSearchesOfAHugeDirectoryAreBounded", "in at most 65536 files, as in all sandboxes in namespaces"

var (
	failedTest = regexp.MustCompile(`(?m)^(?:=== FAIL: pkg/fsops|--- FAIL:) (\w+) `)
	testsDone  = regexp.MustCompile(`(?m)^DONE (\d+) tests`)
)

// failedTests returns the names of tests that failed, in the output of "make unit" or "go test".
func failedTests(output string) (names []string) {
	for _, match := range failedTest.FindAllStringSubmatch(output, -1) {
		names = append(names, match[1])
	}
	return names
}

// All unit tests of package fsops pass in a sandbox of an ordinary user, apart from those that fail for this user
// outside, too, such as those that mount.
func TestFsopsTestsPassInside(t *testing.T) {
	for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			e := repositoryErrand(t, ordinaryUser, level)
			e.Time = hungRepository
			e.Scripts = []string{"git clone -q $REPOSITORY . && echo 'package fsops' >pkg/fsops/mine.go && go vet ./pkg/fsops && make unit PKG='./pkg/fsops -skip ^" + tooMany + "'"}
			defer e.start(t)()
			inside := e.outputs[0]
			if done := testsDone.FindStringSubmatch(inside); done == nil || len(done[1]) < len("200") {
				t.Fatalf("%v: %s", e.errs[0], inside)
			}
			failed := failedTests(inside)
			same := failedTests(e.testOutside(t, failed))
			for _, name := range failed {
				if words := failsInside[level][name]; !slices.Contains(same, name) && (words == "" || !strings.Contains(isolationPage(t), words)) {
					_, why, _ := strings.Cut(inside, "=== FAIL: pkg/fsops "+name+" ")
					why, _, _ = strings.Cut(why, "=== FAIL: ")
					t.Errorf("%s fails inside alone: %s", name, why)
				}
			}
			if !strings.Contains(isolationPage(t), byTooMany) {
				t.Errorf("the page does not say why %s cannot pass", tooMany)
			}
			for name := range failsInside[level] {
				if !slices.Contains(failed, name) {
					t.Errorf("%s passes, and the page says that it fails", name)
				}
			}
			t.Logf("%d tests fail outside, too", len(same))
		})
	}
}

// testOutside runs these tests of package fsops outside, as the same user in the same workspace, and returns the output.
func (e *errand) testOutside(t *testing.T, names []string) string {
	t.Helper()
	cmd := e.command(t.Context(), filepath.Join(e.Dir, "go/bin/go"), "test", "-count=1", "-run=^("+strings.Join(names, "|")+")$", "./pkg/fsops")
	cmd.Dir = filepath.Join(e.Dir, "state", podmeta.NameOf("a"), "workspace")
	out, _ := cmd.CombinedOutput() // it fails with them
	return string(out)
}
