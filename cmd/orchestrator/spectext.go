package main

import (
	"strings"

	"github.com/podagent/podagent/pkg/launcher"
)

// specNames are what the fields of a Spec are called on the command line.
var specNames = map[string]string{
	"ID":                 "the id",
	"Workdir":            "--workdir",
	"Env":                "--env",
	"Protected":          "--protect",
	"Git.URL":            "--git",
	"Git.Ref":            "--git-ref",
	"Git.Timeout":        "--git-timeout",
	"Git.Username":       "PODAGENT_GIT_USERNAME",
	"Git.Password":       "PODAGENT_GIT_PASSWORD",
	"Pod.Image":          "--image",
	"Pod.AgentImage":     "--agent-image",
	"Pod.Main":           "--main",
	"Pod.Volumes":        "--volume",
	"Pod.Workspace":      "the workspace (--keep-workspace, --workspace-size, --storage-class)",
	"Pod.RuntimeClass":   "--runtime-class",
	"Pod.PriorityClass":  "--priority-class",
	"Pod.PullSecrets":    "--pull-secret",
	"Pod.NodeSelector":   "--node-selector",
	"Pod.Tolerations":    "--toleration",
	"Pod.Patch":          "--file",
	"Pod.Lifetime":       "--lifetime",
	"Pod.IdleTimeout":    "--max-idle",
	"Pod.Labels":         "--label",
	"Pod.Annotations":    "--annotation",
	"Pod.Resources":      "the sandbox (--requests, --limits)",
	"Pod.ServiceAccount": "--service-account",
	"Pod.ReadOnly":       "--read-only",
	"Pod.Profile":        "--profile",
	"Pod.ActiveDeadline": "--active-deadline",
	"Pod.ReadyTimeout":   "--ready-timeout",
	"Pod.Heartbeat":      "--heartbeat",
	"Pod.OnStale":        "--on-stale",
	"Pod.OnDrift":        "--on-drift",
	"StaleAfter":         "--stale-after",
	"Connection":         "--connection (PODAGENT_CONNECTION)",
}

// specWords are the library's words for other fields, in its messages.
var specWords = strings.NewReplacer(
	"Username and Password", "PODAGENT_GIT_USERNAME and PODAGENT_GIT_PASSWORD",
	"no Password", "no PODAGENT_GIT_PASSWORD",
	"HeartbeatOff", "off",
	"the ActiveDeadline", "the --active-deadline",
	"set Keep", "give --keep-workspace",
)

// specText says what is wrong with a flag.
func specText(e *launcher.SpecError) string {
	name, ok := specNames[e.Field]
	if !ok {
		return e.Error()
	}
	return name + " " + specWords.Replace(e.Msg)
}
