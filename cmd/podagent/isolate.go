package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/agent"
	"github.com/podagent/podagent/cmd/podagent/internal/confine"
	"github.com/podagent/podagent/cmd/podagent/internal/isolate"
	"github.com/podagent/podagent/internal/mark"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// isolationFlags are the flags of serve that keep the agent from the rest of its machine.
type isolationFlags struct {
	mode   isolation.Mode
	view   isolate.View
	limits isolate.Limits

	limited bool // by limits that were named
	lineage string
}

func (f *isolationFlags) define(flags *flag.FlagSet) {
	flags.Func("isolation", "keep the agent and its processes from the rest of this machine, at `LEVEL`: namespaces, with a file system, processes and a network of their own; landlock, by rules of the kernel; auto takes the strongest that there can be; require that, or fails; none (default none)", func(s string) (err error) {
		f.mode, err = isolation.ParseMode(s)
		return err
	})
	flags.StringVar(&f.view.Home, "home", "", "with --isolation, the home `DIR` of the sandbox, which only it uses")
	flags.StringVar(&f.view.Temp, "temp", "", "with --isolation, the `DIR` for the sandbox's temporary files, which only it uses")
	for name, to := range map[string]struct {
		list  *[]string
		usage string
	}{
		"readable": {&f.view.Readable, "let the sandbox read the absolute path `DIR`; may be repeated"},
		"hide":     {&f.view.Hidden, "hide the absolute path `DIR`, without symbolic links, where it lies in what can be read of the system; may be repeated"},
		"link":     {&f.view.Links, "let the absolute path `LINK` be a symbolic link in the sandbox, too, if it has what that leads to; may be repeated"},
	} {
		flags.Func(name, "with --isolation, "+to.usage, func(s string) error {
			if !filepath.IsAbs(s) {
				return fmt.Errorf("%q is not absolute", s)
			}
			*to.list = append(*to.list, s)
			return nil
		})
	}
	flags.Int64Var(&f.view.Ephemeral, "ephemeral", 0, "with --isolation, have what is in the workdir, home and temporary files in memory, up to `BYTES`; it ends with the agent, and takes namespaces (default on disk)")
	flags.StringVar((*string)(&f.limits.Limiter), "limiter", "", "with --isolation, `WHAT` limits the agent and its processes already: cgroup, a control group that limits both memory and processes")
	flags.StringVar(&f.limits.NoControlGroup, "no-control-group", "", "with --isolation, the `REASON` why there is no such control group, for callers")
	flags.IntVar(&f.limits.Processes, "processes", 0, "with --isolation, let there be at most `N` processes and threads, by resource limits (default no limit)")
	flags.BoolVar(&f.limits.Required, "processes-required", false, "end if these limits cannot count the processes of this agent alone")
	flags.BoolVar(&f.limited, "limits-required", false, "end if nothing isolates this agent: commands could lift its limits then")
	flags.StringVar(&f.lineage, "lineage", "", "the hard limits `LOCKS:RTTIME`, by which the launcher finds the agent's processes")
}

// isolated has the agent run isolated, if it is to. It reports whether this program has nothing to do any
// more, as another one did it.
func isolated(config *agent.Config, flags isolationFlags) (done bool, err error) {
	if flags.mode == "" || flags.mode == isolation.Off {
		return false, nil
	}
	state, err := isolate.Inside()
	if err != nil {
		return false, err
	}
	if state != nil {
		return false, equip(config, state)
	}
	if err := flags.check(config); err != nil {
		return false, err
	}
	if path, ok := os.LookupEnv("PATH"); ok {
		os.Setenv("PATH", flags.view.FollowPath(path))
	}
	sockets, err := agent.Bind(config.Listen)
	if err != nil {
		return false, err
	}
	pass := func(opened, to *os.File) {
		if err := agent.Pass(opened, to, len(config.AuthorizedKeys) == 0); err != nil {
			config.Log.Error("nobody can call the agent any more", "error", err)
		}
	}
	status, err := 0, errUnconfined
	if config.Confine != confine.Off {
		status, err = isolate.Run(flags.mode, flags.view, flags.limits, isolate.Sockets{Opened: sockets, Pass: pass}, config.Log)
	}
	if flags.mode == isolation.Auto && errors.Is(err, isolate.ErrUnavailable) {
		if flags.limited || flags.limits.Required || flags.view.Ephemeral > 0 {
			return false, err
		}
		config.Sockets, config.Isolation.Missing = sockets, isolate.Reason(err)
		return false, nil
	}
	if err == nil && status != 0 {
		err = &agent.ExitError{Code: status}
	}
	return true, err
}

