package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"demo": main}) }

// TestLocalScripts runs the scripts in testdata/local, in which the go command has
// no module but those of the script, and can get none. None may leave a sandbox.
func TestLocalScripts(t *testing.T) {
	agent := launchertest.Local(t).Agent
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "local"),
		Setup: func(env *testscript.Env) error {
			home, state := filepath.Join(env.WorkDir, ".home"), filepath.Join(env.WorkDir, ".state")
			env.Setenv("HOME", home)
			env.Setenv("XDG_STATE_HOME", state)
			env.Setenv("PODAGENT_BIN", agent)
			root, err := filepath.Abs(filepath.Join("..", "..", "..", ".."))
			env.Setenv("ROOT", root)
			env.Defer(func() { nothingIsLeft(t, state) })
			if err != nil {
				return err
			}
			return isolateGo(home, filepath.Join(env.WorkDir, ".modules"), string(cache))
		},
	})
}

// isolateGo has the go command of whoever has this home use an empty module cache
// and no network. A file says so, because a sandbox gets no variables of the host.
func isolateGo(home, modules, cache string) error {
	dir := filepath.Join(home, ".config", "go")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	settings := "GOMODCACHE=" + modules + "\nGOFLAGS=-modcacherw\nGOPROXY=off\nGOCACHE=" + cache
	return os.WriteFile(filepath.Join(dir, "env"), []byte(settings), 0o600)
}

func nothingIsLeft(t *testing.T, state string) {
	l := &launcher.Local{StateDir: filepath.Join(state, "podagent", "local")}
	left, err := l.List(context.Background())
	if err != nil {
		t.Error(err)
	}
	for _, s := range left {
		t.Errorf("sandbox %s is left: %v", s.ID, l.Terminate(context.Background(), s.ID))
	}
}

// TestClusterScripts runs the scripts in testdata/cluster in a namespace of their
// own.
func TestClusterScripts(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	kubeconfig := c.WriteKubeconfig(t)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "cluster"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", kubeconfig)
			env.Setenv("IMAGE", c.Image)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, ".config"))
			return nil
		},
	})
	left, err := c.Launcher().List(t.Context())
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
}
