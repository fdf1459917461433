package agentsandbox

import (
	"context"
	"errors"
	"fmt"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
)

// install says how to install agent-sandbox.
const install = `Install agent-sandbox with its extensions: "kubectl apply -f" of the manifests of a release at https://github.com/kubernetes-sigs/agent-sandbox/releases.`

// Check finds out whether the cluster has what sandboxes of a Spec need: the resources, the warm
// pool that it names with its template, and a controller: it makes a sandbox, runs a command in it,
// and removes it.
func (l *Launcher) Check(ctx context.Context, spec launcher.Spec) iter.Seq[launcher.Finding] {
	return func(yield func(launcher.Finding) bool) {
		checks := []struct {
			name string
			run  func(context.Context, launcher.Spec) launcher.Finding
		}{
			{"resources", l.checkResources}, {"warm pool", l.checkWarmPool}, {"sandbox", l.checkSandbox},
		}
		failed := ""
		for _, check := range checks {
			f := launcher.Finding{Verdict: launcher.NotChecked, Detail: "it needs " + failed}
			if failed == "" {
				f = check.run(ctx, spec)
			}
			if f.Verdict == launcher.Failed {
				failed = check.name
			}
			f.Name = check.name
			if ctx.Err() != nil || !yield(f) {
				return
			}
		}
	}
}

func failedCheck(err error, advice string) launcher.Finding {
	return launcher.Finding{Verdict: launcher.Failed, Err: err, Advice: advice}
}

func passed(format string, args ...any) launcher.Finding {
	return launcher.Finding{Verdict: launcher.Passed, Detail: fmt.Sprintf(format, args...)}
}

// checkResources finds out whether the API server knows the resources.
func (l *Launcher) checkResources(ctx context.Context, spec launcher.Spec) launcher.Finding {
	c, err := l.cluster(ctx)
	if err != nil {
		return failedCheck(err, `"orchestrator doctor --backend kubernetes" says more.`)
	}
	one := metav1.ListOptions{Limit: 1}
	_, err = c.sandboxes().api.List(ctx, one)
	if err == nil && spec.Take.Pool != "" {
		_, err = c.claims().api.List(ctx, one)
	}
	switch {
	case isUnknown(err):
		return failedCheck(apiError(err), install)
	case err != nil:
		return failedCheck(forbidden(c.namespace, "*", err), "Apply deploy/agent-sandbox-rbac.yaml.")
	}
	return passed("the API server has %s", sandboxGroup)
}

// checkWarmPool finds out whether the warm pool and its template are there.
func (l *Launcher) checkWarmPool(ctx context.Context, spec launcher.Spec) launcher.Finding {
	name := spec.Take.Pool
	if name == "" {
		return passed("none is asked for")
	}
	c, err := l.cluster(ctx)
	if err != nil {
		return failedCheck(err, `"orchestrator doctor --backend kubernetes" says more.`)
	}
	advice := fmt.Sprintf(`Make it: "orchestrator agent-sandbox template %s | kubectl apply -f -".`, name)
	p, err := c.pools().get(ctx, name)
	if apierrors.IsNotFound(err) {
		return failedCheck(fmt.Errorf("%w: %s/%s", ErrNoWarmPool, c.namespace, name), advice)
	}
	if err == nil {
		_, err = c.templates().get(ctx, p.Spec.TemplateRef.Name)
	}
	switch {
	case apierrors.IsNotFound(err):
		return failedCheck(fmt.Errorf("%w: %s/%s", ErrNoTemplate, c.namespace, p.Spec.TemplateRef.Name), advice)
	case err != nil:
		return failedCheck(forbidden(c.namespace, name, err), "Apply deploy/agent-sandbox-rbac.yaml.")
	case p.Status.ReadyReplicas == 0:
		return launcher.Finding{
			Verdict: launcher.Warned, Err: fmt.Errorf("SandboxWarmPool %s/%s has no Sandbox that is ready, of %d", c.namespace, name, p.Spec.Replicas),
			Advice: "New sandboxes wait for a pod meanwhile. Scale it up, or see why its Sandboxes are not ready.",
		}
	}
	return passed("%d of %d Sandboxes of %s are ready", p.Status.ReadyReplicas, p.Spec.Replicas, name)
}

// checkSandbox makes a sandbox, runs a command in it, and removes it.
func (l *Launcher) checkSandbox(ctx context.Context, spec launcher.Spec) launcher.Finding {
	spec.ID, spec.OnClose = "", launcher.CloseDelete
	s, err := l.Launch(ctx, spec)
	if err != nil {
		advice := `See what "kubectl describe sandboxes,sandboxclaims" says of the objects that were made.`
		if errors.Is(err, ErrNoController) {
			advice = "See whether the Deployment agent-sandbox-controller runs, with its extensions."
		}
		return failedCheck(err, advice)
	}
	runErr := s.Command(ctx, "true").Run()
	if err := errors.Join(runErr, s.Close()); err != nil {
		return failedCheck(err, `Read the agent's log: "kubectl logs" of its pod.`)
	}
	return passed("a command ran in pod %s", s.PodName())
}
