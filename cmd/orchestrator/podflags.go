package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/launcher"
)

// sandboxFlags say what sandbox to make.
type sandboxFlags struct {
	spec   launcher.Spec
	egress egressFlags
	pod    podFlags
	git    gitFlags
}

// specFlags are the flags of the verbs that make a sandbox.
func specFlags(cmd *cobra.Command) *sandboxFlags {
	f := &sandboxFlags{}
	flags := cmd.Flags()
	flags.VarP((*flagvalue.Env)(&f.spec.Env), "env", "e", "set a variable of the environment of the sandbox's commands; together these replace the variables set before; may be repeated")
	flags.Var((*flagvalue.Patterns)(&f.spec.Protected), "protect", "protect the paths that the glob matches, and all below them, from the verbs for files and from tools, though not from commands; together these replace the globs set before; may be repeated")
	flags.StringVarP(&f.spec.Workdir, "workdir", "w", "", "the absolute `DIR` where relative paths start in a new sandbox (default a directory of its own)")
	settings.Mark(flags, "env", "protect", "workdir")
	f.egress.defineLaunch(cmd)
	f.pod.define(cmd)
	f.pod.defineLaunch(cmd)
	f.git.define(flags)
	return f
}

// build returns the Spec of the flags.
func (f *sandboxFlags) build(a *app) (launcher.Spec, error) {
	spec := f.spec
	var err error
	if spec.Pod, spec.Take, err = f.pod.build(a); err != nil {
		return spec, err
	}
	if spec.Egress, err = f.egress.build(a); err != nil {
		return spec, err
	}
	spec.Git, err = f.git.build()
	return spec, err
}

// confineAuto is the value of --confine that requires nothing.
const confineAuto = "auto"

// hostUsers is the value of --user-namespace for the users of the node.
const hostUsers = "off"

// podFlags say what pod to make, and how to take it.
type podFlags struct {
	pod                       launcher.Pod
	take                      launcher.Take
	profile, onStale, onDrift flagvalue.Choice
	confine                   flagvalue.Choice
	users                     flagvalue.Choice
	flags                     *pflag.FlagSet // these flags
}

// define defines the flags that describe a new pod.
func (p *podFlags) define(cmd *cobra.Command) {
	p.defineShared()
	pod, flags := &p.pod, p.flags
	pod.ActiveDeadline, p.take.ReadyTimeout = launcher.DefaultActiveDeadline, launcher.DefaultReadyTimeout
	flags.Var((*flagvalue.Words)(&pod.Main), "main", "a command that runs beside the agent: words, or a JSON array of them")
	flags.Var((*flagvalue.Period)(&pod.Lifetime), "lifetime", "when a new sandbox ends itself, unless you extend it (default never)")
	flags.Var((*flagvalue.Period)(&pod.IdleTimeout), "max-idle", "how long a new sandbox may be idle before it ends itself (default forever)")
	flags.BoolVar(&pod.IdleIgnoresCommands, "idle-ignores-commands", false, "let commands that nobody waits for count for nothing in --max-idle")
	flags.Var((*flagvalue.Period)(&pod.ActiveDeadline), "active-deadline", "when the cluster ends a new pod in any case")
	flags.Var((*flagvalue.Period)(&p.take.ReadyTimeout), "ready-timeout", "how long the pod may take until its agent answers")
	p.addShared(cmd)
}

// definePool defines the flags that describe the pods of a pool.
func (p *podFlags) definePool(cmd *cobra.Command) {
	p.defineShared()
	p.addShared(cmd)
}

