package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/launcher"
)

func listCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List the sandboxes",
		Args:              takes(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.list(cmd.Context())
		},
	}
}

func (a *app) list(ctx context.Context) error {
	l, err := a.launcher()
	if err != nil {
		return err
	}
	list, err := l.List(ctx)
	if err != nil {
		err = &sandboxError{launching: true, err: err}
		if len(list) == 0 {
			return err
		}
	}
	if a.json() {
		return errors.Join(a.listJSON(list), err)
	}
	return errors.Join(a.listText(list), err)
}

func (a *app) listText(list []launcher.Summary) error {
	const quoted = render.Terminal(true) // anything else would break the table
	table := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	pods := a.backend.Value != onThisHost && a.backend.Value != throughGateway
	titles := "ID\tSTATE\tWORKDIR\tAGE"
	if pods {
		titles += "\tHEARTBEAT\tPOD"
	}
	fmt.Fprintln(table, titles)
	for _, s := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s", quoted.Name(s.ID), s.State, quoted.Name(s.Workdir), age(time.Since(s.CreatedAt)))
		if pods {
			beat := "-" // agent-sandbox's controller needs none
			if !s.Heartbeat.IsZero() {
				beat = age(time.Since(s.Heartbeat))
			}
			fmt.Fprintf(table, "\t%s\t%s", beat, s.Pod)
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

func (a *app) listJSON(list []launcher.Summary) error {
	for _, s := range list {
		if err := render.JSON(a.out, newSummary(s)); err != nil {
			return err
		}
	}
	return nil
}

// summary is a sandbox as JSON.
type summary struct {
	ID        string         `json:"id"`
	State     launcher.State `json:"state"`
	Workdir   render.Text    `json:"workdir"`
	CreatedAt time.Time      `json:"created_at"`
	Pod       string         `json:"pod,omitempty"`
	Heartbeat time.Time      `json:"heartbeat_at,omitzero"`

	Labels  map[string]string `json:"labels,omitempty"`
	Expires time.Time         `json:"expires_at,omitzero"`
}

func newSummary(s launcher.Summary) summary {
	return summary{s.ID, s.State, render.Text(s.Workdir), s.CreatedAt, s.Pod, s.Heartbeat, s.Labels, s.Expires}
}

// age returns a duration in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(max(d, 0).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
