package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/secret"
)

// toolFlags say which tools there are besides [tools.Coding], as what a model knows
// them, and which secrets commands get.
type toolFlags struct {
	dialect     flagvalue.Choice
	commands    flagvalue.Commands
	checkpoints bool
	given       []string // of --secret
	secrets     map[string]secret.Provider
	redact      map[string]secret.Provider // credentials of the way out
	flag        *pflag.Flag                // --secret
}

const secretHelp = "give commands the secret NAME in their environment, and remove it from their output: `NAME=env:VARIABLE|file:FILE` reads it here; may be repeated"

// define defines the flags of list, and with secrets also those of calls.
func (f *toolFlags) define(cmd *cobra.Command, secrets bool) {
	cmd.Flags().Var(&f.commands, "command", "add a tool that runs this executable of the sandbox, without a shell; may be repeated")
	if secrets {
		cmd.Flags().StringArrayVar(&f.given, "secret", nil, secretHelp)
		f.flag = cmd.Flags().Lookup("secret")
	}
	cmd.Flags().BoolVar(&f.checkpoints, "checkpoint-tools", false, "add the tools Checkpoint, Checkpoints, Diff and Restore, by which a model keeps states of the workdir and goes back to them")
	f.dialect = flagvalue.NewChoice(tools.Dialects()...)
	cmd.Flags().Var(&f.dialect, "dialect", "give the tools the names, parameters and answers of podagent, or of another agent that models are trained with")
	_ = cmd.RegisterFlagCompletionFunc("dialect", f.dialect.Complete) // the flag is there
	settings.Mark(cmd.Flags(), "checkpoint-tools", "command", "dialect", "secret")
}

// check returns what is wrong with the flags, and tries to get the secrets.
func (f *toolFlags) check(ctx context.Context) error {
	f.secrets = map[string]secret.Provider{}
	for _, text := range f.given {
		name, provider, err := parseSecret(text)
		if err == nil && f.secrets[name] != nil {
			err = fmt.Errorf("secret %s is given twice", name)
		}
		if err == nil && f.redact[name] != nil {
			err = fmt.Errorf("secret %s has the name of a credential", name)
		}
		if err != nil {
			return usagef("%s: %w", settings.Origin(f.flag), err)
		}
		f.secrets[name] = provider
	}
	if err := f.session(nil).Prepare(ctx); err != nil {
		return usageError{err}
	}
	return nil
}

// parseSecret parses a flag. Its errors do not repeat the flag's value, because it
// may be the secret itself.
func parseSecret(text string) (name string, from secret.Provider, err error) {
	name, source, _ := strings.Cut(text, "=")
	from, err = secretFrom(source)
	switch {
	case name == "" || from == nil && err == nil:
		return "", nil, errors.New("it is not NAME=env:VARIABLE or NAME=file:FILE; never put the secret itself into a flag, because others can see it")
	case err != nil:
		return "", nil, fmt.Errorf("secret %s: %w", name, err)
	}
	return name, from, nil
}

// secretFrom returns the place of a secret, env:VARIABLE or file:FILE; nil if the text is
// neither.
func secretFrom(text string) (secret.Provider, error) {
	kind, where, _ := strings.Cut(text, ":")
	switch {
	case where == "":
	case kind == "env":
		if _, ok := os.LookupEnv(where); !ok {
			return nil, errors.New("there is no such variable in the environment")
		}
		return secret.Env(where), nil
	case kind == "file":
		return secret.File(where), nil
	}
	return nil, nil
}

// tools returns all tools.
func (f *toolFlags) tools() []tools.Tool {
	all := tools.Coding()
	if f.checkpoints {
		all = append(all, tools.Checkpointing()...)
	}
	for _, c := range f.commands {
		all = append(all, c)
	}
	return all
}

// session returns the tools in a sandbox.
func (f *toolFlags) session(sandbox *launcher.Sandbox) *tools.Session {
	return tools.New(sandbox, tools.Options{Secrets: f.secrets, Redact: f.redact, Dialect: f.dialect.Value}, f.tools()...)
}
