package recipetest

import (
	"bufio"
	"io"
	"testing"

	"github.com/podagent/podagent/pkg/podapi"
)

// StartKept starts a command that prints the line "done" when all that it does is under way, and goes on
// until its input ends. It returns the input, and the output until then.
func StartKept(t testing.TB, cmd *podapi.Cmd) (input io.Closer, output []byte) {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for r := bufio.NewReader(stdout); ; {
		line, err := r.ReadBytes('\n')
		if output = append(output, line...); string(line) == "done\n" {
			return stdin, output
		}
		if err != nil {
			t.Fatalf("%v after %s", err, output)
		}
	}
}
