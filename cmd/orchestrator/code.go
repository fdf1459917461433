package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// codeOptions say what opens what.
type codeOptions struct {
	editor  flagvalue.Choice
	install bool
}

func codeCommand(a *app) *cobra.Command {
	opts := codeOptions{editor: flagvalue.NewChoice(editorNames()...)}
	opts.editor.Value = "" // the default depends on the environment
	cmd := &cobra.Command{
		Use:   "code ID [PATH]",
		Short: "Open a sandbox in an editor: VS Code, Cursor, Zed and others",
		Long: `Code opens the workdir of a sandbox in an editor of this machine, or PATH: a directory or
a file. A paused sandbox is resumed. The editor connects by ssh, so its configuration must
have the block of "orchestrator ssh-config" with the same flags. If it has not, code says so;
with --install, code puts the block there.

The editor is that of --editor, or that of VISUAL or EDITOR, if it is one of these, or VS Code.

Editors run a server of theirs in the sandbox, which they download there, or copy. A sandbox with
a level of egress must let them: "orchestrator egress ID --allow-host @vscode" allows the hosts of
VS Code, @cursor those of Cursor, and so on.

An editor trusts its server, which code in the sandbox can replace: it may ask for Git credentials
or forward ports. docs/ssh.md has the settings for sandboxes that you do not trust.

Exit status: that of the editor's program. If it was not run, 1 if there is no such PATH, else 125.`,
		Example: `  orchestrator code job-1
  orchestrator code job-1 cmd/main.go --editor zed
  orchestrator code job-1 --install`,
		Args:              takes(1, 2),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "."
			if len(args) == 2 {
				name = args[1]
			}
			return a.code(cmd, args[0], name, opts)
		},
	}
	flags := cmd.Flags()
	flags.Var(&opts.editor, "editor", "the editor that code opens (default that of VISUAL or EDITOR if it is one of these, else vscode)")
	flags.BoolVar(&opts.install, "install", false, "put the block of ssh-config into ~/.ssh/config, unless it counts already")
	settings.Mark(flags, "editor")
	_ = cmd.RegisterFlagCompletionFunc("editor", opts.editor.Complete) // the only possible error is an unknown flag
	return cmd
}

// code opens a path of a sandbox in an editor.
func (a *app) code(cmd *cobra.Command, id, name string, opts codeOptions) error {
	e, program, err := chooseEditor(opts.editor.Value)
	var host string
	if err == nil {
		host, err = a.editorHost(cmd, id, opts.install)
	}
	if err != nil {
		return &sandboxError{id: id, launching: true, err: err}
	}
	var at string
	var isDir bool
	err = a.wake(cmd.Context(), id, func(sandbox *launcher.Sandbox) error {
		a.tellDownloads(sandbox, e)
		at = name
		if !path.IsAbs(name) {
			at = path.Join(sandbox.Workdir, name)
		}
		if !path.IsAbs(at) {
			return fmt.Errorf("the workdir of sandbox %s is said to be %q, which is not absolute", quote(id), sandbox.Workdir)
		}
		info, err := sandbox.Stat(cmd.Context(), at)
		isDir = err == nil && info.IsDir()
		return err
	})
	if err != nil {
		return err
	}
	if a.json() {
		if err := a.print(struct {
			Editor string `json:"editor"`
			Host   string `json:"host"`
			Path   string `json:"path"`
		}{e.name, host, at}, ""); err != nil {
			return err
		}
	}
	return runProgram(cmd.Context(), a.streams, program, e.open(host, at, isDir))
}

// editorHost returns the host's name of a sandbox, to which ssh's configuration leads.
func (a *app) editorHost(cmd *cobra.Command, id string, install bool) (string, error) {
	c, err := a.sshConfig(cmd)
	if err != nil {
		return "", err
	}
	host, err := c.plainHost(id)
	if err != nil {
		return "", err
	}
	return host, a.haveHost(cmd, c, host, install)
}

