package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podagent/podagent/pkg/launcher"
)

// sandboxFlags say what sandbox is made.
type sandboxFlags struct {
	spec launcher.Spec
	pod  podFlags
	git  gitFlags
}

// specFlags are the flags of the verbs that make a sandbox.
func specFlags(cmd *cobra.Command) *sandboxFlags {
	f := &sandboxFlags{}
	flags := cmd.Flags()
	flags.VarP((*env)(&f.spec.Env), "env", "e", "add to the environment of the sandbox's commands, in place of any set before; may be repeated")
	flags.Var((*patterns)(&f.spec.Protected), "protect", "keep what the glob matches, and all below it, from being changed by the verbs for files and by tools, though not by commands, in place of what was set before; may be repeated")
	flags.StringVarP(&f.spec.Workdir, "workdir", "w", "", "the absolute `DIR` where relative paths start in a new sandbox (default a directory of its own)")
	asSettings(flags, "env", "protect", "workdir")
	f.pod.define(cmd)
	f.pod.defineLaunch(cmd)
	f.git.define(flags)
	return f
}

// build returns what the flags say.
func (f *sandboxFlags) build(a *app) (launcher.Spec, error) {
	spec := f.spec
	var err error
	if spec.Pod, spec.Take, err = f.pod.build(a); err != nil {
		return spec, err
	}
	spec.Git, err = f.git.build()
	return spec, err
}

// podFlags say what pod is made, and how it is taken.
type podFlags struct {
	pod                       launcher.Pod
	take                      launcher.Take
	profile, onStale, onDrift choice
	flags                     *pflag.FlagSet // these flags
}

// define defines the flags that describe a new pod.
func (p *podFlags) define(cmd *cobra.Command) {
	pod, flags := &p.pod, pflag.NewFlagSet("pod", pflag.ContinueOnError)
	p.flags = flags
	p.profile = choice{string(launcher.Restricted), []string{string(launcher.Restricted), string(launcher.Baseline)}}
	pod.ActiveDeadline, p.take.ReadyTimeout = launcher.DefaultActiveDeadline, launcher.DefaultReadyTimeout
	flags.StringVar(&pod.Image, "image", launcher.DefaultImage(), "the container `IMAGE`, with podagent in its PATH")
	flags.StringVar(&pod.AgentImage, "agent-image", "", "an `IMAGE` with podagent, to install it from where --image has none")
	flags.Var((*words)(&pod.Main), "main", "a command that runs beside the agent: words, or a JSON array of them")
	flags.Var((*volumes)(&pod.Volumes), "volume", "mount the claim, or a directory of it, in a new pod; may be repeated")
	flags.BoolVar(&pod.Workspace.Keep, "keep-workspace", false, "give a new sandbox a claim of its own for its workdir, whose files outlive its pod: see pause and resume")
	flags.Var((*size)(&pod.Workspace.Size), "workspace-size", "how much a new pod's workdir holds, such as 10Gi (default no bound; of a claim "+launcher.DefaultClaimSize+")")
	flags.StringVar(&pod.Workspace.StorageClass, "storage-class", "", "the `NAME` of the storage class of claims (default the cluster's)")
	flags.StringVar(&pod.RuntimeClass, "runtime-class", "", "the `NAME` of the RuntimeClass of a new pod")
	flags.StringVar(&pod.PriorityClass, "priority-class", "", "the `NAME` of the PriorityClass of a new pod")
	flags.Var((*names)(&pod.PullSecrets), "pull-secret", "a Secret with which a new pod's images are pulled; may be repeated")
	flags.Var((*pairs)(&pod.NodeSelector), "node-selector", "a label of the nodes that a new pod may run on; may be repeated")
	flags.Var((*tolerations)(&pod.Tolerations), "toleration", "a taint of nodes that a new pod tolerates; may be repeated")
	flags.VarP((*patchFile)(&pod.Patch), "file", "f", "a part of a pod, in YAML or JSON, that is merged into a new pod at the end; - is standard input")
	flags.Var((*period)(&pod.Lifetime), "lifetime", "when a new sandbox ends itself, unless it is extended (default never)")
	flags.Var((*period)(&pod.IdleTimeout), "max-idle", "how long a new sandbox may be idle before it ends itself (default for ever)")
	flags.Var((*pairs)(&pod.Labels), "label", "add a label to a new pod; may be repeated")
	flags.Var((*pairs)(&pod.Annotations), "annotation", "add an annotation to a new pod; may be repeated")
	flags.Var((*quantities)(&pod.Resources.Requests), "requests", "the resources that a new pod requests, such as cpu=500m,memory=1Gi")
	flags.Var((*quantities)(&pod.Resources.Limits), "limits", "the resources that a new pod gets at most, such as cpu=2,memory=4Gi")
	flags.StringVar(&pod.ServiceAccount, "service-account", "", "the `NAME` of the account that a new pod runs as (default the namespace's, without its token)")
	flags.Var((*readOnlyDirs)(&pod.ReadOnly), "read-only", "a directory of a new pod that commands cannot change either: empty, or with the content of the image's directory FROM; may be repeated")
	flags.Var(&p.profile, "profile", "the Pod Security Standard of a new pod; baseline runs as root")
	flags.Var((*period)(&pod.ActiveDeadline), "active-deadline", "when the cluster ends a new pod in any case")
	flags.Var((*period)(&p.take.ReadyTimeout), "ready-timeout", "how long the pod may take until its agent answers")
	p.add(cmd, map[string]*choice{"profile": &p.profile})
}

