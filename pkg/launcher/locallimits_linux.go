package launcher

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/internal/limitgroup"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// boundsRecord says what bounds a sandbox, also when its agent starts again.
type boundsRecord struct {
	// Named are the limits of Local.Limits, by their names.
	Named map[corev1.ResourceName]float64 `json:"named,omitempty"`
	Group string                          `json:"group,omitempty"` // the path of its control group
	// Lineage is the number by which its processes are found: see lineage_linux.go. 0 is none.
	Lineage uint64 `json:"lineage,omitempty"`
}

// named returns the limits that new sandboxes are to have.
func (l *Local) named() map[corev1.ResourceName]float64 {
	named := map[corev1.ResourceName]float64{}
	for name, quantity := range l.Limits {
		named[name] = quantity.AsApproximateFloat64()
	}
	return named
}

// limit returns a limit, 0 for none.
func (r *boundsRecord) limit(name corev1.ResourceName, otherwise float64) float64 {
	if n, ok := r.Named[name]; ok {
		return n
	}
	return otherwise
}

// limits returns the limits with those that a sandbox has if nobody names any.
func (r *boundsRecord) limits() limitgroup.Limits {
	var machine unix.Sysinfo_t
	_ = unix.Sysinfo(&machine)
	memory := float64(machine.Totalram) * float64(machine.Unit) * localMemoryShare
	return limitgroup.Limits{
		Memory:    int64(r.limit(corev1.ResourceMemory, memory)),
		Processes: int64(r.limit(ResourceProcesses, DefaultLocalProcesses)),
		CPU:       r.limit(corev1.ResourceCPU, 0),
	}
}

// bounds are what is to bound an agent that starts, with all that is below it.
type bounds struct {
	group *limitgroup.Group // nil if there is none
	flags []string          // of the agent
}

// newBounds makes the control group of an agent that starts, if there can be one. If a limit that was named
// needs it, there must be.
func (p *place) newBounds(isolated bool) (b bounds, err error) {
	if !isolated {
		return b, nil
	}
	limits := p.Bounds.limits()
	group, err := limitgroup.Make(strings.ToLower(rand.Text()), limits)
	if err != nil {
		return p.Bounds.without(limits, err)
	}
	b = bounds{group: group}
	if err := p.Bounds.settle(&b, limits, group.Missing, fmt.Errorf("its control group, %s, does not get the controllers %v", group.Path, group.Missing)); err != nil {
		return bounds{}, errors.Join(err, b.end())
	}
	return b, nil
}

// without returns the bounds if there is no control group, and why.
func (r *boundsRecord) without(limits limitgroup.Limits, why error) (b bounds, err error) {
	return b, r.settle(&b, limits, []limitgroup.Controller{limitgroup.Memory, limitgroup.Processes, limitgroup.CPU}, fmt.Errorf("it gets no control group: %w", why))
}

// names reports whether somebody has named a limit.
func (r *boundsRecord) names() bool {
	for _, limit := range r.Named {
		if limit > 0 {
			return true
		}
	}
	return false
}

// settle tells the agent what the controllers that are missing leave to it.
func (r *boundsRecord) settle(b *bounds, limits limitgroup.Limits, missing []limitgroup.Controller, why error) error {
	if r.names() {
		b.flags = append(b.flags, "--limits-required")
	}
	if len(missing) == 0 {
		b.flags = append(b.flags, "--bounded-by="+string(isolation.ControlGroup))
		return nil
	}
	b.flags = append(b.flags, "--unbounded="+strings.Join(strings.Fields(why.Error()), " "))
	for _, c := range missing {
		switch name := map[limitgroup.Controller]corev1.ResourceName{limitgroup.Memory: corev1.ResourceMemory, limitgroup.CPU: corev1.ResourceCPU}[c]; {
		case name != "" && r.Named[name] > 0:
			return fmt.Errorf("%w: nothing can limit its %s: %w", ErrIsolation, name, why)
		case c == limitgroup.Processes && limits.Processes > 0:
			b.flags = append(b.flags, "--processes="+strconv.FormatInt(limits.Processes, 10))
			if r.Named[ResourceProcesses] > 0 {
				b.flags = append(b.flags, "--processes-required")
			}
		}
	}
	return nil
}

// start starts the command within the bounds.
func (b *bounds) start(cmd *exec.Cmd) error {
	if b.group == nil {
		return cmd.Start()
	}
	dir, err := b.group.Open()
	if err != nil {
		return err
	}
	defer dir.Close()
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	return cmd.Start()
}

// end removes what the bounds have made. Nothing was started in it.
func (b *bounds) end() error {
	if b.group == nil {
		return nil
	}
	return limitgroup.End(context.Background(), b.group.Path)
}

// remember writes into the record how the processes of the agent that starts next are found.
func (p *place) remember(ctx context.Context, b bounds) error {
	p.Started, p.Bounds.Group, p.Bounds.Lineage = true, "", newLineage()
	if b.group != nil {
		p.Bounds.Group = b.group.Path
	}
	return p.write(ctx)
}
