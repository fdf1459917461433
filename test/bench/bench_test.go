package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

var (
	writeAll = flag.Bool("publish", false, "write results.json, results.svg and results.md, and the tables of README.md and docs/benchmarks.md")
	check    = flag.Bool("check", false, "fail if a target is missed")
)

// results collects the measurements of all groups.
var results report

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.benchtime", "1x") // each row has its own number of rounds
	results.Machine = machine()
	code := launchertest.Main(m)
	if err := finish(code == 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// finish prints the measurements, and publishes and checks them if asked to.
func finish(ok bool) error {
	if len(results.Rows) == 0 {
		if *check || *writeAll || flag.Lookup("test.bench").Value.String() != "" {
			return errors.New("nothing was measured: there is no such group, or it failed")
		}
		return nil
	}
	err := results.writeTable(os.Stdout)
	if *writeAll {
		err = errors.Join(err, results.publish(ok))
	}
	if missed := results.missed(); *check && len(missed) > 0 {
		err = errors.Join(err, fmt.Errorf("%d targets were missed:\n%s", len(missed), strings.Join(missed, "\n")))
	}
	return err
}

// publish writes the measurements for readers, if all have passed: with those of earlier runs, unless there are some of all
// groups.
func (r *report) publish(ok bool) error {
	if !ok {
		return errors.New("nothing is published: not everything that was to be measured has passed")
	}
	for _, name := range []string{"files", "scale"} {
		if f := flag.Lookup(name); f.Value.String() != f.DefValue {
			return fmt.Errorf("nothing is published: -%s is %s, and not %s", name, f.Value, f.DefValue)
		}
	}
	if len(r.unmeasured()) > 0 {
		old, err := readResults()
		if err != nil {
			return err
		}
		r = r.over(old)
	}
	r.Unmeasured = r.unmeasured()
	root := filepath.Join("..", "..")
	return errors.Join(
		write("results.json", r.writeJSON),
		write("results.svg", r.writePicture),
		write("results.md", func(w io.Writer) error { _, err := io.WriteString(w, r.page()); return err }),
		replaceTable(filepath.Join(root, "docs", "benchmarks.md"), r.markdown(targeted)),
		replaceTable(filepath.Join(root, "README.md"), r.markdown(headline)))
}

// readResults returns the results that are published.
func readResults() (*report, error) {
	data, err := os.ReadFile("results.json")
	if err != nil {
		return nil, err
	}
	r := new(report)
	return r, json.Unmarshal(data, r)
}

func write(name string, to func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(to(file), file.Close())
}

// The marks around the table in a page.
const (
	tableBegin = "<!-- the table of make bench -->\n"
	tableEnd   = "<!-- its end -->\n"
)

// replaceTable puts the table into a page, between its marks.
func replaceTable(page, table string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(tableBegin))
	_, after, ended := bytes.Cut(rest, []byte(tableEnd))
	if !ok || !ended {
		return fmt.Errorf("%s has no place for the table", page)
	}
	return os.WriteFile(page, fmt.Appendf(nil, "%s%s\n%s\n%s%s", before, tableBegin, table, tableEnd, after), 0o644)
}

// machine describes the machine, and the programs that podagent is compared with.
func machine() string {
	model := "unknown processor"
	info, _ := os.ReadFile("/proc/cpuinfo") // Linux only
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	kernel, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
	programs := []string{version("rg", "--version"), version("fdfind", "--version"), version("grep", "--version"), version("git", "--version"), version("restic", "version")}
	return fmt.Sprintf("%d processors (%s), Linux %s, %s; %s", runtime.NumCPU(), model, kernel, runtime.Version(), strings.Join(programs, ", "))
}

// version returns the first line of what a program says of its version.
func version(program, argument string) string {
	out, err := exec.Command(program, argument).Output()
	if err != nil {
		return "no " + program
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}
