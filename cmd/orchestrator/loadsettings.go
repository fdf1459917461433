package main

import (
	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
)

// loadSettings sets the verb's flags from the environment and the configuration
// file, unless they are on the command line.
func (a *app) loadSettings(verb *cobra.Command) error {
	a.flags = verb.Flags()
	if err := settings.Load(verb); err != nil {
		return usageError{err}
	}
	return nil
}

// loadFirst makes each verb load its settings before it runs or completes an
// argument.
func (a *app) loadFirst(root *cobra.Command) {
	root.PersistentPreRunE = func(verb *cobra.Command, _ []string) error { return a.loadSettings(verb) }
	a.loadBeforeCompletion(root)
}

func (a *app) loadBeforeCompletion(verb *cobra.Command) {
	if complete := verb.ValidArgsFunction; complete != nil {
		verb.ValidArgsFunction = func(verb *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if a.loadSettings(verb) != nil { // the verb will report it
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return complete(verb, args, word)
		}
	}
	for _, sub := range verb.Commands() {
		a.loadBeforeCompletion(sub)
	}
}
