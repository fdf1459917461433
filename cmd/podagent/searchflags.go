package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strings"

	"github.com/podagent/podagent/cmd/internal/render"
)

// searchFlags defines the flags of searches, each by its long name and its
// short one.
type searchFlags struct{ *flag.FlagSet }

func (f searchFlags) Bool(p *bool, name, short, usage string) {
	f.BoolVar(p, name, *p, usage)
	if short != "" {
		f.BoolVar(p, short, *p, "--"+name)
	}
}

func (f searchFlags) Value(v render.Value, name, short, usage string) {
	f.Var(v, name, usage)
	if short != "" {
		f.Var(v, short, "--"+name)
	}
}

// outputFlag defines -o, as in the orchestrator, and --json for -o json. It returns
// whether to print JSON lines.
func outputFlag(flags *flag.FlagSet) *bool {
	json := flags.Bool("json", false, "--output json")
	set := func(s string) error {
		if s != "text" && s != "json" {
			return errors.New("it must be one of text, json")
		}
		*json = s == "json"
		return nil
	}
	flags.Func("output", "print `text`, or JSON lines (json)", set)
	flags.Func("o", "--output", set)
	return json
}

// parseMixed parses flags before, between and after the arguments, which it
// returns. Flags of one letter may be joined, as in -il and -C3, which package
// flag itself does not know.
func parseMixed(flags *flag.FlagSet, args []string, synopsis string, stdout io.Writer) ([]string, error) {
	var rest []string
	for {
		for i := 0; i < len(args) && args[i] != "--"; i++ {
			parts, open := apart(flags, args[i])
			args = slices.Concat(args[:i], parts, args[i+1:])
			i += len(parts) - 1
			if open {
				i++ // it is a value, even if it looks like a flag
			}
		}
		if err := parse(flags, args, synopsis, stdout); err != nil {
			return nil, err
		}
		left := flags.Args()
		if at := len(args) - len(left); len(left) == 0 || at > 0 && args[at-1] == "--" {
			return append(rest, left...), nil
		}
		rest, args = append(rest, left[0]), left[1:]
	}
}

// apart returns joined flags of one letter as flags of their own, and anything else as
// it is. open says that the next argument is the value of a flag.
func apart(flags *flag.FlagSet, arg string) (parts []string, open bool) {
	if len(arg) < 2 || arg[0] != '-' {
		return []string{arg}, false
	}
	name, _, given := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
	if f := flags.Lookup(name); f != nil {
		return []string{arg}, takesValue(f) && !given
	}
	for i := 1; i < len(arg); i++ {
		f := flags.Lookup(arg[i : i+1])
		if f == nil {
			return []string{arg}, false
		}
		parts = append(parts, "-"+f.Name)
		if takesValue(f) {
			if i+1 < len(arg) {
				return append(parts, arg[i+1:]), false
			}
			return parts, true
		}
	}
	return parts, false
}

func takesValue(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return !ok || !b.IsBoolFlag()
}
