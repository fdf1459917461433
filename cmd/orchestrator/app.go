package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/pkg/launcher"
)

// app holds what all verbs share: the streams and the persistent flags.
type app struct {
	streams
	terminal render.Terminal // whether out is one
	backend  flagvalue.Choice
	cluster  clusterFlags
	remote   remoteFlags
	local    localFlags
	output   flagvalue.Choice
	flags    *pflag.FlagSet // of the verb that runs, once its settings are loaded
	raw      bool           // a terminal gets what a program prints unchanged
	logLevel flagvalue.Choice
}

// json reports whether the output is JSON lines.
func (a *app) json() bool { return a.output.Value == "json" }

// print prints v as a line of JSON, or text.
func (a *app) print(v any, text string) error {
	if a.json() {
		return render.JSON(a.out, v)
	}
	return a.printText([]byte(text))
}

// printText prints text that may have words of a sandbox in it.
func (a *app) printText(text []byte) error {
	_, err := a.out.Write(a.terminal.Text(text))
	return err
}

// note prints a remark on standard error. A remark is not a failure.
func (a *app) note(format string, args ...any) {
	text := fmt.Appendf(nil, "orchestrator: "+format+"\n", args...)
	_, _ = a.err.Write(render.IsTerminal(a.err).Text(text)) // there is nowhere else to report it
}

// rawHelp explains the flag of [app.rawFlag].
const rawHelp = `On a terminal, %s shows colors, tabs, carriage returns and
backspaces, and escapes what else would control the terminal or reorder the text. With
--raw, the terminal gets all bytes as they are, as pipes and files always do.`

// rawFlag defines the flag of the verbs that print what programs and files say.
func (a *app) rawFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.raw, "raw", false, "let the output control the terminal")
}

func (a *app) logger() *slog.Logger {
	var level slog.Level
	if level.UnmarshalText([]byte(a.logLevel.Value)) != nil {
		return slog.New(slog.DiscardHandler) // it is "off"
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
}

// launch launches or adopts the sandbox of spec, does the work, and closes the
// sandbox.
func (a *app) launch(ctx context.Context, spec launcher.Spec, e *egressFlags, work func(*launcher.Sandbox) error) error {
	l, err := a.launcher()
	if err != nil {
		return err
	}
	missing := a.isMissing(spec.Workdir)
	over := a.serveCheckout(&spec, e)
	sandbox, err := l.Launch(ctx, spec)
	over()
	if err != nil {
		return &sandboxError{id: spec.ID, launching: true, err: a.keptIn(err)}
	}
	a.tellIsolation(sandbox)
	a.tellIsolationAtGateway(ctx, sandbox)
	if missing && sandbox.Created {
		a.note("the workdir %s was not there, and is a new directory now", quote(spec.Workdir))
	}
	if why := sandbox.Start.Cold; why != "" {
		a.note("sandbox %s has a new pod: %s", quote(sandbox.ID), why)
	}
	for _, drift := range sandbox.Drift {
		a.note("sandbox %s exists already, and differs from the flags: %s", quote(sandbox.ID), drift)
	}
	return within(sandbox, work)
}

// open connects to the sandbox with this id, does the work, and closes the
// connection.
func (a *app) open(ctx context.Context, id string, work func(*launcher.Sandbox) error) error {
	l, err := a.launcher()
	if err != nil {
		return err
	}
	sandbox, err := l.Open(ctx, id)
	if err != nil {
		return &sandboxError{id: id, launching: true, err: err}
	}
	return within(sandbox, work)
}

// within does the work and closes the sandbox. It adds the sandbox's id to errors.
func within(sandbox *launcher.Sandbox, work func(*launcher.Sandbox) error) error {
	err := work(sandbox)
	if err != nil {
		err = &sandboxError{id: sandbox.ID, err: err}
	}
	if closeErr := sandbox.Close(); err == nil && closeErr != nil {
		err = &sandboxError{id: sandbox.ID, launching: true, err: closeErr}
	}
	return err
}
