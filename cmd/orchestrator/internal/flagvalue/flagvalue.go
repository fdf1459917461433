// Package flagvalue has the values of the orchestrator's flags: types with a
// pflag.Value that parse a user's text into the libraries' types. A conversion
// makes a field of a Spec a flag: (*Volumes)(&pod.Volumes).
//
// Set adds to the value if the flag may be repeated, and otherwise replaces it. Its
// errors say what the flag takes; pflag puts the flag and the wrong value in front.
// Type is the name of the value in the help.
package flagvalue

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// Choice is a flag that takes one of some words.
type Choice struct {
	Value string
	Words []string // all allowed words
}

// NewChoice returns the choice among at least two words. The first is the default.
func NewChoice[T ~string](words ...T) Choice {
	c := Choice{Value: string(words[0])}
	for _, w := range words {
		c.Words = append(c.Words, string(w))
	}
	return c
}

func (c *Choice) String() string { return c.Value }
func (c *Choice) Type() string   { return strings.Join(c.Words, "|") }

func (c *Choice) Set(s string) error {
	if !slices.Contains(c.Words, s) {
		return fmt.Errorf("it must be %s", Alternatives(c.Words))
	}
	c.Value = s
	return nil
}

// Complete is the shell completion of the flag.
func (c *Choice) Complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return c.Words, cobra.ShellCompDirectiveNoFileComp
}

// Alternatives joins at least two words: "a, b or c".
func Alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Env is a flag that adds a variable to an environment.
type Env []string

func (e *Env) String() string { return strings.Join(*e, " ") }
func (e *Env) Type() string   { return "NAME=VALUE" }

func (e *Env) Set(s string) error {
	if name, _, ok := strings.Cut(s, "="); !ok || name == "" {
		return fmt.Errorf("it is not NAME=VALUE")
	}
	*e = append(*e, s)
	return nil
}

// FileMode is a flag for permission bits, in octal up to 0777.
type FileMode struct {
	Bits  fs.FileMode
	Given bool // the user gave the flag
}

func (m *FileMode) Type() string { return "OCTAL" }

func (m *FileMode) String() string {
	if !m.Given {
		return ""
	}
	return fmt.Sprintf("%#o", m.Bits)
}

func (m *FileMode) Set(s string) error {
	bits, err := strconv.ParseUint(s, 8, 32)
	if err != nil || bits > 0o777 {
		return fmt.Errorf("it is not an octal number up to 0777")
	}
	m.Bits, m.Given = fs.FileMode(bits), true
	return nil
}