// defineShared defines the flags for what a pod has whether it waits in a pool or not.
func (p *podFlags) defineShared() {
	pod, flags := &p.pod, pflag.NewFlagSet("pod", pflag.ContinueOnError)
	p.flags = flags
	p.profile = flagvalue.NewChoice(launcher.Restricted, launcher.Baseline)
	p.confine = flagvalue.NewChoice(confineAuto, "filter", "domain", "off")
	p.users = flagvalue.NewChoice(hostUsers, string(launcher.Prefer), string(launcher.Require))
	flags.StringVar(&pod.Image, "image", launcher.DefaultImage(), "the container `IMAGE`, with podagent in its PATH")
	flags.StringVar(&pod.AgentImage, "agent-image", "", "an `IMAGE` with podagent, from which to install it if --image has none")
	flags.Var((*flagvalue.Volumes)(&pod.Volumes), "volume", "mount the claim, or a directory of it, in a new pod; may be repeated")
	flags.Var((*flagvalue.Size)(&pod.Workspace.Size), "workspace-size", "how much a new pod's workdir can hold; 0 is no bound (default "+launcher.DefaultWorkspaceSize+")")
	flags.BoolVar(&pod.Workspace.Keep, "keep-workspace", false, "give a new sandbox a claim of its own for its workdir, so that its files outlive its pod: see pause and resume")
	flags.BoolVar(&pod.Workspace.Owned, "own-workspace", false, "make a new pod's workdir itself belong to the pod's user, as tar, rsync and cp -a need: such a pod starts half a second later, unless it waits in a pool or --agent-image is set")
	flags.StringVar(&pod.Workspace.StorageClass, "storage-class", "", "the `NAME` of the storage class of claims (default the cluster's)")
	flags.StringVar(&pod.RuntimeClass, "runtime-class", "", "the `NAME` of the RuntimeClass of a new pod")
	flags.StringVar(&pod.PriorityClass, "priority-class", "", "the `NAME` of the PriorityClass of a new pod")
	flags.Var((*flagvalue.Names)(&pod.PullSecrets), "pull-secret", "a Secret for pulling a new pod's images; may be repeated")
	flags.Var((*flagvalue.Pairs)(&pod.NodeSelector), "node-selector", "a label of the nodes that a new pod may run on; may be repeated")
	flags.Var((*flagvalue.Tolerations)(&pod.Tolerations), "toleration", "a taint of nodes that a new pod tolerates; may be repeated")
	flags.VarP((*flagvalue.PatchFile)(&pod.Patch), "file", "f", "merge this part of a pod, in YAML or JSON, into a new pod at the end; - is standard input")
	flags.Var((*flagvalue.Pairs)(&pod.Labels), "label", "add a label to a new pod; may be repeated")
	flags.Var((*flagvalue.Pairs)(&pod.Annotations), "annotation", "add an annotation to a new pod; may be repeated")
	flags.Var((*flagvalue.Quantities)(&pod.Resources.Requests), "requests", "the resources that a new pod requests, such as cpu=500m,memory=1Gi (default cpu="+launcher.DefaultCPU+",memory="+launcher.DefaultMemory+")")
	flags.Var((*flagvalue.Quantities)(&pod.Resources.Limits), "limits", "what a new sandbox gets at most, such as cpu=2,memory=8Gi, and with the local backend processes=512; 0 is no limit (default of pods cpu="+launcher.DefaultCPULimit+",memory="+launcher.DefaultMemoryLimit+",ephemeral-storage="+launcher.DefaultDiskLimit+" and the workdir's size)")
	flags.StringVar(&pod.ServiceAccount, "service-account", "", "the `NAME` of the service account of a new pod (default the namespace's, without its token)")
	flags.Var((*flagvalue.ReadOnlyDirs)(&pod.ReadOnly), "read-only", "a directory of a new pod that commands cannot change either: empty, or with the content of the image's directory FROM; may be repeated")
	flags.Var(&p.profile, "profile", "the Pod Security Standard of a new pod; baseline runs as root")
	flags.Var(&p.confine, "confine", "what the kernel must confine a new sandbox's commands by: what it can, a filter of system calls, a Landlock domain besides, or nothing")
	flags.BoolVar(&pod.ReadOnlyRoot, "read-only-root", false, "make the image's files in a new pod read-only; /tmp is a volume then")
	flags.Var(&p.users, "user-namespace", "map a new pod's users to users without rights on the node: prefer it where all nodes can be seen to support that, or require it")
	flags.BoolVar(&pod.RequireAppArmor, "require-apparmor", false, "run a new pod only on a node with AppArmor; others apply the runtime's profile anyway")
}

func (p *podFlags) addShared(cmd *cobra.Command) {
	p.add(cmd, map[string]*flagvalue.Choice{"profile": &p.profile, "confine": &p.confine, "user-namespace": &p.users})
}

