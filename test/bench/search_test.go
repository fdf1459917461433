package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// searched is a large public source tree: 88 MB in 8,600 files.
const searched = "k8s.io/kubernetes@v1.36.3"

// searches are patterns that are searched in different ways. Classes are ASCII only
// in Go, and in rg with --no-unicode.
var searches = []struct {
	name, pattern  string
	fold           bool
	agent, process float64 // the target: how many times faster than rg
}{
	{"a literal", "PodDisruptionBudget", false, 1 / 0.8, 1},
	{"a literal of any case", "poddisruptionbudget", true, 1 / 0.8, 1},
	{"a literal and more", `func New[A-Z]\w+Controller\(`, false, 1 / 0.8, 1},
	{"four literals", "ErrNotImplemented|EndpointSliceMirroring|kubelet_volume_stats|AdmissionReviewVersions", false, 1 / 0.8, 1},
	{"no literal, few matches", `\w{5}\s+\w{5}\s+\w{5}\s+\w{5}\s+\w{5}`, false, 1 / 0.8, 1 / 1.1},
	{"no literal", "[0-9a-f]{40}", false, 1 / 0.8, 1 / 1.1},
}

const searchRounds = 20

// BenchmarkSearch measures searches of all files, and of files that are not
// ignored, on this machine: by a running agent over a unix socket, and by programs
// that are started for each search.
func BenchmarkSearch(b *testing.B) {
	t := searchedTree(b)
	for _, q := range searches {
		flags := []string{"-n", "--no-heading", "--no-unicode", q.pattern, "."}
		ours := []string{"grep", "-n", q.pattern, "."}
		gnu := []string{"-rnIE", q.pattern, "."}
		if q.fold {
			flags, ours, gnu = append([]string{"-i"}, flags...), append(ours, "-i"), append([]string{"-i"}, gnu...)
		}
		flags, ours = append([]string{"-uu"}, flags...), append(ours, "--hidden", "--no-ignore")
		t.checkSame(b, append([]string{"rg"}, flags...), append([]string{t.podagent}, ours...), append([]string{"grep"}, gnu...))
		rg := side{name: "rg", do: t.program("rg", flags...)}
		opts := fsops.GrepOptions{Paths: []string{t.dir}, Hidden: true, NoIgnore: true, IgnoreCase: q.fold}
		agent := side{name: "podagent", do: t.grep(q.pattern, opts)}
		compare(b, "search", "grep for "+q.name+", in an agent", searchRounds, agent, rg).want("rg", q.agent)
		compare(b, "search", "grep for "+q.name+", as a program", searchRounds,
			side{name: "podagent", do: t.program(t.podagent, ours...)}, rg,
		).want("rg", q.process)
		// This is a row of its own because GNU grep leaves the other processors
		// idle for a tenth of a second.
		compare(b, "search", "grep for "+q.name+", beside GNU grep", searchRounds/2, agent,
			side{name: "GNU grep -E", do: t.program("grep", gnu...)})
	}
	t.compareIgnoring(b)
	t.compareFirst(b)
	t.compareGlobs(b)
}

// tree is the tree that is searched, and the agent and program that search it.
type tree struct {
	b             *testing.B
	dir, podagent string
	s             *launcher.Sandbox
}

func searchedTree(b *testing.B) *tree {
	b.Helper()
	for program, of := range map[string]string{"rg": "ripgrep", "fdfind": "fd-find", "grep": "grep", "find": "findutils"} {
		if _, err := exec.LookPath(program); err != nil {
			b.Fatalf("this compares with %s, of Debian's package %s: %v", program, of, err)
		}
	}
	cmd := exec.Command("go", "mod", "download", "-json", searched)
	cmd.Dir = b.TempDir() // outside of this module
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%v: %v: %s", cmd, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		b.Fatal(err)
	}
	return &tree{b, module.Dir, podagentProgram(), launchertest.Sandbox(b)}
}

// program returns a call that starts a program and reads its whole output.
func (t *tree) program(name string, args ...string) func() error {
	return func() error {
		_, err := t.start(name, args...)
		return err
	}
}

// checkSame checks that searches print about as many lines. The counts may differ a
// little, because each program reports binary files in its own way.
func (t *tree) checkSame(b *testing.B, searches ...[]string) {
	b.Helper()
	var lines []int
	for _, s := range searches {
		out, err := t.command(s[0], s[1:]...).Output()
		if err != nil {
			b.Fatalf("%q: %v", s, err)
		}
		lines = append(lines, bytes.Count(out, []byte("\n")))
	}
	if float64(slices.Min(lines)) < 0.98*float64(slices.Max(lines))-2 {
		b.Fatalf("%q print %d lines", searches, lines)
	}
}

