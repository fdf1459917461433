package main

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/podapi"
)

// A choice is a flag that takes one of some words.
type choice struct {
	value string
	words []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.words, "|") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return fmt.Errorf("it is %s", alternatives(c.words))
	}
	c.value = s
	return nil
}

// complete is the shell completion of the flag.
func (c *choice) complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return c.words, cobra.ShellCompDirectiveNoFileComp
}

func alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// env is a flag that adds to an environment.
type env []string

func (e *env) String() string { return strings.Join(*e, " ") }
func (e *env) Type() string   { return "NAME=VALUE" }

func (e *env) Set(s string) error {
	if name, _, ok := strings.Cut(s, "="); !ok || name == "" {
		return fmt.Errorf("it is not NAME=VALUE")
	}
	*e = append(*e, s)
	return nil
}

// fileMode is a flag for permission bits in octal.
type fileMode struct {
	bits fs.FileMode
	set  bool
}

func (m *fileMode) Type() string { return "OCTAL" }

func (m *fileMode) String() string {
	if !m.set {
		return ""
	}
	return fmt.Sprintf("%#o", m.bits)
}

func (m *fileMode) Set(s string) error {
	bits, err := strconv.ParseUint(s, 8, 32)
	if err != nil || bits > 0o777 {
		return fmt.Errorf("it is not an octal number up to 0777")
	}
	m.bits, m.set = fs.FileMode(bits), true
	return nil
}

// rlimits is a flag that adds to resource limits, as docker has it.
type rlimits []podapi.Rlimit

func (l *rlimits) String() string { return "" }
func (l *rlimits) Type() string   { return "NAME=SOFT[:HARD]" }

func (l *rlimits) Set(s string) error {
	name, values, ok := strings.Cut(s, "=")
	if !ok || name == "" || values == "" {
		return fmt.Errorf("it is not NAME=SOFT[:HARD]")
	}
	first, second, both := strings.Cut(values, ":")
	soft, err := limitValue(first)
	hard := soft
	if both && err == nil {
		hard, err = limitValue(second)
	}
	if err != nil {
		return err
	}
	if soft > hard {
		return fmt.Errorf("the soft limit is above the hard limit")
	}
	*l = append(*l, podapi.Rlimit{Resource: name, Soft: soft, Hard: hard})
	return nil
}

func limitValue(s string) (uint64, error) {
	if s == "unlimited" || s == "-1" {
		return podapi.Unlimited, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf(`%q is neither a number nor "unlimited"`, s)
	}
	return n, nil
}