// defineLaunch defines the flags for launching and holding a pod.
func (p *podFlags) defineLaunch(cmd *cobra.Command) {
	p.onStale = flagvalue.NewChoice(launcher.StaleError, launcher.StaleRecreate)
	p.onDrift = flagvalue.NewChoice(launcher.DriftSay, launcher.DriftError)
	p.take.Heartbeat = launcher.DefaultHeartbeat
	p.flags.Var((*flagvalue.Heartbeat)(&p.take.Heartbeat), "heartbeat", "how often this program says that its open sandboxes are needed; or off")
	p.flags.Var(&p.onStale, "on-stale", "what to do about a pod that has ended; its files are lost unless they were kept")
	p.flags.Var(&p.onDrift, "on-drift", "what to do about a pod that differs from these flags")
	p.definePoolName(p.flags)
	p.flags.BoolVar(&p.take.Exclusive, "exclusive", false, "fail if another exclusive owner has the sandbox open, and keep others out while this runs")
	p.add(cmd, map[string]*flagvalue.Choice{"on-stale": &p.onStale, "on-drift": &p.onDrift})
}

// definePoolName defines the flag for the pool of a new sandbox.
func (p *podFlags) definePoolName(flags *pflag.FlagSet) {
	flags.StringVar(&p.take.Pool, "pool", "", "take a new sandbox's pod out of the pool `NAME`, if one fits the flags; with agent-sandbox, make a claim on this warm pool")
}

func (p *podFlags) add(cmd *cobra.Command, choices map[string]*flagvalue.Choice) {
	settings.MarkFor(p.flags, inKubernetes, inAgentSandbox)
	settings.MarkFor(named(p.flags, askedOfGateways...), inKubernetes, inAgentSandbox, throughGateway)
	settings.MarkFor(named(p.flags, "limits"), inKubernetes, inAgentSandbox, throughGateway, onThisHost)
	cmd.Flags().AddFlagSet(p.flags)
	for name, c := range choices {
		// The only possible error is an unknown flag.
		_ = cmd.RegisterFlagCompletionFunc(name, c.Complete)
	}
}

// build returns the pod of the flags, and how to take it. With the local backend both are
// empty.
func (p *podFlags) build(a *app) (pod launcher.Pod, take launcher.Take, err error) {
	if err := a.fits(p.flags); err != nil {
		return pod, take, err
	}
	if a.backend.Value == onThisHost {
		a.local.limits = p.pod.Resources.Limits
		return pod, take, nil
	}
	if err := notBlank(p.flags); err != nil {
		return pod, take, err
	}
	if a.backend.Value == throughGateway {
		pod, take = p.asked()
		return pod, take, nil
	}
	pod, take = p.pod, p.take
	pod.Profile = launcher.Profile(p.profile.Value)
	if p.confine.Value != confineAuto {
		pod.Confine = p.confine.Value
	}
	if p.users.Value != hostUsers {
		pod.UserNamespace = launcher.Want(p.users.Value)
	}
	take.OnStale, take.OnDrift = launcher.OnStale(p.onStale.Value), launcher.OnDrift(p.onDrift.Value)
	return pod, take, nil
}

// notBlank refuses flags with a blank value: a variable of a script was probably
// unset, and the user did not mean the default.
func notBlank(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if settings.Given(f) && strings.TrimSpace(f.Value.String()) == "" {
			err = usagef("%s must not be blank", settings.Origin(f))
		}
	})
	return err
}

// gitFlags say what source a sandbox gets.
type gitFlags struct {
	git   launcher.Git
	flags *pflag.FlagSet // these flags
}

func (g *gitFlags) define(flags *pflag.FlagSet) {
	g.flags = pflag.NewFlagSet("git", pflag.ContinueOnError)
	g.flags.StringVar(&g.git.URL, "git", "", "the `URL` of a repository to check out in the workdir")
	g.flags.StringVar(&g.git.Ref, "git-ref", "", "check out the branch, tag or commit `REF` (default the remote's HEAD)")
	g.flags.Var((*flagvalue.Period)(&g.git.Timeout), "git-timeout", "how long the checkout may take (default "+launcher.DefaultGitTimeout.String()+")")
	settings.Mark(g.flags)
	flags.AddFlagSet(g.flags)
}

// build returns the source of the flags; nil if they name none. The credentials are
// only in the environment, because everybody on a host can read arguments.
func (g *gitFlags) build() (*launcher.Git, error) {
	if !settings.Given(g.flags.Lookup("git")) {
		var err error
		g.flags.VisitAll(func(f *pflag.Flag) {
			if f.Changed {
				err = usagef("--%s needs --git", f.Name)
			}
		})
		return nil, err
	}
	if err := notBlank(g.flags); err != nil {
		return nil, err
	}
	git := g.git
	git.Username, git.Password = os.Getenv("PODAGENT_GIT_USERNAME"), os.Getenv("PODAGENT_GIT_PASSWORD")
	return &git, nil
}
