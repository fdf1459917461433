package main

import (
	"errors"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/launcher"
)

// specNames are the names of a Spec's fields on the command line.
var specNames = map[string]string{
	"ID":                      "the id",
	"Workdir":                 "--workdir",
	"Env":                     "--env",
	"Protected":               "--protect",
	"Git.URL":                 "--git",
	"Git.Ref":                 "--git-ref",
	"Git.Timeout":             "--git-timeout",
	"Git.Username":            "PODAGENT_GIT_USERNAME",
	"Git.Password":            "PODAGENT_GIT_PASSWORD",
	"Pod.Image":               "--image",
	"Pod.AgentImage":          "--agent-image",
	"Pod.Main":                "--main",
	"Pod.Volumes":             "--volume",
	"Pod":                     "the pod (--annotation, --label, --file)",
	"Pod.Workspace.Keep":      "--keep-workspace",
	"Pod.Workspace":           "the workspace (--keep-workspace, --own-workspace, --workspace-size, --storage-class)",
	"Pod.RuntimeClass":        "--runtime-class",
	"Pod.PriorityClass":       "--priority-class",
	"Pod.PullSecrets":         "--pull-secret",
	"Pod.NodeSelector":        "--node-selector",
	"Pod.Tolerations":         "--toleration",
	"Pod.Patch":               "--file",
	"Pod.Lifetime":            "--lifetime",
	"Pod.IdleTimeout":         "--max-idle",
	"Pod.IdleIgnoresCommands": "--idle-ignores-commands",
	"Pod.Labels":              "--label",
	"Pod.Annotations":         "--annotation",
	"Pod.Resources":           "the sandbox (--requests, --limits)",
	"Pod.ServiceAccount":      "--service-account",
	"Pod.ReadOnly":            "--read-only",
	"Pod.Profile":             "--profile",
	"Pod.Confine":             "--confine",
	"Pod.UserNamespace":       "--user-namespace",
	"Pod.ActiveDeadline":      "--active-deadline",
	"Egress.Mode":             "--egress",
	"Egress.Require":          "--egress-require",
	"Egress.Ports":            "--local-port",
	"Take.ReadyTimeout":       "--ready-timeout",
	"Take.Heartbeat":          "--heartbeat",
	"Take.Pool":               "--pool",
	"Pool.Name":               "the pool's name",
	"Pool.Size":               "the pool's size",
	"Take.OnStale":            "--on-stale",
	"Take.OnDrift":            "--on-drift",
	"StaleAfter":              "--stale-after",
	"Connection":              "--connection",
	"Namespace":               "--namespace",
	"IdentitySecret":          "--identity-secret",
	"APIRate":                 "--api-rate",
}

// specWords replaces the library's names of other fields in its messages.
var specWords = strings.NewReplacer(
	"Username and Password", "PODAGENT_GIT_USERNAME and PODAGENT_GIT_PASSWORD",
	"no Password", "no PODAGENT_GIT_PASSWORD",
	"HeartbeatOff", "off",
	"the ActiveDeadline", "the --active-deadline",
	"need an Egress.Mode", "needs --egress: without a level there is no fence",
)

// A flagsError is an error about the values of flags, which may have come from
// elsewhere.
type flagsError struct {
	error
	flags *pflag.FlagSet
}

func (e *flagsError) Unwrap() error { return e.error }

// marked marks an error with what its explanation depends on: one about a Spec with the flags that made it,
// and any of the remote backend. It marks each joined error separately.
func (a *app) marked(err error) error {
	if err == nil {
		return nil
	}
	if parts, ok := joinedIn(err); ok {
		list := make([]error, len(parts))
		for i, part := range parts {
			list[i] = a.marked(part)
		}
		return errors.Join(list...)
	}
	if errors.As(err, new(*launcher.SpecError)) && a.flags != nil {
		err = &flagsError{err, a.flags}
	}
	if a.backend.Value == throughGateway {
		err = &throughError{err}
	}
	return err
}

// joinedIn returns the errors that errors.Join has made one of. Others that wrap several have words of
// their own.
func joinedIn(err error) ([]error, bool) {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil, false
	}
	parts := several.Unwrap()
	joined := errors.Join(parts...)
	return parts, joined != nil && joined.Error() == err.Error()
}

// flagName matches the flags in specNames.
var flagName = regexp.MustCompile(`--[a-z-]+`)

// specText says what is wrong with a flag, or with the setting used in its place. e
// is in err.
func specText(e *launcher.SpecError, err error) string {
	name, ok := specNames[e.Field]
	if !ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*flagsError](err); ok {
		name = flagName.ReplaceAllStringFunc(name, func(word string) string {
			if f := e.flags.Lookup(strings.TrimPrefix(word, "--")); f != nil {
				return settings.Origin(f)
			}
			return word
		})
	}
	return name + " " + specWords.Replace(e.Msg)
}
