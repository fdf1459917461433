package tools_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools"
)

var update = flag.Bool("update", false, "write the golden files anew")

// hung is the time after which something that should have ended counts as hung.
const hung = 2 * time.Minute

func TestMain(m *testing.M) { os.Exit(launchertest.Main(m)) }

// host is a session over a sandbox of the test's own.
type host struct {
	*tools.Session
	t       testing.TB
	sandbox *launcher.Sandbox
	workdir string
	temp    string
	put     func(name, content string)
}

func newHost(t testing.TB, opts tools.Options, all ...tools.Tool) *host {
	t.Helper()
	s := launchertest.Sandbox(t)
	if opts.TempDir == "" {
		opts.TempDir = t.TempDir()
	}
	if all == nil {
		all = tools.Coding()
	}
	return &host{
		Session: tools.New(s, opts, all...), t: t, sandbox: s, workdir: s.Workdir, temp: opts.TempDir,
		put: func(name, content string) {
			t.Helper()
			if _, err := s.Write(t.Context(), name, strings.NewReader(content), fsops.WriteOptions{Parents: true}); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// call makes a call that has no error.
func (h *host) call(name, input string) tools.Result {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), hung)
	defer cancel()
	result, err := h.Call(ctx, name, json.RawMessage(input))
	if err != nil {
		h.t.Fatalf("%s %s: %v", name, input, err)
	}
	return result
}

// text makes a call that is to succeed, and returns its text.
func (h *host) text(name, input string) string {
	h.t.Helper()
	result := h.call(name, input)
	if result.IsError {
		h.t.Fatalf("%s %s: %s", name, input, result.Text())
	}
	return result.Text()
}

// refused makes a call that is to be refused, and returns why.
func (h *host) refused(name, input string) string {
	h.t.Helper()
	result := h.call(name, input)
	if !result.IsError {
		h.t.Fatalf("%s %s is no error: %s", name, input, result.Text())
	}
	return result.Text()
}

// goldenCase is a call of a tool.
type goldenCase struct{ name, input string }

// golden makes calls, and compares what comes back with a file that a person
// can review.
func (h *host) golden(t *testing.T, tool string, cases []goldenCase) {
	t.Helper()
	var transcript strings.Builder
	for _, c := range cases {
		result := h.call(tool, c.input)
		kind := "result"
		if result.IsError {
			kind = "error"
		}
		fmt.Fprintf(&transcript, "# %s\n%s %s\n--- %s\n%s\n\n", c.name, tool, h.stable(c.input), kind, h.stable(result.Text()))
	}
	compareGolden(t, strings.ToLower(tool), transcript.String())
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// stable returns text without what differs from run to run.
func (h *host) stable(text string) string {
	text = strings.ReplaceAll(text, h.workdir, "$WORKDIR")
	text = regexp.MustCompile(regexp.QuoteMeta(h.temp)+`/podagent-\w+`).ReplaceAllString(text, "$$TEMP")
	text = regexp.MustCompile(`x{50,}`).ReplaceAllString(text, "xxx…")
	return uuid.ReplaceAllString(text, "$$ID")
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it anew):\n%s", file, diff)
	}
}

// brief returns as much of a text as a person looks at.
func brief(text string) string {
	const end = 1000
	if len(text) <= 2*end {
		return text
	}
	return text[:end] + "\n[…]\n" + text[len(text)-end:]
}

// has fails if text lacks one of the parts.
func has(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in:\n%s", p, brief(text))
		}
	}
}
