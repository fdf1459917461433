//go:build !race

package egress

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/internal/recipetest"
)

// TestRecipes runs what users run, with a host that is allowed and with one that is not. These
// are of docs/egress.md.
func TestRecipes(t *testing.T) {
	town := recipetest.Serve(t, nil)
	h := newHouse(t, Options{}, town.Rules()...)
	env := append(h.trust(t, town), "PATH="+recipetest.Node(t)+"/.bin:"+os.Getenv("PATH"), "RUSTUP_HOME="+rustup())
	for _, r := range recipetest.Recipes {
		t.Run(r.Program, func(t *testing.T) {
			needProgram(t, r.Program)
			out, err := recipetest.Run(t.Context(), h.Client, r.Script, r.Host, town.Port, env...)
			if err != nil || strings.TrimSpace(out) != r.Want {
				t.Errorf("%v:\n%s", err, out)
			}
			if got := h.told(r.Host); len(got) == 0 || got[0].Verdict != Allowed {
				t.Errorf("the decisions were %+v", got)
			}
			runDenied(t, h, r, town.Port, env)
		})
	}
}

// runDenied runs a recipe with the host that no rule allows.
func runDenied(t *testing.T, h *house, r recipetest.Recipe, port int, env []string) {
	before, begun := len(h.told(recipetest.Evil)), time.Now()
	out, err := recipetest.Run(t.Context(), h.Client, r.Script, recipetest.Evil, port, env...)
	tries := h.told(recipetest.Evil)[before:]
	t.Logf("another host failed after %v and %d tries", time.Since(begun), len(tries))
	if err == nil || !strings.Contains(out, r.Denied) {
		t.Errorf("another host: %v:\n%s", err, out)
	}
	for _, d := range tries {
		if d.Verdict != Denied || d.Reason != recipetest.Reason {
			t.Errorf("another host: the decision was %+v", d)
		}
	}
	if len(tries) == 0 || len(tries) > r.Tries {
		t.Errorf("another host: the proxy was asked %d times, want %d at most, but once", len(tries), r.Tries)
	}
}

// needProgram fails a test for which the machine has no program. It skips what "make needs" does not
// install, pip and cargo, where they are missing.
func needProgram(t *testing.T, program string) {
	t.Helper()
	_, err := exec.LookPath(program)
	switch {
	case err == nil:
	case program == "pip" || program == "cargo":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

// rustup is where rustup, if there is one, has its programs: below the home, unless it is told.
func rustup() string {
	home, _ := os.UserHomeDir() // without one cargo says what is wrong
	if dir := os.Getenv("RUSTUP_HOME"); dir != "" {
		return dir
	}
	return filepath.Join(home, ".rustup")
}

// Older ones of Node try to resolve the name themselves, which fails at once.
func TestRecipeOfNodeThatIgnoresProxies(t *testing.T) {
	town := recipetest.Serve(t, nil)
	h := newHouse(t, Options{}, town.Rules()...)
	env := append(h.trust(t, town), "NODE_USE_ENV_PROXY=0")
	out, err := recipetest.Run(t.Context(), h.Client, recipetest.NodeFetch, "web.example.com", town.Port, env...)
	if err == nil || !strings.Contains(out, "EAI_AGAIN") {
		t.Errorf("%v:\n%s", err, out)
	}
	if got := h.told("web.example.com"); got != nil {
		t.Errorf("the decisions were %+v", got)
	}
}