// plainHost returns the name of the host that the block has for a sandbox.
func (c *sshConfig) plainHost(id string) (string, error) {
	if host := c.host(id, ""); host == id+sshHost {
		return host, nil
	}
	return "", usagef("%q cannot be the name of a host, which editors need: ids of up to 190 letters, digits, dots, dashes and underscores can", id)
}

// haveHost sees to it that ssh reaches a host by the block, and not in another way or at another place.
func (a *app) haveHost(cmd *cobra.Command, c *sshConfig, host string, install bool) error {
	has, err := c.counts(cmd.Context(), host)
	if has || err != nil {
		return err
	}
	if !install {
		flags, err := a.placeFlags(cmd)
		if err != nil {
			return err
		}
		words := []string{"orchestrator", "ssh-config", "--install"}
		for _, f := range flags {
			words = append(words, quote(f))
		}
		return usagef("the configuration of ssh does not lead %s to this sandbox: run %s once, or give --install", host, strings.Join(words, " "))
	}
	file, err := installSSH(c.block())
	if err != nil {
		return local(err)
	}
	a.note("the block for ssh is in %s now", quote(file))
	if has, err = c.counts(cmd.Context(), host); err == nil && !has {
		err = local(fmt.Errorf("ssh does not use %s for %s: is that the configuration of the user that ssh runs as?", quote(file), host))
	}
	return err
}

// settled returns what ssh says of a host that the block counts for, by the names that ssh gives it.
func (c *sshConfig) settled() map[string]string {
	return map[string]string{"proxycommand": c.blockProxy(), "user": c.scope, "hostkeyalias": knownHost}
}

// counts reports whether ssh's own configuration leads to a host as the block does.
func (c *sshConfig) counts(ctx context.Context, host string) (bool, error) {
	ssh := exec.CommandContext(ctx, "ssh", "-G", "--", host)
	var problem bytes.Buffer
	ssh.Stderr = &problem
	out, err := ssh.Output()
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return false, local(fmt.Errorf("ssh cannot read its configuration: %s", strings.TrimSpace(problem.String())))
	}
	if err != nil {
		return false, local(err)
	}
	want := c.settled()
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if want[name] == value {
			delete(want, name)
		}
	}
	return len(want) == 0, nil
}

// wake opens a sandbox, which it resumes if it is paused, and does the work.
func (a *app) wake(ctx context.Context, id string, work func(*launcher.Sandbox) error) error {
	err := a.open(ctx, id, work)
	if !errors.Is(err, launcher.ErrPaused) {
		return err
	}
	l, err := a.podLauncher("code")
	if err != nil {
		return err
	}
	a.note("sandbox %s is paused: resuming it", quote(id))
	sandbox, err := l.Resume(ctx, id)
	if err != nil {
		return &sandboxError{id: id, launching: true, err: err}
	}
	return within(sandbox, work)
}

// tellDownloads says what the editor's server downloads, if the sandbox may not reach that, and what an editor
// that runs already cannot know.
func (a *app) tellDownloads(sandbox *launcher.Sandbox, e *editor) {
	if sandbox.Egress.Level.AtLeast(wayout.Landlock) {
		way := fmt.Sprintf(`"orchestrator egress %s --allow-host %s" lets it, while it runs`, quote(sandbox.ID), e.rule())
		if a.backend.Value == throughGateway {
			way = fmt.Sprintf("the rule %s lets it, in allow_hosts of the gateway's tenant", e.rule())
		}
		a.note("the server of %s downloads from %s, which the way out of sandbox %s may not allow: %s", e.title, e.hosts(), quote(sandbox.ID), way)
	}
	if a.backend.Value == throughGateway && a.remote.tokenFile == "" && os.Getenv(gatewayTokenEnv) != "" {
		a.note("an editor that runs already does not have the token of %s: give it in a file, by --gateway-token-file", gatewayTokenEnv)
	}
}
