package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

func TestKeysOnTheCommandLineReplaceTheEnvironments(t *testing.T) {
	var keys []wire.AuthorizedKey
	for range 3 {
		identity, err := podapi.NewIdentity()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, identity.AuthorizedKey())
	}
	t.Setenv("PODAGENT_AUTHORIZED_KEY", keys[0].String())
	for _, tt := range []struct {
		args []string
		want []wire.AuthorizedKey
	}{
		{nil, keys[:1]},
		{[]string{"--authorized-key", keys[1].String(), "--authorized-key", keys[2].String()}, keys[1:]},
	} {
		config, _, err := serveConfig(tt.args, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(config.AuthorizedKeys), fmt.Sprint(tt.want); got != want {
			t.Errorf("with %q the keys are %s, want %s", tt.args, got, want)
		}
	}
}

func TestJournalsAreInTheTemporaryDirectoryUnlessToldOtherwise(t *testing.T) {
	t.Setenv("TMPDIR", "/some/tmp")
	t.Setenv("HOME", "/some/home")
	for _, tt := range []struct {
		args []string
		env  string
		want []string
	}{
		{nil, "", []string{"/some/tmp", "/some/home"}},
		{nil, "/from/env", []string{"/from/env"}},
		{[]string{"--journal-dir", "/given"}, "/from/env", []string{"/given"}},
		{[]string{"--journal-dir="}, "/from/env", nil},
	} {
		t.Setenv("PODAGENT_JOURNAL_DIR", tt.env)
		config, _, err := serveConfig(tt.args, io.Discard)
		if err != nil || strings.Join(config.JournalDirs, " ") != strings.Join(tt.want, " ") {
			t.Errorf("with %q and %q in the environment: %q, %v, want %q", tt.args, tt.env, config.JournalDirs, err, tt.want)
		}
	}
}
