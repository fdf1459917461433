package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A setting is a flag whose value can also be in a variable of the environment,
// or under its name in the configuration file: the flag goes first, then the
// variable, then the file. Such a value is set without pflag's Changed, which so
// remains what somebody gave on the command line: that must fit the verb and the
// backend, while a setting is for those that it fits.

// envPrefix begins the names of the variables of settings.
const envPrefix = "PODAGENT_"

// The annotations of flags that are settings.
const (
	settingOf  = "podagent_setting" // which backends it is for
	settingWas = "podagent_given"   // where its value came from, then the value as it was there
)

const (
	everywhere = "every backend"
	podsOnly   = "pods"
)

// asSettings makes settings of flags: of those that have names, or of all.
func asSettings(flags *pflag.FlagSet, names ...string) { markSettings(flags, everywhere, names) }

// asPodSettings makes settings of all flags, which the local backend ignores.
func asPodSettings(flags *pflag.FlagSet) { markSettings(flags, podsOnly, nil) }

func markSettings(flags *pflag.FlagSet, scope string, names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if len(names) == 0 || slices.Contains(names, f.Name) {
			annotate(f, settingOf, scope)
		}
	})
}

func annotate(f *pflag.Flag, annotation string, values ...string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[annotation] = values
}

func isSetting(f *pflag.Flag) bool { return f.Annotations[settingOf] != nil }

func isPodSetting(f *pflag.Flag) bool { return slices.Contains(f.Annotations[settingOf], podsOnly) }

// given reports whether the flag has a value from anywhere.
func given(f *pflag.Flag) bool { return f.Changed || f.Annotations[settingWas] != nil }

// givenBy says where the flag's value came from, to be read as a name of it.
func givenBy(f *pflag.Flag) string {
	if was := f.Annotations[settingWas]; was != nil && !f.Changed {
		return was[0]
	}
	return "--" + f.Name
}

// variable returns the name of the variable that stands for a flag.
func variable(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// isRepeated reports whether the flag adds a value each time, as its help says.
func isRepeated(f *pflag.Flag) bool { return strings.HasSuffix(f.Usage, "may be repeated") }

// A source returns the values that it has for a flag, as the flag takes them,
// and what to call the place. Without values it has none.
type source func(f *pflag.Flag) (values []string, place string, err error)

// fromEnvironment is the source of variables. One that is empty is as good as
// none. In that of a flag that may be repeated, each line is a value.
func fromEnvironment(f *pflag.Flag) ([]string, string, error) {
	name := variable(f.Name)
	text := os.Getenv(name)
	switch {
	case text == "":
		return nil, "", nil
	case !isRepeated(f):
		return []string{text}, name, nil
	}
	lines := slices.Collect(strings.Lines(text))
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, "\r\n")
	}
	return slices.DeleteFunc(lines, func(s string) bool { return s == "" }), name, nil
}

// give sets the flag to what the source has.
func (s source) give(f *pflag.Flag) error {
	values, place, err := s(f)
	if err != nil || len(values) == 0 {
		return err
	}
	for _, v := range values {
		if err := f.Value.Set(v); err != nil {
			return fmt.Errorf("%s: invalid argument %q: %w", place, v, err)
		}
	}
	annotate(f, settingWas, append([]string{place}, values...)...)
	return nil
}

// settle gives the verb's settings the values that the environment and the
// configuration file have for them.
func (a *app) settle(cmd *cobra.Command) error {
	flags := cmd.Flags()
	if flags.Lookup("config") == nil {
		return nil // it is cobra's own, and takes its flags as words
	}
	a.flags = flags
	config, err := a.readConfig(cmd)
	if err == nil {
		err = a.fill(flags, fromEnvironment, config.source)
	}
	if err != nil {
		return usageError{err}
	}
	return nil
}

// settleFirst has each verb settle its flags before it runs, or completes an
// argument.
func (a *app) settleFirst(root *cobra.Command) {
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.settle(cmd) }
	var wrap func(*cobra.Command)
	wrap = func(cmd *cobra.Command) {
		if complete := cmd.ValidArgsFunction; complete != nil {
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
				if a.settle(cmd) != nil { // the verb will say it
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return complete(cmd, args, word)
			}
		}
		for _, verb := range cmd.Commands() {
			wrap(verb)
		}
	}
	wrap(root)
}

// fill gives the settings among the flags that have no value that of the first
// source which has one.
func (a *app) fill(flags *pflag.FlagSet, sources ...source) error {
	for _, s := range sources { // it decides about others
		if backend := flags.Lookup("backend"); !given(backend) {
			if err := s.give(backend); err != nil {
				return err
			}
		}
	}
	for _, s := range sources {
		for _, f := range a.unsettled(flags) {
			if err := s.give(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// unsettled returns the settings that have no value yet, and may have one.
func (a *app) unsettled(flags *pflag.FlagSet) []*pflag.Flag {
	var list []*pflag.Flag
	flags.VisitAll(func(f *pflag.Flag) {
		ignored := isPodSetting(f) && a.backend.value == onThisHost
		if isSetting(f) && !given(f) && !ignored && !isExcluded(flags, f) {
			list = append(list, f)
		}
	})
	return list
}

// exclusions are pairs of flags of which only one can be given: one from the
// command line sets aside what a setting says of the other.
var exclusions = [][2]string{
	{"in-cluster", "kubeconfig"}, {"in-cluster", "context"}, {"identity", "identity-secret"},
}

// isExcluded reports whether a flag was given with which this one cannot be.
func isExcluded(flags *pflag.FlagSet, f *pflag.Flag) bool {
	return slices.ContainsFunc(exclusions, func(pair [2]string) bool {
		i := slices.Index(pair[:], f.Name)
		return i >= 0 && isOn(flags.Lookup(pair[1-i]))
	})
}

// isOn reports whether the flag was given, and not to say no.
func isOn(f *pflag.Flag) bool { return given(f) && f.Value.String() != "false" }