func (t *tree) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = t.dir
	cmd.Env = append(cmd.Environ(), "LC_ALL=C") // GNU grep is fastest with this
	return cmd
}

// start runs a program and returns the time until its first output.
func (t *tree) start(name string, args ...string) (first time.Duration, err error) {
	cmd := t.command(name, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewReaderSize(out, 64<<10)
	_, err = lines.Peek(1)
	first = time.Since(begun)
	if err == nil {
		_, err = io.Copy(io.Discard, lines)
	}
	if waited := cmd.Wait(); err == nil {
		err = waited
	}
	return first, err
}

// grep returns a call of the running agent.
func (t *tree) grep(pattern string, opts fsops.GrepOptions) func() error {
	return func() error {
		_, err := t.startGrep(pattern, opts)
		return err
	}
}

func (t *tree) startGrep(pattern string, opts fsops.GrepOptions) (first time.Duration, err error) {
	begun := time.Now()
	for r, err := range t.s.Grep(t.b.Context(), pattern, opts) {
		if err != nil {
			return 0, err
		}
		if first == 0 && r.Kind == fsops.GrepMatch {
			first = time.Since(begun)
		}
	}
	if first == 0 {
		return 0, fmt.Errorf("%q was not found", pattern)
	}
	return first, nil
}

// compareIgnoring applies the rules of .gitignore files.
func (t *tree) compareIgnoring(b *testing.B) {
	for _, q := range searches {
		theirs, ours := []string{"--no-require-git", "-n", "--no-heading", "--no-unicode", q.pattern, "."}, []string{"grep", "-n", q.pattern, "."}
		if q.fold {
			theirs, ours = append([]string{"-i"}, theirs...), append(ours, "-i")
		}
		t.checkSame(b, append([]string{"rg"}, theirs...), append([]string{t.podagent}, ours...))
		rg := side{name: "rg", do: t.program("rg", theirs...)}
		compare(b, "search", "grep for "+q.name+" by ignore rules, in an agent", searchRounds,
			side{name: "podagent", do: t.grep(q.pattern, fsops.GrepOptions{Paths: []string{t.dir}, IgnoreCase: q.fold})}, rg).want("rg", q.agent)
		compare(b, "search", "grep for "+q.name+" by ignore rules, as a program", searchRounds,
			side{name: "podagent", do: t.program(t.podagent, ours...)}, rg).want("rg", q.process)
	}
}

// compareFirst measures the time until the first match.
func (t *tree) compareFirst(b *testing.B) {
	const pattern = "PodDisruptionBudget"
	opts := fsops.GrepOptions{Paths: []string{t.dir}, Hidden: true, NoIgnore: true}
	compare(b, "search", "first match of a literal, in an agent", searchRounds,
		side{name: "podagent", timed: func() (time.Duration, error) { return t.startGrep(pattern, opts) }},
		side{name: "rg", timed: func() (time.Duration, error) { return t.start("rg", "-uu", "-n", "--no-heading", pattern, ".") }},
	).limit("limit", 10)
}

func (t *tree) compareGlobs(b *testing.B) {
	const enough = 1 / 0.6
	agent := side{name: "podagent", do: t.glob}
	process := side{name: "podagent", do: t.program(t.podagent, "glob", "--sort=none", "**/*.go")}
	rg := side{name: "rg --files", do: t.program("rg", "-uu", "--files", "--glob", "*.go")}
	compare(b, "search", "glob **/*.go, in an agent", searchRounds, agent, rg).want(rg.name, enough)
	compare(b, "search", "glob **/*.go, as a program", searchRounds, process, rg).want(rg.name, enough)
	fd := side{name: "fd", do: t.program("fdfind", "--unrestricted", "--extension", "go")}
	compare(b, "search", "glob **/*.go, beside fd", searchRounds, agent, fd).want(fd.name, enough)
	find := side{name: "find", do: t.program("find", ".", "-name", "*.go")}
	compare(b, "search", "glob **/*.go, beside find", searchRounds, agent, find)
}

func (t *tree) glob() error {
	found := 0
	for _, err := range t.s.Glob(t.b.Context(), t.dir+"/**/*.go", fsops.GlobOptions{}) {
		if err != nil {
			return err
		}
		found++
	}
	if found == 0 {
		return fmt.Errorf("nothing was found")
	}
	return nil
}
