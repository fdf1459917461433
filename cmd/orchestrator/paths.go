package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
)

// pathsVerb is a verb that does one thing to each of several paths.
type pathsVerb func(ctx context.Context, sandbox *launcher.Sandbox, path string) error

// eachPath returns a function that runs the verb on each path, up to the first
// failure.
func (a *app) eachPath(verb pathsVerb) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
			for _, path := range args[1:] {
				if err := verb(cmd.Context(), sandbox, path); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
