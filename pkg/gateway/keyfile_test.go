package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
)

// eventually returns when ok does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(hung); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what, "did not happen")
		}
	}
}

// keysOf are a file of keys with one for the tenant acme.
func keysOf(token string) string {
	return "tenants:\n  acme:\n    keys:\n    - sha256: " + hashOf(token) + "\n"
}

// secretVolume is a directory like that in which kubelet mounts a Secret.
type secretVolume struct {
	*testing.T
	dir string
}

// put makes a version of the Secret the current one, as kubelet does.
func (v secretVolume) put(version, text string, at time.Time) {
	v.Helper()
	dir := filepath.Join(v.dir, ".."+version)
	file := filepath.Join(dir, "keys.yaml")
	next := filepath.Join(v.dir, "..data_tmp")
	old, _ := os.Readlink(filepath.Join(v.dir, "..data"))
	err := errors.Join(
		os.Mkdir(dir, 0o700),
		os.WriteFile(file, []byte(text), 0o600),
		os.Chtimes(file, at, at),
		os.Symlink(filepath.Base(dir), next),
		os.Rename(next, filepath.Join(v.dir, "..data")),
	)
	if old != "" {
		err = errors.Join(err, os.RemoveAll(filepath.Join(v.dir, old)))
	}
	if err != nil {
		v.Fatal(err)
	}
}

func TestMountedSecretIsReadAgain(t *testing.T) {
	t.Parallel()
	v := secretVolume{t, t.TempDir()}
	path, at := filepath.Join(v.dir, "keys.yaml"), time.Now()
	if err := os.Symlink("..data/keys.yaml", path); err != nil {
		t.Fatal(err)
	}
	keys := &gateway.Keys{Path: path}
	knows := func(token string) bool {
		t.Helper()
		_, err := keys.Caller(t.Context(), token)
		if err != nil && !errors.Is(err, gateway.ErrUnknownToken) {
			t.Fatal(err)
		}
		return err == nil
	}
	v.put("a", keysOf("a"), at)
	if !knows("a") || knows("b") {
		t.Fatal("the first version is not what counts")
	}
	v.put("b", keysOf("b"), at) // as large, and as old
	eventually(t, "the second version", func() bool { return knows("b") && !knows("a") })
	// The same file, written in place: nothing but its content tells.
	if err := errors.Join(os.WriteFile(path, []byte(keysOf("c")), 0o600), os.Chtimes(path, at, at)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the change in place", func() bool { return knows("c") && !knows("b") })
}

func TestKeysWithAMistakeLetNobodyInAndTheLogSaysSoOnce(t *testing.T) {
	t.Parallel()
	path, log := filepath.Join(t.TempDir(), "keys.yaml"), &bytes.Buffer{}
	keys := &gateway.Keys{Path: path, Log: slog.New(slog.NewTextHandler(log, nil))}
	for name, text := range map[string]string{
		"no tenants":                   "tenants: {}",
		"no YAML":                      "tenants: [",
		"an unknown field":             "tenants:\n  acme:\n    key: []\n",
		"a digest of two tenants":      keysOf("a") + "  other:\n    keys:\n    - sha256: " + strings.ToUpper(hashOf("a")) + "\n",
		"an account of two tenants":    keysOf("a") + "    serviceAccounts: [x/y]\n  other:\n    serviceAccounts: [x/y]\n",
		"an account without namespace": keysOf("a") + "    serviceAccounts: [y]\n",
		"a rate below zero":            keysOf("a") + "    rate: {requests_per_second: -1}\n",
		"a rate that is no number":     keysOf("a") + "    rate: {requests_per_second: .nan}\n",
		"a burst of no rate":           keysOf("a") + "    rate: {burst: 1}\n",
		"streams below zero":           keysOf("a") + "    streams: -1\n",
		"more than a Secret can hold":  keysOf("a") + strings.Repeat("#", 1<<20),
		"nothing":                      "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		log.Reset()
		var err error
		eventually(t, name, func() bool {
			_, err = keys.Caller(t.Context(), "a")
			return log.Len() > 0
		})
		for range 100 {
			_, again := keys.Caller(context.Background(), "a")
			if again == nil || errors.Is(again, gateway.ErrUnknownToken) || again.Error() != err.Error() {
				t.Fatalf("%s: %v, and then %v", name, err, again)
			}
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 || strings.Contains(log.String(), hashOf("a")) {
			t.Errorf("%s: the log has %d lines: %s", name, lines, log)
		}
	}
	if err := os.WriteFile(path, []byte(keysOf("a")), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "mending", func() bool { _, err := keys.Caller(t.Context(), "a"); return err == nil })
}