// errUnconfined says that no level isolates commands that the agent's own boundary does not confine: they could
// use keys of the user, at least.
var errUnconfined = isolate.Unavailable(errors.New("commands are not confined, as PODAGENT_CONFINE or --confine says"))

// serveIsolated serves. That the kernel cannot confine commands of an isolated agent means that there cannot be
// its level.
func serveIsolated(ctx context.Context, config agent.Config) error {
	err := agent.Serve(ctx, config)
	if config.Isolation.Level != isolation.None && errors.Is(err, confine.ErrUnavailable) {
		err = isolate.Unavailable(err)
	}
	return err
}

// check completes the view, and refuses what an isolated agent cannot do.
func (f *isolationFlags) check(config *agent.Config) (err error) {
	f.view.Workdir, f.view.Checkpoints = config.Workdir, config.Checkpoints
	for name, dir := range map[string]*string{"home": &f.view.Home, "temp": &f.view.Temp} {
		if *dir == "" {
			return usageError{fmt.Errorf("--isolation needs --%s", name)}
		}
		if *dir, err = filepath.Abs(*dir); err != nil {
			return err
		}
	}
	if config.Health != "" {
		return usageError{errors.New("--health is for agents in pods, and --isolation for others")}
	}
	return nil
}

// equip gives an isolated agent and its processes what they have: sockets, a home, and a directory for
// temporary files. Without any other word they have the strongest way out: none but the proxy.
func equip(config *agent.Config, state *isolate.State) (err error) {
	view := state.View
	temp := view.Temp
	if state.Level == isolation.Namespaces {
		temp = "/tmp" // which it is there, too, and leaves room for the paths of sockets
	}
	config.Sockets, config.Isolation = state.Files(), state.Info
	config.ProcessLimit = state.Processes
	config.SocketsPass = state.Level == isolation.Namespaces
	config.Workdir, config.JournalDirs = view.Workdir, []string{view.Temp}
	config.Checkpoints = state.Checkpoints()
	config.Env = append(config.Env, "HOME="+view.Home, "TMPDIR="+temp)
	if path, ok := os.LookupEnv("PATH"); ok {
		config.Env = append(config.Env, "PATH="+view.Path(path))
	}
	if config.Egress.Mode == "" {
		config.Egress.Mode = wayout.Auto
	}
	if config.Confine == "" || config.Confine == confine.Auto {
		config.Confine = confine.RequireFilter
	}
	if state.Level == isolation.Landlock {
		config.Files, err = view.Files()
	}
	return err
}

// bearLineage sets the limits by which all that is below this process is found: see the launcher of local sandboxes.
// Where the kernel lets nobody set them, there is no such mark.
func (f *isolationFlags) bearLineage() error {
	if f.lineage == "" {
		return nil
	}
	var locks, rttime uint64
	if _, err := fmt.Sscanf(f.lineage, "%d:%d", &locks, &rttime); err != nil {
		return usageError{fmt.Errorf("--lineage %s is not LOCKS:RTTIME: %w", f.lineage, err)}
	}
	if !mark.Settable(unix.RLIMIT_LOCKS) || !mark.Settable(unix.RLIMIT_RTTIME) {
		return nil // the launcher finds the processes by their environment alone
	}
	for resource, limit := range map[int]uint64{unix.RLIMIT_LOCKS: locks, unix.RLIMIT_RTTIME: rttime} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("cannot mark the agent's processes: %w", err)
		}
	}
	return nil
}
