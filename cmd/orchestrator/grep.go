package main

import (
	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

func grepCommand(a *app) *cobra.Command {
	var opts fsops.GrepOptions
	var lines int
	cmd := &cobra.Command{
		Use:   "grep ID PATTERN [PATH...]",
		Short: "Search the content of files",
		Long: `Grep prints the lines that match a regular expression (RE2 syntax). Like ripgrep,
it skips hidden files, binary files and whatever .gitignore files exclude. The
exit status is 1 if no line matches.`,
		Args:              takes(2, -1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Before, opts.After, opts.Paths = lines, lines, args[2:]
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				printer := &render.Grep{Out: a.out, Err: a.err, JSON: a.json(), Context: lines > 0}
				return printer.All(sandbox.Grep(cmd.Context(), args[1], opts))
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.IgnoreCase, "ignore-case", "i", false, "ignore the case of letters")
	flags.VarP((*render.Globs)(&opts), "glob", "g", "search only files that match `GLOB`, or skip those that match !GLOB; may be repeated")
	flags.IntVarP(&lines, "context", "C", 0, "print `N` lines of context around each match")
	flags.IntVar(&opts.Limit, "max", 0, "stop after `N` matching lines")
	flags.BoolVar(&opts.Hidden, "hidden", false, "also search hidden files and directories")
	flags.BoolVar(&opts.NoIgnore, "no-ignore", false, "also search what .gitignore files exclude")
	return cmd
}
