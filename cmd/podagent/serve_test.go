package main

import (
	"fmt"
	"io"
	"testing"

	"github.com/podagent/podagent/pkg/podapi"
)

func TestKeysOnTheCommandLineReplaceTheEnvironments(t *testing.T) {
	var keys []podapi.AuthorizedKey
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
		want []podapi.AuthorizedKey
	}{
		{nil, keys[:1]},
		{[]string{"--authorized-key", keys[1].String(), "--authorized-key", keys[2].String()}, keys[1:]},
	} {
		config, err := serveConfig(tt.args, io.Discard)
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
	for _, tt := range []struct {
		args      []string
		env, want string
	}{
		{nil, "", "/some/tmp"},
		{nil, "/from/env", "/from/env"},
		{[]string{"--journal-dir", "/given"}, "/from/env", "/given"},
		{[]string{"--journal-dir="}, "/from/env", ""},
	} {
		t.Setenv("PODAGENT_JOURNAL_DIR", tt.env)
		config, err := serveConfig(tt.args, io.Discard)
		if err != nil || config.JournalDir != tt.want {
			t.Errorf("with %q and %q in the environment: %q, %v, want %q", tt.args, tt.env, config.JournalDir, err, tt.want)
		}
	}
}
