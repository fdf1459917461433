package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// execIDHelp explains exec ids to users. An exec id is a UUIDv7: it begins with its time,
// so that the ids of a minute's commands begin alike. People therefore see its last
// group, which is random. They may shorten either the id or this group.
const execIDHelp = `
EXEC is an exec id, as exec -d and ps -o json print it, or its last 12 characters,
as ps prints them. You can leave out the end of either, as long as the rest is
unique and has 4 characters or more.`

// short returns the short form of an exec id.
func short(id string) string { return id[max(len(id)-shortExecID, 0):] }

// isExecID reports whether the agent accepts id for a new command.
func isExecID(id string) bool {
	parsed, err := uuid.Parse(id)
	return err == nil && parsed.Version() == 7 && parsed.String() == id
}

// findExec returns the process that name means.
func findExec(ctx context.Context, sandbox *launcher.Sandbox, name string) (podapi.ProcessInfo, error) {
	list, err := sandbox.Processes(ctx)
	if err != nil {
		return podapi.ProcessInfo{}, err
	}
	found := matchExec(list, name)
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(name) < leastExecID:
		err = usagef("the exec id %q is too short: give at least %d characters", name, leastExecID)
	case len(found) == 0:
		err = usagef(`sandbox %s has no exec %q: "orchestrator ps %[1]s -a" lists all`, quote(sandbox.ID), name)
	default:
		err = usagef("exec %q is ambiguous: it is %s", name, candidates(found))
	}
	return podapi.ProcessInfo{}, err
}

// matchExec returns the processes that name can mean.
func matchExec(list []podapi.ProcessInfo, name string) []podapi.ProcessInfo {
	name = strings.ToLower(name)
	var found []podapi.ProcessInfo
	for _, p := range list {
		switch {
		case p.ID == name:
			return []podapi.ProcessInfo{p}
		case len(name) < leastExecID:
		case strings.HasPrefix(p.ID, name) || strings.HasPrefix(short(p.ID), name):
			found = append(found, p)
		}
	}
	return found
}

// candidates names the processes that an exec id can mean.
func candidates(found []podapi.ProcessInfo) string {
	var names []string
	for _, p := range found[:min(len(found), mostNamed)] {
		names = append(names, fmt.Sprintf("%s (%s)", p.ID, briefCommand(p)))
	}
	if more := len(found) - mostNamed; more > 0 {
		names = append(names, fmt.Sprintf("one of %d more", more))
	}
	return flagvalue.Alternatives(names)
}

// completeExecs completes the first argument to the ids of sandboxes, and the second to
// those of its processes, or all that follow if every is set.
func (a *app) completeExecs(every bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return a.ids(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
		case len(args) > 1 && !every:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.execIDs(cmd.Context(), args[0]), cobra.ShellCompDirectiveNoFileComp
	}
}

// execIDs returns the exec ids of a sandbox, with their commands, for a shell's
// completion.
func (a *app) execIDs(ctx context.Context, id string) []string {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	var words []string
	_ = a.open(ctx, id, func(sandbox *launcher.Sandbox) error { // completion offers what it can
		list, err := sandbox.Processes(ctx)
		for _, p := range list {
			words = append(words, short(p.ID)+"\t"+briefCommand(p))
		}
		return err
	})
	return words
}
