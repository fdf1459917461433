package contracts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Update is the environment variable that has the tests write what they see, instead of
// comparing it.
const Update = "PODAGENT_CONTRACTS_UPDATE"

// A Recorder takes down what a test sees of a contract by one client. When the test ends, all of it
// must be what is kept of that. It may be used by several goroutines.
//
// It is a writer for the output of a client that is a program: each line that is a JSON object with
// "operation", which may have an "outcome" other than "works", and a "contract" if the client has
// several, is an operation. All others go to the log of the test.
type Recorder struct {
	t        testing.TB
	contract *Contract
	client   string
	others   []*Recorder

	mu   sync.Mutex
	seen map[string]Outcome
	rest []byte // of a line whose end is yet to come
}

// Record has a test take down what it sees of a contract by a client. A test has at most one
// recorder for a client, its subtests included.
func Record(t testing.TB, contract, client string) *Recorder {
	t.Helper()
	c, err := Load(contract)
	if err != nil {
		t.Fatal(err)
	}
	r := &Recorder{t: t, contract: c, client: client, seen: map[string]Outcome{}}
	if !slices.ContainsFunc(c.Clients, func(c Client) bool { return c.Name == client }) {
		t.Fatalf("rows/%s.yaml has no client %s", contract, client)
	}
	t.Cleanup(r.check)
	return r
}

// Beside has the recorder's lines that name another contract go to that contract's recorder.
func (r *Recorder) Beside(others ...*Recorder) *Recorder {
	r.others = others
	return r
}

// Saw takes down that each of the operations had the outcome.
func (r *Recorder) Saw(outcome Outcome, operations ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, operation := range operations {
		if problem := r.problem(outcome, operation); problem != "" {
			r.t.Error(problem)
			continue
		}
		r.seen[operation] = outcome
	}
}

// problem says what is wrong with the outcome of an operation, if something is.
func (r *Recorder) problem(outcome Outcome, operation string) string {
	before := r.seen[operation]
	switch row := r.contract.row(operation); {
	case row == nil:
		return fmt.Sprintf("rows/%s.yaml has no row for %q", r.contract.Name, operation)
	case !outcome.known():
		return fmt.Sprintf("%s: there is no outcome %q", operation, outcome)
	case before != "" && before != outcome:
		return fmt.Sprintf("%s: it was %q before, and is %q now", operation, before, outcome)
	}
	return ""
}

// Write takes down the operations that a client prints.
func (r *Recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.rest = append(r.rest, p...)
	var lines [][]byte
	for {
		line, rest, ended := bytes.Cut(r.rest, []byte("\n"))
		if !ended {
			break
		}
		lines, r.rest = append(lines, line), rest
	}
	r.mu.Unlock()
	for _, line := range lines {
		r.line(line)
	}
	return len(p), nil
}

func (r *Recorder) line(line []byte) {
	var step struct {
		Contract, Operation string
		Outcome             Outcome
	}
	if err := json.Unmarshal(line, &step); err != nil || step.Operation == "" {
		r.t.Logf("%s", line)
		return
	}
	for _, one := range slices.Concat(r.others, []*Recorder{r}) {
		if step.Contract == "" && one == r || step.Contract == one.contract.Name {
			one.Saw(cmp.Or(step.Outcome, Works), step.Operation)
			return
		}
	}
	r.t.Errorf("%s: nobody takes down what is seen of %s", step.Operation, step.Contract)
}

// updates serializes those who write what they saw.
var updates sync.Mutex

// check compares what was seen with what is kept of this test, or writes it.
func (r *Recorder) check() {
	if r.t.Failed() || r.t.Skipped() {
		return
	}
	dir, err := find()
	if err != nil {
		r.t.Error(err)
		return
	}
	updates.Lock()
	defer updates.Unlock()
	kept, err := readSight(dir, r.contract.Name, r.client)
	if err != nil {
		r.t.Error(err)
		return
	}
	test, _, _ := strings.Cut(r.t.Name(), "/")
	if os.Getenv(Update) != "" {
		kept[test] = r.seen
		if err := kept.write(dir, r.contract.Name, r.client); err != nil {
			r.t.Error(err)
		}
		return
	}
	for _, problem := range differences(kept[test], r.seen) {
		r.t.Errorf("%s by %s: %s (if that is right: make contracts)", r.contract.Name, r.client, problem)
	}
}

// differences says where what was seen is not what is kept.
func differences(kept, seen map[string]Outcome) []string {
	all := maps.Clone(seen)
	maps.Insert(all, maps.All(kept))
	var problems []string
	for _, operation := range slices.Sorted(maps.Keys(all)) {
		if kept[operation] != seen[operation] {
			problems = append(problems, fmt.Sprintf("%s: the test saw %q, and %q is kept", operation, seen[operation], kept[operation]))
		}
	}
	return problems
}
