package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/launcher"
)

func grepCommand(a *app) *cobra.Command {
	var options render.GrepFlags
	cmd := &cobra.Command{
		Use:   "grep ID PATTERN [PATH...]",
		Short: "Search the content of files",
		Long: `Grep prints the lines that match a regular expression (RE2 syntax). Like ripgrep,
it skips hidden files, binary files and whatever .gitignore files exclude, prints
files in any order, and prints colors and headings only on a terminal. It always
prints line numbers; -n is the namespace.
At the end it lists what it could not search. The exit status is 0 if a line matches,
1 if none does, and 2 if anything but a binary file could not be searched.`,
		Args:              takes(1, -1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern, opts, err := options.Search(args[1:])
			if err != nil {
				return usagef("%w: the usage is %q", err, cmd.UseLine())
			}
			printer := options.Printer(a.out, a.err, a.json(), &opts)
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return printer.All(sandbox.Grep(cmd.Context(), pattern, opts))
			})
		},
	}
	options.Define(searchFlags{cmd.Flags()})
	return cmd
}

// searchFlags defines the flags of searches.
type searchFlags struct{ *pflag.FlagSet }

func (f searchFlags) Bool(p *bool, name, short, usage string) {
	if short == "n" {
		short = "" // -n is the namespace
	}
	f.BoolVarP(p, name, short, *p, usage)
}

func (f searchFlags) Value(v render.Value, name, short, usage string) { f.VarP(v, name, short, usage) }
