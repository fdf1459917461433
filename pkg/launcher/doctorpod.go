package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// checkPod creates the pod.
func (p *clusterPatient) checkPod(ctx context.Context) Finding {
	trial := p.trialSpec()
	err := trial.validatePod()
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, doctorCall)
		defer cancel()
		var a *acquired
		if a, err = p.cluster.create(ctx, trial); err == nil {
			p.pod = a.pod
		}
	}
	if err != nil {
		return failed(err, p.adviceFor(err))
	}
	return passed("%s", p.pod.Name)
}

// attach connects to the agent, and remembers how far it got.
func (p *clusterPatient) attach(ctx context.Context) {
	timeout := cmp.Or(p.spec.Take.ReadyTimeout, DefaultReadyTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errNotReady)
	defer cancel()
	if p.sandbox, p.err = p.cluster.openPod(p.pod).attach(ctx, &p.spec, true); p.err != nil {
		p.err = p.cluster.timedOut(ctx, p.pod.Name, timeout, p.err)
		p.broken = p.farthest(context.WithoutCancel(ctx))
	}
}

// farthest returns the check of the pod's start that the error belongs to.
func (p *clusterPatient) farthest(ctx context.Context) string {
	switch {
	case errors.Is(p.err, ErrUnschedulable):
		return checkNode
	case errors.Is(p.err, ErrImage), errors.Is(p.err, ErrCannotStart), errors.Is(p.err, ErrCrashLoop):
		return checkContainer
	}
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	now, err := p.cluster.get(ctx, p.pod.Name)
	switch {
	case err == nil && now.Spec.NodeName == "":
		return checkNode
	case err == nil && !isRunning(now):
		return checkContainer
	}
	return p.checkWay()
}

// start returns the finding of a check of the pod's start.
func (p *clusterPatient) start(name, detail string) Finding {
	if p.broken == name {
		return failed(p.err, p.adviceFor(p.err))
	}
	return passed("%s", detail)
}

func (p *clusterPatient) checkRemoval(ctx context.Context) Finding {
	name := p.pod.Name
	if err := p.close(ctx); err != nil {
		return failed(err, fmt.Sprintf("Delete it by hand: kubectl delete pod -n %s %s", p.namespace, name))
	}
	return passed("it is gone")
}

// close removes the pod with its files, even if ctx has ended.
func (p *clusterPatient) close(ctx context.Context) error {
	if p.pod == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	var err error
	if p.sandbox != nil {
		err = p.sandbox.Close()
	}
	err = errors.Join(err, p.cluster.discardMade(ctx, p.pod))
	p.pod, p.sandbox = nil, nil
	return err
}
