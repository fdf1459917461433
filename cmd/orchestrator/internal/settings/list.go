package settings

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Setting describes a setting, as "orchestrator settings" prints it.
type Setting struct {
	Flag     string `json:"flag"`
	Variable string `json:"variable"`
	Key      string `json:"key"`             // in the configuration file
	Takes    string `json:"takes,omitempty"` // the name of the flag's value in the help
	Default  string `json:"default,omitempty"`
	Meaning  string `json:"meaning"`
	Value    string `json:"value,omitempty"`
	From     string `json:"from"` // "default", or the [Origin] of the value
}

// List returns the settings of all verbs, sorted by name, with their present
// values. verb is the one that runs.
func List(verb *cobra.Command) ([]Setting, error) {
	flags := Of(verb.Root())
	if err := load(verb, flags); err != nil {
		return nil, err
	}
	return describe(flags), nil
}

func describe(flags *pflag.FlagSet) (list []Setting) {
	flags.VisitAll(func(f *pflag.Flag) { list = append(list, newSetting(f)) })
	return list
}

func newSetting(f *pflag.Flag) Setting {
	s := Setting{Flag: "--" + f.Name, Variable: variable(f.Name), Key: f.Name, From: "default"}
	s.Takes, s.Meaning = pflag.UnquoteUsage(f)
	if optional := f.NoOptDefVal; s.Takes == "" && optional != "" && optional != "true" {
		s.Takes = "[=" + optional + "]"
	}
	// If the default is not a value, the help says what it means.
	s.Meaning, s.Default, _ = strings.Cut(s.Meaning, " (default ")
	s.Default = strings.TrimSuffix(s.Default, ")")
	if none := []string{"", "[]"}; s.Default == "" && !slices.Contains(none, f.DefValue) {
		s.Default = f.DefValue
	}
	s.Value = s.Default
	switch {
	case f.Changed:
		s.Value, s.From = f.Value.String(), s.Flag
	case Given(f):
		s.Value, s.From = strings.Join(f.Annotations[origin][1:], " "), Origin(f)
	}
	return s
}
