// Package contracts keeps what of other products' APIs podagent serves, as the tests saw it, and
// writes docs/contracts.md from that.
//
// A contract has a file of rows (rows/NAME.yaml), written by hand: its operations, how each differs
// from the product's own, and the clients that tests walk through it. What a client saw of each
// operation is written by the tests (seen/NAME/CLIENT.yaml). A test fails if it sees something
// else ([Record]); "make contracts" writes what they see. "make verify" fails if the page is not
// what these files make, if a row was seen by no test, or if a test saw what has no row.
package contracts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// An Outcome is how an operation went, as a test saw it.
type Outcome string

const (
	// Works says that the operation does what it does at the product's own server.
	Works Outcome = "works"
	// Differs says that it does something else, which its row tells.
	Differs Outcome = "differs"
	// NotServed says that the client sees a refusal, which its row tells.
	NotServed Outcome = "not served"
	// Absent says that this version of the client has no such operation.
	Absent Outcome = "absent"
)

// known reports whether there is such an outcome.
func (o Outcome) known() bool {
	return slices.Contains([]Outcome{Works, Differs, NotServed, Absent}, o)
}

// A Contract is an API of another product.
type Contract struct {
	// Name is that of its files.
	Name string `json:"-"`
	// Title is its heading on the page, and Text what comes below that.
	Title string `json:"title"`
	Text  string `json:"text"`
	// Clients are the clients that tests walk through it, in the order of their columns.
	Clients []Client `json:"clients"`
	// Sections are its operations.
	Sections []Section `json:"sections"`
}

// A Client is one version of a client.
type Client struct {
	// Name says which, such as e2b@2.51.0; HTTP is none but the test itself.
	Name string `json:"name"`
	// Full says that only tests at full size walk it.
	Full bool `json:"full"`
}

// A Section is a table of operations.
type Section struct {
	Title string `json:"title"`
	// Text is above the table, and After below.
	Text  string `json:"text"`
	After string `json:"after"`
	Rows  []Row  `json:"rows"`
}

// A Row is an operation.
type Row struct {
	// Operation is the client's word for it, in Markdown. Tests name it without backticks.
	Operation string `json:"operation"`
	// Call is what the client sends for it, in Markdown.
	Call string `json:"call"`
	// How says in which way it differs, or what the client sees of what is not served.
	How string `json:"how"`
}

// name is what tests call the operation.
func (r Row) name() string { return strings.ReplaceAll(r.Operation, "`", "") }

// Load reads the rows of a contract, in the module that the working directory is in.
func Load(contract string) (*Contract, error) {
	dir, err := find()
	if err != nil {
		return nil, err
	}
	return load(dir, contract)
}

// Versions returns the versions of a package (those of the clients PACKAGE@VERSION) that a test
// walks through the contract.
func (c *Contract) Versions(name string, full bool) []string {
	var versions []string
	for _, client := range c.Clients {
		if version, ok := strings.CutPrefix(client.Name, name+"@"); ok && (full || !client.Full) {
			versions = append(versions, version)
		}
	}
	return versions
}

func load(dir, contract string) (*Contract, error) {
	text, err := os.ReadFile(filepath.Join(dir, "rows", contract+".yaml"))
	if err != nil {
		return nil, err
	}
	c := &Contract{Name: contract}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return nil, fmt.Errorf("rows of %s: %w", contract, err)
	}
	known := map[string]bool{}
	for _, s := range c.Sections {
		for _, row := range s.Rows {
			if known[row.name()] {
				return nil, fmt.Errorf("rows of %s: two rows are of %q", contract, row.name())
			}
			known[row.name()] = true
		}
	}
	return c, nil
}

// find returns the directory of this package: test/contracts of the module, or of the one that a
// module for tests is in.
func find() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		dir := filepath.Join(at, "test", "contracts")
		if _, err := os.Stat(filepath.Join(dir, "rows")); err == nil {
			return dir, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no directory above the working directory has test/contracts")
		}
		at = filepath.Dir(at)
	}
}

// row returns the row of an operation, or nil.
func (c *Contract) row(operation string) *Row {
	for _, s := range c.Sections {
		if i := slices.IndexFunc(s.Rows, func(r Row) bool { return r.name() == operation }); i >= 0 {
			return &s.Rows[i]
		}
	}
	return nil
}
