package launcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strings"

	"github.com/podagent/podagent/internal/userns"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// Check finds out whether sandboxes of this Spec, without its ID, work on this machine: it makes one, says
// what isolates it and what would do so better, and removes it. It ends early when ctx does.
func (l *Local) Check(ctx context.Context, spec Spec) iter.Seq[Finding] {
	spec.ID = ""
	return examine(ctx, &localPatient{launcher: l, spec: spec}, localChecks)
}

// localPatient holds what the checks of a [Local] learn for later checks.
type localPatient struct {
	launcher *Local
	spec     Spec
	sandbox  *Sandbox
}

var localChecks = []check[*localPatient]{
	{name: "sandbox", run: (*localPatient).checkSandbox},
	{name: "isolation", needs: []string{"sandbox"}, run: (*localPatient).checkIsolation},
	{name: "limits of the sandbox", needs: []string{"sandbox"}, run: (*localPatient).checkLimits},
	{name: "command", needs: []string{"sandbox"}, run: (*localPatient).checkCommand},
	{name: checkCheckpoints, needs: []string{"sandbox"}, run: (*localPatient).checkCheckpoints},
	{name: checkEgress, needs: []string{"sandbox"}, run: (*localPatient).checkEgress},
	{name: "removal", needs: []string{"sandbox"}, run: (*localPatient).checkRemoval},
}

func (p *localPatient) close(context.Context) error {
	if p.sandbox == nil {
		return nil
	}
	sandbox := p.sandbox
	p.sandbox = nil
	return sandbox.Close()
}

func (p *localPatient) checkSandbox(ctx context.Context) (f Finding) {
	spec := p.spec
	if spec.egress().Mode == "" {
		spec.Egress.Mode = wayout.Auto
	}
	p.sandbox, f.Err = p.launcher.Launch(ctx, spec)
	switch {
	case f.Err == nil:
		return passed("an agent serves %s", p.sandbox.Workdir)
	case errors.Is(f.Err, ErrIsolation):
		return failed(f.Err, isolationAdvice(f.Err.Error()))
	case errors.Is(f.Err, ErrEgress):
		return failed(f.Err, localEgressAdvice)
	}
	if isNoAgent(f.Err) {
		return failed(f.Err, `Build podagent ("make build"), and set PODAGENT_BIN to its path.`)
	}
	return failed(f.Err, "Mend what this says. With --log-level debug, a launch says more.")
}

// isNoAgent reports whether a launch has failed because the program podagent is not there.
func isNoAgent(err error) bool {
	start, ok := errors.AsType[*fs.PathError](err)
	return errors.Is(err, ErrNoAgent) || ok && start.Op == "fork/exec" && errors.Is(start, fs.ErrNotExist)
}

// checkIsolation says what keeps the sandbox from this machine, and what would raise the level.
func (p *localPatient) checkIsolation(context.Context) Finding {
	is := p.sandbox.Isolation
	said := map[isolation.Level]string{
		isolation.None:       "nothing isolates it: what runs in it can do what you can",
		isolation.Landlock:   "level landlock: rules of the kernel keep it to its own files and the system's",
		isolation.Namespaces: "level namespaces: it has files, processes and a network of its own",
	}[is.Level]
	switch {
	case is.Missing != "":
		return warned(fmt.Errorf("%s; not stronger because %s", said, is.Missing), isolationAdvice(is.Missing))
	case is.Level == isolation.None:
		return warned(errors.New(said), "Leave --isolation none out.")
	}
	return passed("%s", said)
}

// checkLimits says what limits the sandbox as a whole, and what would limit its memory.
func (p *localPatient) checkLimits(context.Context) Finding {
	return limitsFinding(p.sandbox.Isolation, os.Geteuid() == 0)
}

func limitsFinding(is isolation.Info, root bool) Finding {
	if is.Level == isolation.None {
		return Finding{Verdict: NotChecked, Detail: "a sandbox that nothing isolates has none"}
	}
	advice := `Start this program by "systemd-run --user --scope", or as root.`
	if root {
		advice = "Let this program make control groups of version 2 with the controllers memory and pids: a container needs a /sys/fs/cgroup that can be written to."
	}
	advice += " docs/isolation.md says more."
	switch is.Limiter {
	case isolation.ControlGroup:
		return passed("a control group limits its processes and memory")
	case isolation.ResourceLimits:
		return warned(fmt.Errorf("resource limits limit its processes, and nothing its memory, because %s", is.NoControlGroup), advice)
	}
	return warned(fmt.Errorf("nothing limits its processes and memory, because %s", is.NoControlGroup), advice)
}

// isolationCauses are why sandboxes are not isolated, or bounded, as they could be, by words of the reason.
var isolationCauses = []struct {
	words  string
	advice func() string
}{
	{"syscall-filter: ", always("Commands need a filter of system calls: a kernel with seccomp (CONFIG_SECCOMP_FILTER), and nothing around this program that refuses it.")},
	{"namespaces: ", namespacesAdvice},
	{"landlock: ", always("Landlock needs Linux 6.2, with landlock in /sys/kernel/security/lsm (CONFIG_SECURITY_LANDLOCK, or the kernel's parameter lsm), and nothing around this program that refuses its system calls.")},
	{"the limit of ", always(limitAdvice)},
	{"nothing can limit its ", always(limitAdvice)},
}

const limitAdvice = `A limit needs a control group: start this program by "systemd-run --user --scope", or as root, or leave the limit out. docs/isolation.md says more.`

func always(advice string) func() string { return func() string { return advice } }

// isolationAdvice says how sandboxes would be isolated, or better than they are, given why they are not.
func isolationAdvice(reason string) string {
	if os.Getenv("PODAGENT_CONFINE") == "off" {
		return "Unset PODAGENT_CONFINE: what runs in a sandbox could leave each level without the boundary that it switches off."
	}
	var advice []string
	for _, cause := range isolationCauses {
		if strings.Contains(reason, cause.words) {
			advice = append(advice, cause.advice())
		}
	}
	if len(advice) == 0 {
		return "docs/isolation.md says what isolation takes."
	}
	return strings.Join(advice, " ")
}

// namespacesAdvice says how programs get namespaces of their own on this machine.
func namespacesAdvice() string {
	var remedies []string
	for _, o := range userns.Obstacles() {
		remedies = append(remedies, o.Remedy)
	}
	if len(remedies) == 0 {
		return "A container, or a filter of system calls around this program, may refuse namespaces: let it use clone, unshare and mount, and see all of /proc, or run it outside. docs/isolation.md says more."
	}
	return strings.Join(remedies, " ")
}

func (p *localPatient) checkCommand(ctx context.Context) Finding {
	return runCommand(ctx, p.sandbox, "true")
}

const localEgressAdvice = "The kernel lacks what the level landlock needs: docs/egress.md."

// checkEgress says what keeps commands in on this machine.
func (p *localPatient) checkEgress(context.Context) Finding {
	is, asked := p.sandbox.Egress, p.spec.egress().Mode
	if is.Level == wayout.Landlock { // the strongest without a network of its own
		asked, is.Missing = wayout.Mode(wayout.Landlock), ""
	}
	return egressFinding(is, asked, localEgressAdvice)
}

func (p *localPatient) checkRemoval(ctx context.Context) Finding {
	if err := p.close(ctx); err != nil {
		return failed(err, "Remove what is left in the launcher's state directory.")
	}
	return passed("it is gone")
}
