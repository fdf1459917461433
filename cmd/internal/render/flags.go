package render

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A FlagSet is where flags are defined: package flag's in podagent, pflag's in the
// orchestrator. The short name may be empty.
type FlagSet interface {
	Bool(p *bool, name, short, usage string)
	Value(v Value, name, short, usage string)
}

// A Value is the value of a flag, for package flag and for pflag.
type Value interface {
	String() string
	Set(string) error
	Type() string
}

// A number is a flag for a number that is not negative.
type number struct {
	n   int
	set bool
}

func (n *number) Type() string { return "N" }

func (n *number) String() string {
	if !n.set {
		return ""
	}
	return strconv.Itoa(n.n)
}

func (n *number) Set(s string) error {
	value, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return errors.New("it must be a number that is not negative")
	}
	n.n, n.set = int(value), true
	return nil
}

// or returns the number, or other if it was not set.
func (n *number) or(other number) int {
	if n.set {
		return n.n
	}
	return other.n
}

// A word is a flag that takes one of some words, by default the first.
type word struct {
	value string
	words []string
}

func (w *word) Type() string { return strings.Join(w.words, "|") }

func (w *word) String() string { return w.value }

func (w *word) Set(s string) error {
	if !slices.Contains(w.words, s) {
		return fmt.Errorf("it must be one of %s", strings.Join(w.words, ", "))
	}
	w.value = s
	return nil
}

// patterns is a flag for a pattern. It may be repeated.
type patterns []string

func (p *patterns) Type() string   { return "PATTERN" }
func (p *patterns) String() string { return "" }

func (p *patterns) Set(s string) error {
	*p = append(*p, s)
	return nil
}

// directory is a flag for a directory.
type directory string

func (d *directory) Type() string   { return "DIR" }
func (d *directory) String() string { return string(*d) }

func (d *directory) Set(s string) error {
	*d = directory(s)
	return nil
}
