package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools"
)

func toolCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tool",
		Short: "Call the tools that an agent host gives to a model",
		Long: `Tool calls the tools that an agent host gives to a model: Read, Write, Edit, Bash,
Glob and Grep. Each takes a JSON object and answers as a model sees it.`,
		Args: noSuchVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(toolListCommand(a), toolCallCommand(a))
	return cmd
}

func toolListCommand(a *app) *cobra.Command {
	var with toolFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tools; with -o json also their schemas",
		Args:  takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := with.check(cmd.Context()); err != nil {
				return err
			}
			for _, spec := range with.session(nil).Specs() {
				if err := a.tool(spec); err != nil {
					return err
				}
			}
			return nil
		},
	}
	with.define(cmd, false)
	return cmd
}

// tool prints the description of a tool, in the words of the Model Context Protocol.
func (a *app) tool(spec tools.Spec) error {
	summary, _, _ := strings.Cut(spec.Description, "\n")
	return a.print(struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}{spec.Name, spec.Description, spec.InputSchema}, fmt.Sprintf("%-10s  %s\n", spec.Name, summary))
}

func toolCallCommand(a *app) *cobra.Command {
	var with toolFlags
	cmd := &cobra.Command{
		Use:   "call ID TOOL [INPUT]",
		Short: "Call a tool in a sandbox",
		Long: `Call calls a tool with a JSON object. If the object is "-" or left out, call reads it
from standard input. The exit status is 1 if the tool says that it failed.`,
		Example: `  orchestrator tool call job-1 Read '{"path": "go.mod", "limit": 5}'
  orchestrator tool call job-1 Bash '{"command": "go test ./..."}'
  orchestrator tool call job-1 gh '{"args": ["pr", "list"]}' --command gh=/usr/bin/gh --secret GH_TOKEN=env:GH_TOKEN`,
		Args:              takes(2, 3),
		ValidArgsFunction: a.completeTools(&with),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := with.check(cmd.Context()); err != nil {
				return err
			}
			input, err := a.toolInput(args[2:])
			if err != nil {
				return err
			}
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.callTool(cmd.Context(), with.session(sandbox), args[1], input)
			})
		},
	}
	with.define(cmd, true)
	return cmd
}

func (a *app) completeTools(with *toolFlags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return a.completeIDs(false)(cmd, args, word)
		}
		var names []string
		for _, spec := range with.session(nil).Specs() {
			names = append(names, spec.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// toolInput returns the input given by the arguments.
func (a *app) toolInput(args []string) (json.RawMessage, error) {
	if len(args) > 0 && args[0] != "-" {
		return json.RawMessage(args[0]), nil
	}
	data, err := io.ReadAll(io.LimitReader(a.in, maxToolInput+1))
	if err == nil && len(data) > maxToolInput {
		err = fmt.Errorf("the tool's input is larger than %d MiB", maxToolInput>>20)
	}
	return data, err
}

// callTool prints the result of a call. The sandbox keeps the omitted part of a
// long output, so that Read can show it.
func (a *app) callTool(ctx context.Context, session *tools.Session, name string, input json.RawMessage) error {
	result, err := session.Call(ctx, name, input)
	if err != nil {
		return err
	}
	if err := a.toolResult(result); err != nil {
		return err
	}
	if result.IsError {
		return errToolFailed
	}
	return nil
}

// errToolFailed ends a call whose result says why it failed.
var errToolFailed = errors.New("the tool failed: its result says why")

func (a *app) toolResult(result tools.Result) error {
	if !a.json() {
		text := strings.TrimSuffix(result.Text(), "\n") + "\n"
		return a.printText([]byte(text))
	}
	content := []toolContent{}
	for _, c := range result.Content {
		out := toolContent{Type: "text", Text: c.Text}
		if c.MediaType != "" {
			out = toolContent{Type: "image", MediaType: c.MediaType, Data: c.Data}
		}
		content = append(content, out)
	}
	return render.JSON(a.out, struct {
		Content []toolContent `json:"content"`
		IsError bool          `json:"isError,omitempty"`
	}{content, result.IsError})
}

// toolContent is a part of a result, as in the Model Context Protocol.
type toolContent struct {
	Type      string `json:"type"`
	Text      string `json:"text,omitempty"`
	MediaType string `json:"mimeType,omitempty"`
	Data      []byte `json:"data,omitempty"`
}
