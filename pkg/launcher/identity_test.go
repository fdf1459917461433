package launcher_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
)

func TestIdentityFileIsMadeOnceByManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config", "identity.pem")
	keys := make([]string, 20)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			id, err := launcher.IdentityFile(path)
			if err != nil {
				t.Error(err)
				return
			}
			keys[i] = launcher.CurrentKey(id)
		})
	}
	all.Wait()
	for _, key := range keys {
		if key != keys[0] {
			t.Fatalf("there are two keys: %s and %s", keys[0], key)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("beside it are %v, %v", entries, err)
	}
}

func TestIdentityFileIsInTheUsersConfiguration(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	if _, err := launcher.IdentityFile(""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "podagent", "identity.pem")); err != nil {
		t.Error(err)
	}
}

func TestIdentityFileThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	if _, err := launcher.IdentityFile(good); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		make func(path string) error
		says string
	}{
		"others can read it": {func(path string) error {
			data, err := os.ReadFile(good)
			if err != nil {
				return err
			}
			return os.WriteFile(path, data, 0o640)
		}, "others can get at it (mode 0640): chmod 600 it"},
		"another user's": {func(path string) error {
			data, err := os.ReadFile(good)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(path, data, 0o600), os.Chown(path, 12345, 12345))
		}, "it belongs to user 12345"},
		"garbage":     {func(path string) error { return os.WriteFile(path, []byte("no key"), 0o600) }, "no PEM block"},
		"a directory": {func(path string) error { return os.Mkdir(path, 0o700) }, "not a file"},
	} {
		path := filepath.Join(dir, name)
		if err := tt.make(path); err != nil {
			t.Fatal(err)
		}
		if _, err := launcher.IdentityFile(path); err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
