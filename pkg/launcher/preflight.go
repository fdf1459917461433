package launcher

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Preflight finds what would prevent launches with spec, and makes nothing: Check tries
// a pod. Do not go on after a Failed finding: its Advice helps.
func (k *Kubernetes) Preflight(ctx context.Context, spec Spec) iter.Seq[Finding] {
	p := &clusterPatient{launcher: k, spec: spec.withImage(), preflight: true}
	checks := slices.Concat(
		[]check[*clusterPatient]{{checkSpec, nil, (*clusterPatient).checkSpec}},
		p.access(),
		[]check[*clusterPatient]{{checkIdentity, p.identityNeeds(), (*clusterPatient).findIdentity}},
	)
	return examine(ctx, p, checks)
}

// access returns the checks that create and change nothing.
func (p *clusterPatient) access() []check[*clusterPatient] {
	checks := []check[*clusterPatient]{
		{checkKubeconfig, nil, (*clusterPatient).checkKubeconfig},
		{checkServer, []string{checkKubeconfig}, (*clusterPatient).checkServer},
		{checkNamespace, []string{checkServer}, (*clusterPatient).checkNamespace},
	}
	for _, g := range p.grants() {
		ask := func(p *clusterPatient, ctx context.Context) Finding { return p.checkGrant(ctx, g) }
		checks = append(checks, check[*clusterPatient]{checkPermission + g.name(), []string{checkServer}, ask})
	}
	if p.spec.Pod.Workspace.Keep {
		checks = append(checks, check[*clusterPatient]{checkStorage, []string{checkNamespace, checkPermission + "persistentvolumeclaims"}, (*clusterPatient).checkStorageClass})
	}
	return checks
}

func (p *clusterPatient) checkSpec(context.Context) Finding {
	err := p.spec.validatePod()
	if err == nil {
		err = checkConnection(p.launcher.Connection)
	}
	if err != nil {
		return failed(err, "Correct it: no sandbox can be launched with it.")
	}
	return passed("a pod can be made from it")
}

// identityRules has the permissions that an identity in a Secret needs.
const identityRules = "deploy/identity-rbac.yaml"

// findIdentity looks for the identity, and does not create one.
func (p *clusterPatient) findIdentity(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	there, err := p.identityThere(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Finding{Verdict: NotChecked, Detail: "there is none yet: the first launch makes it"}
	case apierrors.IsNotFound(err):
		namespace, name := secretPlace(p.secret(), p.namespace)
		if err := checkLeft(ctx, p.api, namespace, name, p.namespace); err != nil {
			return failed(err, "Copy the Secret before the next launch.")
		}
		if g := p.checkGrant(ctx, p.secretGrant("", "create")); g.Verdict == Failed {
			return failed(err, g.Advice)
		}
		return Finding{Verdict: NotChecked, Detail: "there is none yet: the first launch makes it"}
	case err != nil:
		return failed(err, p.identityAdvice(err))
	}
	return passed("%s", there[0].fingerprint())
}

// identityThere returns the identity, if it exists.
func (p *clusterPatient) identityThere(ctx context.Context) (ring, error) {
	config, _, err := p.launcher.config()
	if err != nil {
		return nil, err
	}
	return p.launcher.ringThere(ctx, p.api, p.namespace, config)
}

func (p *clusterPatient) identityAdvice(err error) string {
	if apierrors.IsForbidden(err) {
		namespace, name := secretPlace(p.secret(), p.namespace)
		read, create := p.secretGrant(name, "get"), p.secretGrant("", "create")
		rules := read.rule(read.verbs) + ", " + create.rule(create.verbs)
		return "Use an identity in a file. Or: " + grantAdvice(namespace, rules, identityRules)
	}
	return "Give it the identity that your sandboxes were launched with, or none: a new one is made then."
}
