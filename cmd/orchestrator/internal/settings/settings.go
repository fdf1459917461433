// Package settings gives flags of a cobra command line values from the environment and
// from a configuration file.
//
// A setting is a flag that [Mark] or [MarkFor] has marked. Its value can also be in
// an environment variable, PODAGENT_ and the flag's name, or under its name in the
// configuration file. The flag comes first, then the variable, then the file.
// [Load] fills in the missing values before a verb runs.
//
// Load leaves pflag's Changed unchanged, so Changed tells which flags were on the
// command line. The difference matters: a flag must fit the verb and the backend,
// or it is an error. A setting is ignored if it does not fit. Verbs ask [Given]
// whether a flag has a value from anywhere, and name its origin in errors by
// [Origin].
package settings

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The annotations of flags that are settings.
const (
	scope    = "podagent_setting"  // the backend that it is for, or everyBackend
	origin   = "podagent_origin"   // where its value came from, then the value as written there
	excludes = "podagent_excludes" // the flags that cannot be given with it
)

const everyBackend = "every backend"

// backendFlag is the flag that decides which settings count.
const backendFlag = "backend"

// Mark makes settings of the flags with these names, or of all flags if no names
// are given.
func Mark(flags *pflag.FlagSet, names ...string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if len(names) == 0 || slices.Contains(names, f.Name) {
			annotate(f, scope, everyBackend)
		}
	})
}

// MarkFor makes settings of all these flags for some values of --backend. With any other,
// Load ignores them.
func MarkFor(flags *pflag.FlagSet, backends ...string) {
	flags.VisitAll(func(f *pflag.Flag) { annotate(f, scope, backends...) })
}

// Exclude says that a flag and these others cannot be given together. A value from
// one source then overrides what later sources say about the others: see
// [CheckExclusions].
func Exclude(flags *pflag.FlagSet, name string, others ...string) {
	annotate(flags.Lookup(name), excludes, others...)
}

func annotate(f *pflag.Flag, annotation string, values ...string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[annotation] = values
}

// IsSetting reports whether the flag is a setting.
func IsSetting(f *pflag.Flag) bool { return f.Annotations[scope] != nil }

// IsFor reports whether the flag is a setting that counts for a backend.
func IsFor(f *pflag.Flag, backend string) bool {
	s := f.Annotations[scope]
	return slices.Contains(s, everyBackend) || slices.Contains(s, backend)
}

// Given reports whether the flag has a value from anywhere but its default.
func Given(f *pflag.Flag) bool { return f.Changed || f.Annotations[origin] != nil }

// Origin names the place that the flag's value came from: the flag itself, a variable,
// or a line of the configuration file.
func Origin(f *pflag.Flag) string {
	if from := f.Annotations[origin]; from != nil && !f.Changed {
		return from[0]
	}
	return "--" + f.Name
}

// isOn reports whether the flag was given with a value other than false.
func isOn(f *pflag.Flag) bool { return Given(f) && f.Value.String() != "false" }

// exclusions returns the pairs of these flags that exclude each other.
func exclusions(flags *pflag.FlagSet) (pairs [][2]*pflag.Flag) {
	flags.VisitAll(func(f *pflag.Flag) {
		for _, name := range f.Annotations[excludes] {
			if other := flags.Lookup(name); other != nil {
				pairs = append(pairs, [2]*pflag.Flag{f, other})
			}
		}
	})
	return pairs
}

// CheckExclusions returns an error if two of these flags that exclude each other
// were given.
func CheckExclusions(flags *pflag.FlagSet) error {
	for _, pair := range exclusions(flags) {
		if isOn(pair[0]) && isOn(pair[1]) {
			return fmt.Errorf("%s and %s exclude each other", Origin(pair[0]), Origin(pair[1]))
		}
	}
	return nil
}

// setAside returns the flags that may no longer be given, because one that excludes
// them was.
func setAside(flags *pflag.FlagSet) map[*pflag.Flag]bool {
	aside := map[*pflag.Flag]bool{}
	for _, pair := range exclusions(flags) {
		aside[pair[0]] = aside[pair[0]] || isOn(pair[1])
		aside[pair[1]] = aside[pair[1]] || isOn(pair[0])
	}
	return aside
}

// Of returns the settings of all verbs.
func Of(root *cobra.Command) *pflag.FlagSet {
	all := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	add := func(f *pflag.Flag) {
		if IsSetting(f) && all.Lookup(f.Name) == nil {
			all.AddFlag(f)
		}
	}
	var collect func(*cobra.Command)
	collect = func(cmd *cobra.Command) {
		cmd.PersistentFlags().VisitAll(add)
		cmd.LocalFlags().VisitAll(add)
		for _, verb := range cmd.Commands() {
			collect(verb)
		}
	}
	collect(root)
	return all
}
