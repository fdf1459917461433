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
	{name: "command", needs: []string{"sandbox"}, run: (*localPatient).checkCommand},
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
		return failed(f.Err, isolationAdvice())
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
	is, advice := p.sandbox.Isolation, isolationAdvice()
	said := map[isolation.Level]string{
		isolation.None:       "nothing isolates it: what runs in it can do what you can",
		isolation.Landlock:   "level landlock: rules of the kernel keep it to its own files and the system's",
		isolation.Namespaces: "level namespaces: it has files, processes and a network of its own",
	}[is.Level]
	switch {
	case is.Missing != "":
		return warned(fmt.Errorf("%s; not stronger because %s", said, is.Missing), advice)
	case is.Level == isolation.None:
		return warned(errors.New(said), "Leave --isolation none out.")
	}
	return passed("%s", said)
}

// isolationAdvice says how sandboxes would be isolated, by namespaces of their own if this machine lets them.
func isolationAdvice() string {
	if os.Getenv("PODAGENT_CONFINE") == "off" {
		return "Unset PODAGENT_CONFINE: what runs in a sandbox could leave each level without the boundary that it switches off."
	}
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
