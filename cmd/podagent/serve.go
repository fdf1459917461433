package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/agent"
	"github.com/podagent/podagent/cmd/podagent/internal/confine"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// envPrefix begins the names of the environment variables that stand for flags.
// Processes in the sandbox do not get these variables.
const envPrefix = "PODAGENT_"

// defaultListen is where the agent serves unless it is told otherwise.
const defaultListen = "tcp:127.0.0.1:7463"

// terminationLog is the file that the node copies to the status of a container that
// ends.
const terminationLog = "/dev/termination-log"

// memoryLimit is the size in bytes at which the garbage collector begins to work harder,
// unless GOMEMLIMIT says otherwise. The agent leaves a small sandbox's memory to the
// work in it: with the pages of its program it stays below 64 MiB, also when 500 connections
// move bytes.
const memoryLimit = 44 << 20

// gcPercent is by how many percent the heap may grow until it is collected, unless
// GOGC says otherwise. An agent's heap is small: with Go's 100 it would be collected
// several times during a search of some thousand files, which then took a fifth longer.
const gcPercent = 300

func serve(ctx context.Context, args []string, stdout io.Writer) error {
	config, view, err := serveConfig(args, stdout)
	if err != nil {
		return err
	}
	if err := view.bearLineage(); err != nil {
		return err
	}
	if done, err := isolated(&config, view); done || err != nil {
		return err
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	// Processes of the same user must not read or write the agent's memory: it holds
	// the authorized keys, and they could then call the agent.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot hide the agent's memory: %w", err)
	}
	if os.Getpid() == 1 {
		outliveSignals()
	} else if signal.Ignored(unix.SIGHUP) {
		// Who started it said nohup. Commands would inherit that, but not that the agent drops the signal.
		signal.Notify(make(chan os.Signal, 1), unix.SIGHUP)
	}
	return serveIsolated(ctx, config)
}

// outliveSignals keeps processes in the sandbox from ending the agent by a signal that
// kills a Go program. The kernel keeps signals that PID 1 does not handle from it, but
// the Go runtime handles all. Faults of the agent itself still end it, and so do TERM
// and INT, by which nodes end pods.
func outliveSignals() {
	unread := make(chan os.Signal, 1) // nobody reads it, and signals that do not fit are dropped
	signal.Notify(unread, unix.SIGHUP, unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT,
		unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGSYS)
}

// serveConfig reads the flags, and the environment for those that are not given.
func serveConfig(args []string, stdout io.Writer) (config agent.Config, view isolationFlags, err error) {
	config = agent.Config{Version: wire.Version(), Env: processEnv(os.Environ()), Alone: true}
	level := slog.LevelInfo
	flags := serveFlags(&config, &level)
	view.define(flags)
	if err := parse(flags, args, "serve [flags] [-- COMMAND...]\n\nCOMMAND runs beside the agent. Its output goes to the agent's, and when it ends, the\nagent exits with its status. The environment can give every flag: --log-level by "+envPrefix+"LOG_LEVEL.", stdout); err != nil {
		return config, view, err
	}
	if err := fromEnvironment(flags); err != nil {
		return config, view, err
	}
	if i := len(args) - flags.NArg() - 1; flags.NArg() > 0 && (i < 0 || args[i] != "--") {
		return config, view, usageError{fmt.Errorf("serve takes a command behind --, but got %q", flags.Args())}
	}
	if config.IdleTimeout < 0 {
		return config, view, usageError{fmt.Errorf("the idle timeout is negative: %v", config.IdleTimeout)}
	}
	if config.Egress.Require != wayout.Open && config.Egress.Mode == "" {
		config.Egress.Mode = wayout.Auto
	}
	config.Main = flags.Args()
	if len(config.Listen) == 0 {
		config.Listen = []string{defaultListen}
	}
	if config.PodUID != "" {
		config.TerminationLog = terminationLog
	}
	config.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if config.Checkpoints != "" {
		if config.Checkpoints, err = filepath.Abs(config.Checkpoints); err != nil {
			return config, view, err
		}
	}
	config.Workdir, err = filepath.Abs(config.Workdir)
	return config, view, err
}

