package contracts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Page returns docs/contracts.md. It fails if something is wrong with a row.
func Page() (string, error) {
	dir, err := find()
	if err != nil {
		return "", err
	}
	return page(dir)
}

func page(dir string) (string, error) {
	intro, err := os.ReadFile(filepath.Join(dir, "rows", "intro.txt"))
	if err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(dir, "rows", "*.yaml"))
	if err != nil {
		return "", err
	}
	tests, err := testsIn(filepath.Join(dir, "..", ".."))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("<!-- Written by make generate, from test/contracts. -->\n" + string(intro))
	var problems []error
	for _, file := range files {
		c, err := load(dir, strings.TrimSuffix(filepath.Base(file), ".yaml"))
		if err != nil {
			return "", err
		}
		if err := c.write(&b, dir, tests); err != nil {
			problems = append(problems, err)
		}
	}
	return b.String(), errors.Join(append(problems, unknownSights(dir))...)
}

// write adds the contract to the page.
func (c *Contract) write(b *strings.Builder, dir string, tests map[string]bool) error {
	sights := make([]sight, len(c.Clients))
	var problems []error
	for i, client := range c.Clients {
		s, err := readSight(dir, c.Name, client.Name)
		problems = append(problems, err, c.rowsFor(s, client.Name), missing(s, tests))
		sights[i] = s
	}
	fmt.Fprintf(b, "\n## %s\n", c.Title)
	paragraph(b, c.Text)
	paragraph(b, c.walked())
	for _, s := range c.Sections {
		if s.Title != "" {
			fmt.Fprintf(b, "\n### %s\n", s.Title)
		}
		paragraph(b, s.Text)
		problems = append(problems, c.table(b, s.Rows, sights))
		paragraph(b, s.After)
	}
	return errors.Join(problems...)
}

func paragraph(b *strings.Builder, text string) {
	if text = strings.TrimSpace(text); text != "" {
		b.WriteString("\n" + text + "\n")
	}
}

// walked says which clients are walked, and when.
func (c *Contract) walked() string {
	var each, full []string
	for _, client := range c.Clients {
		switch {
		case client.Full:
			full = append(full, client.shown())
		default:
			each = append(each, client.shown())
		}
	}
	text := "Tested by `make test`: " + strings.Join(each, ", ") + "."
	if len(full) > 0 {
		text += " By `make test-all`, too: " + strings.Join(full, ", ") + "."
	}
	return text
}

func (c Client) shown() string {
	if strings.Contains(c.Name, "@") {
		return "`" + c.Name + "`"
	}
	return c.Name
}

// column is the heading of the client's column: its version, if all clients are versions of one
// package.
func (c *Contract) column(client Client) string {
	name, version, ok := cutVersion(client.Name)
	alone := !slices.ContainsFunc(c.Clients, func(o Client) bool {
		other, _, versioned := cutVersion(o.Name)
		return versioned && other != name
	})
	if ok && alone {
		return version
	}
	return client.Name
}

// cutVersion splits PACKAGE@VERSION. The package may begin with an @, too.
func cutVersion(client string) (name, version string, ok bool) {
	i := strings.LastIndexByte(client, '@')
	if i <= 0 {
		return client, "", false
	}
	return client[:i], client[i+1:], true
}

// table adds the table of a section.
func (c *Contract) table(b *strings.Builder, rows []Row, sights []sight) error {
	heads := []string{"operation", "call"}
	for _, client := range c.Clients {
		heads = append(heads, c.column(client))
	}
	heads = append(heads, "how")
	fmt.Fprintf(b, "\n| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	var problems []error
	for _, row := range rows {
		cells := []string{row.Operation, row.Call}
		var outcomes []Outcome
		for _, s := range sights {
			outcome, err := s.outcome(row.name())
			problems = append(problems, err)
			outcomes = append(outcomes, outcome)
			cells = append(cells, outcome.shown())
		}
		problems = append(problems, c.wrong(row, outcomes))
		cells = append(cells, strings.Join(strings.Fields(row.How), " "))
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
	return errors.Join(problems...)
}

func (o Outcome) shown() string {
	if o == Absent {
		return "–"
	}
	return string(o)
}

// wrong says what is wrong with a row, given how its operation went with each client.
func (c *Contract) wrong(row Row, outcomes []Outcome) error {
	has := func(o Outcome) bool { return slices.Contains(outcomes, o) }
	switch {
	case !has(Works) && !has(Differs) && !has(NotServed):
		return fmt.Errorf("%s: no test shows %q", c.Name, row.name())
	case row.How == "" && (has(Differs) || has(NotServed)):
		return fmt.Errorf("%s: the row of %q does not say how it differs, or what a client sees", c.Name, row.name())
	}
	return nil
}

// rowsFor fails if a client saw an operation that has no row, or an outcome that there is not.
func (c *Contract) rowsFor(s sight, client string) error {
	var problems []error
	for test, outcomes := range s {
		for operation, outcome := range outcomes {
			if c.row(operation) == nil {
				problems = append(problems, fmt.Errorf("%s: %s saw %q by %s, which has no row", c.Name, test, operation, client))
			}
			if !outcome.known() {
				problems = append(problems, fmt.Errorf("%s: %s saw by %s: there is no outcome %q", c.Name, test, client, outcome))
			}
		}
	}
	return errors.Join(problems...)
}

// missing fails if a test that saw something is gone.
func missing(s sight, tests map[string]bool) error {
	for test := range s {
		if !tests[test] {
			return fmt.Errorf("there is no test %s any more: make contracts", test)
		}
	}
	return nil
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testsIn returns the names of the tests below a directory.
func testsIn(root string) (map[string]bool, error) {
	tests := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (name[0] == '.' || name == "node_modules"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, match := range testFunc.FindAllSubmatch(text, -1) {
			tests[string(match[1])] = true
		}
		return err
	})
	return tests, err
}

// unknownSights fails if there is a file of what a client saw that is no contract's.
func unknownSights(dir string) error {
	known := map[string]bool{}
	rows, err := filepath.Glob(filepath.Join(dir, "rows", "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range rows {
		c, err := load(dir, strings.TrimSuffix(filepath.Base(file), ".yaml"))
		if err != nil {
			return err
		}
		for _, client := range c.Clients {
			known[seenFile(dir, c.Name, client.Name)] = true
		}
	}
	var problems []error
	err = filepath.WalkDir(filepath.Join(dir, "seen"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !known[path] {
			problems = append(problems, fmt.Errorf("%s is of no client of a contract", path))
		}
		return err
	})
	return errors.Join(append(problems, err)...)
}
