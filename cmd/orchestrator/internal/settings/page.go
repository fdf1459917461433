package settings

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// onlyInEnvironment are variables that are no settings: secrets, which flags would show
// and files would keep, and variables that other programs have named.
var onlyInEnvironment = [][2]string{
	{"PODAGENT_GIT_USERNAME", "who logs in for --git"},
	{"PODAGENT_GIT_PASSWORD", "the password or token for --git"},
	{"PODAGENT_MCP_TOKEN", "the token of clients of mcp --http"},
	{"PODAGENT_BIN", "the local backend's podagent binary (default beside this program, or in PATH)"},
	{"KUBECONFIG", "the kubeconfig where --kubeconfig has none, as kubectl has it"},
	{"XDG_CONFIG_HOME", "the configuration directory (default .config in HOME)"},
	{"XDG_STATE_HOME", "where the local backend keeps its sandboxes (default .local/state in HOME)"},
}

// EnvironmentHelp returns lines of help for the variables that are no settings.
func EnvironmentHelp() string {
	var text strings.Builder
	for _, v := range onlyInEnvironment {
		fmt.Fprintf(&text, "  %-21s  %s\n", v[0], v[1])
	}
	return text.String()
}

const pageHead = `<!-- Made by "make generate" from the flags: edit these. -->

# Settings of the orchestrator

A setting can be given by its flag, by a variable of the environment, and by its
key in the configuration file, in YAML: the first of them that has a value is
taken, else the default. The file is that of ` + "`--config`" + `, or of PODAGENT_CONFIG, or
` + "`podagent/config.yaml`" + ` in the configuration directory, if that is there.

` + "```yaml" + `
image: registry.example.com/runtime:1
heartbeat: 30s
keep-workspace: true
requests: {cpu: 500m, memory: 1Gi}
label:
  team: search
volume:
  - data/org-1:/memory
  - skills:/skills:ro
` + "```" + `

- A value is what the flag takes. A relative path begins in the current directory.
- A flag that may be repeated takes a list in the file, and in the environment a
  line for each value. They take the place of what a later source has: lists are
  not joined.
- What consists of pairs (KEY=VALUE and its like) can be a map in the file.
- A variable that is empty is none. A key that is blank, is there twice or is no
  setting is an error, and so is a value that the flag does not take: the error
  names the variable, or the file, the line and the key.
- A setting is for the verbs that have its flag (--env and --workdir are those of new
  sandboxes, and not of commands by exec). The local backend ignores those of
  pods and clusters; their flags are an error there. Of two that exclude each other,
  a source sets aside what later ones say of the other.
- ` + "`orchestrator settings`" + ` lists them with their values, and where these come from.

`

// Page returns the page of all settings, in Markdown.
func Page(root *cobra.Command) string {
	var page strings.Builder
	page.WriteString(pageHead)
	page.WriteString("| flag | variable | key | default | meaning |\n|---|---|---|---|---|\n")
	row := func(s Setting) {
		fmt.Fprintf(&page, "| %s | `%s` | %s | %s | %s |\n", code(strings.TrimSpace(s.Flag+" "+s.Takes)), s.Variable, code(s.Key), cell(s.Default), cell(s.Meaning))
	}
	config := newSetting(root.PersistentFlags().Lookup(configFlag))
	config.Key = ""
	row(config)
	for _, s := range describe(Of(root)) {
		row(s)
	}
	page.WriteString("\nIn the environment alone are:\n\n| variable | meaning |\n|---|---|\n")
	for _, v := range onlyInEnvironment {
		fmt.Fprintf(&page, "| `%s` | %s |\n", v[0], cell(v[1]))
	}
	return page.String()
}

// cell returns a text as a cell of a table has it.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + cell(s) + "`"
}