// serveFlags defines the flags, which change config and level.
func serveFlags(config *agent.Config, level *slog.Level) *flag.FlagSet {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.Func("listen", "serve on `ADDRESS`: unix:PATH or tcp:HOST:PORT, or several with commas between them; may be repeated (default "+defaultListen+")", func(s string) error {
		config.Listen = append(config.Listen, addresses(s)...)
		return nil
	})
	flags.StringVar(&config.Health, "health", "", "serve only health checks on `ADDRESS`")
	flags.StringVar(&config.Workdir, "workdir", "", "relative paths start in `DIR` (default the current directory)")
	journalFlag(flags, config)
	flags.StringVar(&config.Checkpoints, "checkpoints", "", "keep checkpoints of the workdir in `DIR`, which is not in it, and should be on its file system (default no checkpoints)")
	flags.Int64Var(&config.CheckpointsVolume, "checkpoints-volume", 0, "the workdir and its checkpoints may have `BYTES` together: what holds them does not say so itself (default what is free)")
	flags.StringVar(&config.PodUID, "pod-uid", "", "the `UID` of the pod that the agent runs in")
	flags.BoolVar(&config.Insecure, "insecure", false, "serve on the loopback without a key: everybody who can connect may call")
	flags.Func("authorized-key", "accept calls from the holder of `KEY` (ed25519:BASE64); may be repeated", func(s string) error {
		return addKeys(config, s)
	})
	flags.StringVar(&config.Keychain, "keychain", "", "accept the keys at the end of `CHAIN` in place of the authorized keys, as far as it is signed by them")
	flags.BoolVar(&config.AwaitAssignment, "await-assignment", false, "until a caller assigns the agent to a sandbox, answer Info and Configure alone; with this flag, exit with 1 on TERM and INT")
	flags.StringVar(&config.Assignment, "assignment", "", "the `ASSIGNMENT` that the agent had before it was started again")
	flags.Func("process-env", "add variables to the environment of processes: base64 of `NAME=VALUE` texts that each end with a NUL", func(s string) (err error) {
		config.ProcessEnv, err = wire.ParseEnv(s)
		return err
	})
	flags.Func("protect", "protect the paths that the glob `PATTERN` matches, and all below them, from changes by calls, though not by commands; may be repeated", func(s string) error {
		config.Protected = append(config.Protected, s)
		return fsops.CheckProtected(config.Protected)
	})
	flags.Func("read-only", "tell callers that the absolute path `DIR` is mounted read-only, and end if it is not; may be repeated", func(s string) error {
		config.ReadOnly = append(config.ReadOnly, s)
		return nil
	})
	flags.Func("confine", "keep processes within a boundary of the kernel, at `LEVEL`: auto takes what the kernel can do, filter and domain end the agent if it cannot do these, and off has none (default auto)", func(s string) (err error) {
		config.Confine, err = confine.ParseLevel(s)
		return err
	})
	egressFlags(flags, &config.Egress)
	flags.DurationVar(&config.IdleTimeout, "idle-timeout", 0, "exit with 0 when there was no call and no process for `DURATION`; with this flag, exit with 1 on TERM and INT")
	flags.BoolVar(&config.IdleIgnoresCommands, "idle-ignores-commands", false, "let processes that run without a call that waits for them count for nothing in --idle-timeout")
	flags.Func("expires", "exit with 0 at `TIME`, in the format of RFC 3339; with this flag, exit with 1 on TERM and INT", func(s string) (err error) {
		config.Expires, err = time.Parse(time.RFC3339Nano, s)
		return err
	})
	flags.TextVar(level, "log-level", slog.LevelInfo, "log messages of `LEVEL` and above: DEBUG, INFO, WARN or ERROR")
	return flags
}

