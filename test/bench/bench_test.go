package bench

import (
	"bytes"
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
	dir   = flag.String("results", "", "write what was measured to results.json, results.svg and results.md in `DIR`")
	check = flag.Bool("check", false, "fail if a target is missed")
	pages = flag.String("page", "", "put the table into `FILE`, a page in Markdown that marks the place")
)

// results collects what the groups measure.
var results report

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.benchtime", "1x") // a row counts its own rounds
	results.Machine = machine()
	code := launchertest.Main(m)
	if err := finish(code == 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// finish prints what was measured, and publishes and checks it if all was.
func finish(ok bool) error {
	if len(results.Rows) == 0 {
		if *check || *dir != "" || flag.Lookup("test.bench").Value.String() != "" {
			return errors.New("nothing was measured: there is no such group, or it failed")
		}
		return nil
	}
	err := results.writeTable(os.Stdout)
	if groups := results.groups(); (*dir != "" || *pages != "") && (!ok || len(groups) != allGroups) {
		return errors.Join(err, fmt.Errorf("nothing is published: of the %d groups there are %q, and all must have passed", allGroups, groups))
	}
	if *dir != "" {
		err = errors.Join(err,
			write("results.json", results.writeJSON),
			write("results.svg", results.writePicture),
			write("results.md", func(w io.Writer) error { _, err := io.WriteString(w, results.markdown(true)); return err }))
	}
	if *pages != "" {
		err = errors.Join(err, replaceTable(*pages, results.markdown(false)))
	}
	if missed := results.missed(); *check && len(missed) > 0 {
		err = errors.Join(err, fmt.Errorf("%d targets were missed:\n%s", len(missed), strings.Join(missed, "\n")))
	}
	return err
}

func write(name string, to func(io.Writer) error) error {
	file, err := os.Create(filepath.Join(*dir, name))
	if err != nil {
		return err
	}
	return errors.Join(to(file), file.Close())
}

// What is around the table in a page.
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

// machine says where it was measured, and beside which programs.
func machine() string {
	model := "unknown processor"
	info, _ := os.ReadFile("/proc/cpuinfo") // elsewhere there is none
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	kernel, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
	return fmt.Sprintf("%d processors (%s), Linux %s, %s; %s, %s, %s", runtime.NumCPU(), model, kernel, runtime.Version(), version("rg"), version("fdfind"), version("grep"))
}

// version returns the first line that a program says of itself.
func version(program string) string {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return "no " + program
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}
