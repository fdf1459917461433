package main

import (
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts run this test program as podagent.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"podagent": main, "flood": flood})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"waitfor": waitFor},
	})
}

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

// waitFor repeats a command until it succeeds.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(hung); ts.Exec(args[0], args[1:]...) != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("it never succeeded")
		}
	}
}