// egressFlags define how processes may leave the sandbox.
func egressFlags(flags *flag.FlagSet, config *wayout.Config) {
	flags.Func("egress", "let processes leave by the proxy on the loopback, and keep them from other ways at `LEVEL`: network, for a network that leads nowhere; landlock, by the kernel; advisory, by variables alone; auto takes the strongest that there can be; off has no proxy until a far end serves (default off)", func(s string) (err error) {
		config.Mode, err = wayout.ParseMode(s)
		return err
	})
	flags.Func("egress-require", "end if the level of --egress is weaker than `LEVEL`: landlock or network", func(s string) (err error) {
		config.Require, err = wayout.ParseRequired(s)
		return err
	})
	flags.Func("local-port", "let processes connect to `PORT`, too, at the level landlock; may be repeated, or several with commas between them", func(s string) error {
		for field := range strings.SplitSeq(s, ",") {
			port, err := strconv.ParseUint(field, 10, 16)
			if err != nil || port == 0 {
				return fmt.Errorf("%q is no port: ports are 1 to 65535", field)
			}
			config.Ports = append(config.Ports, uint16(port))
		}
		return nil
	})
}

// journalFlag defines --journal-dir. Images may have no directory for temporary
// files.
func journalFlag(flags *flag.FlagSet, config *agent.Config) {
	config.JournalDirs = []string{os.TempDir(), os.Getenv("HOME")}
	usage := "keep the output of processes in `DIR`, in a file without a name; if empty, keep less of it, in memory (default " + os.TempDir() + ", or else the home directory)"
	flags.Func("journal-dir", usage, func(dir string) error {
		config.JournalDirs = nil
		if dir != "" {
			config.JournalDirs = []string{dir}
		}
		return nil
	})
}

// addresses returns the addresses in s, separated by commas. Paths of sockets may contain
// commas, too.
func addresses(s string) []string {
	var list []string
	for part := range strings.SplitSeq(s, ",") {
		begins := strings.HasPrefix(part, "unix:") || strings.HasPrefix(part, "tcp:")
		if len(list) == 0 || begins {
			list = append(list, part)
		} else {
			list[len(list)-1] += "," + part
		}
	}
	return list
}

// addKeys adds the keys in s, which white space or commas separate.
func addKeys(config *agent.Config, s string) error {
	for _, field := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(", \n\t", r) }) {
		key, err := wire.ParseAuthorizedKey(field)
		if err != nil {
			return err
		}
		config.AuthorizedKeys = append(config.AuthorizedKeys, key)
	}
	return nil
}

// fromEnvironment gives the flags that are not on the command line the values
// that the environment has for them.
func fromEnvironment(flags *flag.FlagSet) error {
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var failed error
	flags.VisitAll(func(f *flag.Flag) {
		name := envName(f.Name)
		value := os.Getenv(name)
		if value == "" || given[f.Name] || failed != nil {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			failed = usageError{fmt.Errorf("invalid %s=%s: %w", name, strconv.Quote(value), err)}
		}
	})
	return failed
}

// envName returns the environment variable that stands for a flag.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// processEnv returns the part of the agent's environment that processes get.
func processEnv(environ []string) []string {
	var env []string
	for _, v := range environ {
		if !strings.HasPrefix(v, envPrefix) || strings.HasPrefix(v, agent.SandboxMarker) {
			env = append(env, v)
		}
	}
	return env
}

func checkHealth(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("health", flag.ContinueOnError)
	address := flags.String("health", os.Getenv(envName("health")), "the `ADDRESS` where the agent serves health checks")
	if err := parse(flags, args, "health [--health ADDRESS]", stdout); err != nil {
		return err
	}
	if *address == "" {
		return usageError{fmt.Errorf("no address: give --health, or set %s", envName("health"))}
	}
	return agent.CheckHealth(ctx, *address)
}
