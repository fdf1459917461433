//go:build !race

package egress

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
			r.Check(t, h.Client, town.Port, env, func(host string) (decided []string) {
				for _, d := range h.told(host) {
					decided = append(decided, string(d.Verdict)+":"+d.Reason)
				}
				return decided
			})
		})
	}
}

// needProgram fails a test for which the machine has no program. It skips cargo where it is missing,
// since "make needs" does not install it: Debian's is too old for sparse registries.
func needProgram(t *testing.T, program string) {
	t.Helper()
	_, err := exec.LookPath(program)
	switch {
	case err == nil:
	case program == "cargo":
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
