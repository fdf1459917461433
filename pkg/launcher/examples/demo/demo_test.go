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

// TestLocalScripts runs the scripts in testdata/local. Their go command knows only
// the modules of the script and cannot download any. No script may leave a sandbox
// behind.
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

// isolateGo makes the go command of the user with this home use an empty module
// cache and no network. It does so with a file, because a sandbox inherits no
// variables of the host.
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

// TestClusterScripts runs each script in testdata/cluster in its own namespace.
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
