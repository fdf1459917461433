package launcher

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/internal/limitgroup"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// namedLimits are the limits that somebody has named for a sandbox, in Local.Limits. 0 is no limit.
type namedLimits map[corev1.ResourceName]float64

// named returns the limits that new sandboxes are to have.
func (l *Local) named() namedLimits {
	named := namedLimits{}
	for name, quantity := range l.Limits {
		named[name] = quantity.AsApproximateFloat64()
	}
	return named
}

// limit returns a limit, or another one if nobody has named it.
func (named namedLimits) limit(name corev1.ResourceName, otherwise float64) float64 {
	if n, ok := named[name]; ok {
		return n
	}
	return otherwise
}

// all returns the limits with those that a sandbox has if nobody names any.
func (named namedLimits) all() limitgroup.Limits {
	var machine unix.Sysinfo_t
	_ = unix.Sysinfo(&machine)
	memory := float64(machine.Totalram) * float64(machine.Unit) * localMemoryShare
	return limitgroup.Limits{
		Memory:    int64(named.limit(corev1.ResourceMemory, memory)),
		Processes: int64(named.limit(ResourceProcesses, DefaultLocalProcesses)),
		CPU:       named.limit(corev1.ResourceCPU, 0),
	}
}

// limiter is what is to limit an agent that starts, with all that is below it.
type limiter struct {
	group *limitgroup.Group // nil if there is none
	flags []string          // of the agent
}

// newLimiter makes the control group of an agent that starts, if there can be one. If a limit that was named
// needs it, there must be.
func (p *place) newLimiter(isolated bool) (r limiter, err error) {
	if !isolated {
		return r, nil
	}
	limits := p.Limits.all()
	group, err := limitgroup.Make(strings.ToLower(rand.Text()), limits)
	if err != nil {
		return p.Limits.withoutGroup(err)
	}
	r = limiter{group: group}
	if err := r.tell(p.Limits, group.Missing, fmt.Errorf("its control group, %s, does not get the controllers %v", group.Path, group.Missing)); err != nil {
		return limiter{}, errors.Join(err, r.end())
	}
	return r, nil
}

// withoutGroup returns what limits the agent if there is no control group, and why there is none. After a lack it
// returns an error: who tries again gets the group.
func (named namedLimits) withoutGroup(why error) (r limiter, err error) {
	if isLack(why) {
		return r, fmt.Errorf("starting it in its control group: %w", why)
	}
	return r, r.tell(named, []limitgroup.Controller{limitgroup.Memory, limitgroup.Processes, limitgroup.CPU}, fmt.Errorf("it gets no control group: %w", why))
}

// isLack reports whether something was missing for a control group that others can use up, such as other sandboxes of the
// user, and give back. That there may be no more groups, of which mkdir says EAGAIN, is a setting of the machine.
func isLack(err error) bool {
	if path, ok := errors.AsType[*fs.PathError](err); ok && path.Op == "mkdir" && errors.Is(path, unix.EAGAIN) {
		return false
	}
	lacks := []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ENOSPC, unix.EDQUOT}
	return slices.ContainsFunc(lacks, func(lack error) bool { return errors.Is(err, lack) })
}

// any reports whether somebody has named a limit.
func (named namedLimits) any() bool {
	for _, limit := range named {
		if limit > 0 {
			return true
		}
	}
	return false
}

// tell has the agent's flags say what the controllers that are missing leave to it. It is an error if a limit
// that was named needs one of these.
func (r *limiter) tell(named namedLimits, missing []limitgroup.Controller, why error) error {
	if named.any() {
		r.flags = append(r.flags, "--limits-required")
	}
	if len(missing) == 0 {
		r.flags = append(r.flags, "--limiter="+string(isolation.ControlGroup))
		return nil
	}
	r.flags = append(r.flags, "--no-control-group="+strings.Join(strings.Fields(why.Error()), " "))
	for _, c := range missing {
		switch name := map[limitgroup.Controller]corev1.ResourceName{limitgroup.Memory: corev1.ResourceMemory, limitgroup.CPU: corev1.ResourceCPU}[c]; {
		case name != "" && named[name] > 0:
			return fmt.Errorf("%w: nothing can limit its %s: %w", ErrIsolation, name, why)
		case c == limitgroup.Processes && named.all().Processes > 0:
			r.flags = append(r.flags, "--processes="+strconv.FormatInt(named.all().Processes, 10))
			if named[ResourceProcesses] > 0 {
				r.flags = append(r.flags, "--processes-required")
			}
		}
	}
	return nil
}

// start starts the command under its limits.
func (r *limiter) start(cmd *exec.Cmd) error {
	if r.group == nil {
		return cmd.Start()
	}
	dir, err := r.group.Open()
	if err != nil {
		return err
	}
	defer dir.Close()
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	return cmd.Start()
}

// end removes the control group. Nothing was started in it.
func (r *limiter) end() error {
	if r.group == nil {
		return nil
	}
	return limitgroup.End(context.Background(), r.group.Path)
}
