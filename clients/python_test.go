package clients_test

import (
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/test/contracts"
)

// The backend passes the cases of LangChain's standard tests by Python's standard library alone:
// -I and -S leave out all other packages.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	client, err := filepath.Abs("python")
	if err != nil {
		t.Fatal(err)
	}
	program := "import sys, unittest; sys.path[:0] = ['.', " + `"` + client + `"` + "]; unittest.main(None, argv=['clients', 'standard', 'client', 'checkpoints'])"
	run(t, "testdata/python", serve(t), contracts.Record(t, "deepagents", "Python"), "python3", "-I", "-S", "-B", "-c", program)
}
