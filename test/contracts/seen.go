package contracts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// A sight is what a client saw: the outcome of each operation, for each test that walked it.
type sight map[string]map[string]Outcome

// seenFile is where the tests write what a client saw.
func seenFile(dir, contract, client string) string {
	return filepath.Join(dir, "seen", contract, strings.ReplaceAll(client, "/", "+")+".yaml")
}

// readSight returns what a client saw, which is nothing if no test has written it.
func readSight(dir, contract, client string) (sight, error) {
	file := seenFile(dir, contract, client)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return sight{}, nil
	}
	if err != nil {
		return nil, err
	}
	s := sight{}
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// write keeps what a client saw.
func (s sight) write(dir, contract, client string) error {
	text, err := yaml.Marshal(s)
	if err != nil {
		return err
	}
	file := seenFile(dir, contract, client)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte("# Written by the tests: make contracts.\n"), text...), 0o644)
}

// outcome returns how an operation went, or "" if no test walked it. Tests that disagree are an
// error.
func (s sight) outcome(operation string) (Outcome, error) {
	var found Outcome
	for _, outcomes := range s {
		o, ok := outcomes[operation]
		if ok && found != "" && found != o {
			return "", fmt.Errorf("%s: one test saw %q, another one %q", operation, found, o)
		}
		if ok {
			found = o
		}
	}
	return found, nil
}
