package settings

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// envPrefix begins the names of the variables of settings.
const envPrefix = "PODAGENT_"

// Load sets the verb's settings from the environment and the configuration file.
// Its errors name the variable, or the file, the line and the key.
func Load(verb *cobra.Command) error {
	if verb.Flags().Lookup(configFlag) == nil {
		return nil // one of cobra's own verbs, which take flags as words
	}
	return load(verb, verb.Flags())
}

// load sets those of these flags that are settings of the verb or of all verbs.
func load(verb *cobra.Command, flags *pflag.FlagSet) error {
	config, err := readConfig(verb)
	if err != nil {
		return err
	}
	return fill(flags, fromEnvironment, config.source)
}

// A source returns its values for a flag, in the flag's syntax, and the name of the
// place. Without values for the flag it returns none.
type source func(f *pflag.Flag) (values []string, place string, err error)

// fromEnvironment is the source for environment variables. An empty variable counts
// as unset. If the flag may be repeated, each line is a value.
func fromEnvironment(f *pflag.Flag) ([]string, string, error) {
	name := variable(f.Name)
	text := os.Getenv(name)
	switch {
	case text == "":
		return nil, "", nil
	case !mayBeRepeated(f):
		return []string{text}, name, nil
	}
	lines := slices.Collect(strings.Lines(text))
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, "\r\n")
	}
	return slices.DeleteFunc(lines, func(s string) bool { return s == "" }), name, nil
}

// variable returns the name of the variable for a flag.
func variable(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// mayBeRepeated reports whether the flag adds a value each time, as its help says.
func mayBeRepeated(f *pflag.Flag) bool { return strings.HasSuffix(f.Usage, "may be repeated") }

// set sets the flag to the source's values, if there are any.
func (s source) set(f *pflag.Flag) error {
	values, place, err := s(f)
	if err != nil || len(values) == 0 {
		return err
	}
	for _, v := range values {
		if err := f.Value.Set(v); err != nil {
			return fmt.Errorf("%s: invalid argument %q: %w", place, v, err)
		}
	}
	annotate(f, origin, append([]string{place}, values...)...)
	return nil
}

// fill sets each setting without a value to that of the first source that has one.
// It sets the backend first, because that decides which other settings count.
func fill(flags *pflag.FlagSet, sources ...source) error {
	backend := flags.Lookup(backendFlag)
	for _, s := range sources {
		if Given(backend) {
			break
		}
		if err := s.set(backend); err != nil {
			return err
		}
	}
	for _, s := range sources {
		for _, f := range open(flags, backend.Value.String()) {
			if err := s.set(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// open returns the settings without a value that may get one.
func open(flags *pflag.FlagSet, backend string) []*pflag.Flag {
	var list []*pflag.Flag
	aside := setAside(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if IsFor(f, backend) && !Given(f) && !aside[f] {
			list = append(list, f)
		}
	})
	return list
}