// defineLaunch defines the flags of how a pod is launched, and held.
func (p *podFlags) defineLaunch(cmd *cobra.Command) {
	p.onStale = choice{string(launcher.StaleError), []string{string(launcher.StaleError), string(launcher.StaleRecreate)}}
	p.onDrift = choice{string(launcher.DriftSay), []string{string(launcher.DriftSay), string(launcher.DriftError)}}
	p.take.Heartbeat = launcher.DefaultHeartbeat
	p.flags.Var((*heartbeat)(&p.take.Heartbeat), "heartbeat", "how often the open sandbox says in its pod that it is needed; or off")
	p.flags.Var(&p.onStale, "on-stale", "what to do about a pod that has ended, whose files are lost unless they were kept")
	p.flags.Var(&p.onDrift, "on-drift", "what to do about a pod that differs from what these flags say")
	p.flags.BoolVar(&p.take.Exclusive, "exclusive", false, "fail if another exclusive owner has the sandbox open, and keep others out while this runs")
	p.add(cmd, map[string]*choice{"on-stale": &p.onStale, "on-drift": &p.onDrift})
}

func (p *podFlags) add(cmd *cobra.Command, choices map[string]*choice) {
	asPodSettings(p.flags)
	cmd.Flags().AddFlagSet(p.flags)
	for name, c := range choices {
		// The only error is that there is no such flag.
		_ = cmd.RegisterFlagCompletionFunc(name, c.complete)
	}
}

// build returns what the flags say; the local backend has nothing of it.
func (p *podFlags) build(a *app) (pod launcher.Pod, take launcher.Take, err error) {
	if err := a.needsPods(p.flags); err != nil || a.backend.value == onThisHost {
		return pod, take, err
	}
	if err := notBlank(p.flags); err != nil {
		return pod, take, err
	}
	pod, take = p.pod, p.take
	pod.Profile = launcher.Profile(p.profile.value)
	take.OnStale, take.OnDrift = launcher.OnStale(p.onStale.value), launcher.OnDrift(p.onDrift.value)
	return pod, take, nil
}

// notBlank refuses flags that were given without a value: a variable of a script
// was not set, perhaps, and the default is not what was meant.
func notBlank(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if given(f) && strings.TrimSpace(f.Value.String()) == "" {
			err = usagef("%s must not be blank", givenBy(f))
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
	g.flags.StringVar(&g.git.Ref, "git-ref", "", "the branch, tag or commit `REF` of it (default the remote's HEAD)")
	g.flags.Var((*period)(&g.git.Timeout), "git-timeout", "how long the checkout may take (default "+launcher.DefaultGitTimeout.String()+")")
	asSettings(g.flags)
	flags.AddFlagSet(g.flags)
}

// build returns what the flags say, nil if they say nothing. The credentials
// are in the environment only: arguments can be read by everybody on a host.
func (g *gitFlags) build() (*launcher.Git, error) {
	if !given(g.flags.Lookup("git")) {
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
