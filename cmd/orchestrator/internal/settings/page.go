package settings

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// onlyInEnvironment are variables that are not settings: secrets, which flags would
// show and files would keep, and variables that other programs define.
var onlyInEnvironment = [][2]string{
	{"PODAGENT_GIT_USERNAME", "the user name for --git"},
	{"PODAGENT_GIT_PASSWORD", "the password or token for --git"},
	{"PODAGENT_MCP_TOKEN", "the token of clients of mcp --http"},
	{"PODAGENT_GATEWAY_TOKEN", "the token for --gateway, without --gateway-token-file"},
	{"PODAGENT_BIN", "the local backend's podagent binary (default beside this program, or in PATH)"},
	{"KUBECONFIG", "the kubeconfig without --kubeconfig, as for kubectl"},
	{"XDG_CONFIG_HOME", "the configuration directory (default .config in HOME)"},
	{"XDG_STATE_HOME", "where the local backend keeps its sandboxes (default .local/state in HOME)"},
}

// EnvironmentHelp returns lines of help for the variables that are not settings.
func EnvironmentHelp() string {
	var text strings.Builder
	for _, v := range onlyInEnvironment {
		fmt.Fprintf(&text, "  %-21s  %s\n", v[0], v[1])
	}
	return text.String()
}

const pageHead = `<!-- Made by "make generate" from the flags: edit these. -->

# Settings of the orchestrator

You can give a setting by its flag, by a variable of the environment, or by its key in
the configuration file, which is YAML. The first of these that has a value counts,
else the default. The file is that of ` + "`--config`" + `, or of PODAGENT_CONFIG, or
` + "`podagent/config.yaml`" + ` in the configuration directory, if it is there.

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

- Write a value as the flag takes it. A relative path begins in the current directory.
- A flag that may be repeated takes a list in the file, and a line for each value in
  the environment. Lists are not joined: the first source that has one counts.
- Pairs (KEY=VALUE and the like) can be a map in the file.
- An empty variable counts as none. A blank or repeated key is an error, and so are a
  key that is not a setting and a value that the flag does not take. The error names the
  variable, or the file, the line and the key.
- Verbs ignore settings whose flags they do not have. (--env and --workdir are those of
  new sandboxes, not of exec.) The local backend ignores the settings of pods and
  clusters; their flags are errors there. If two settings exclude each other, the
  first source that gives one of them sets the other aside.
- ` + "`orchestrator settings`" + ` lists all settings with their values, and where these come
  from.

`

// Page returns the page of all settings, in Markdown.
func Page(root *cobra.Command) string {
	var page strings.Builder
	page.WriteString(pageHead)
	page.WriteString("| flag | variable | key | default | meaning |\n|---|---|---|---|---|\n")
	row := func(s Setting) {
		fmt.Fprintf(&page, "| %s | `%s` | %s | %s | %s |\n", code(strings.TrimSpace(strings.Replace(s.Flag+" "+s.Takes, " [=", "[=", 1))), s.Variable, code(s.Key), cell(s.Default), cell(s.Meaning))
	}
	config := newSetting(root.PersistentFlags().Lookup(configFlag))
	config.Key = ""
	row(config)
	for _, s := range describe(Of(root)) {
		row(s)
	}
	page.WriteString("\nThese can only be in the environment:\n\n| variable | meaning |\n|---|---|\n")
	for _, v := range onlyInEnvironment {
		fmt.Fprintf(&page, "| `%s` | %s |\n", v[0], cell(v[1]))
	}
	return page.String()
}

// cell returns a text as a table cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + cell(s) + "`"
}
