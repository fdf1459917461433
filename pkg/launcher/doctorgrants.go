package launcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A grant is a permission that the caller needs in the namespace.
type grant struct {
	group, resource, subresource string
	verbs                        []string
	// only names the single object that the grant is needed for.
	only string
	// namespace is where it is needed; empty is that of the sandboxes.
	namespace string
	// forPod says that no sandbox works without the grant. Otherwise the grant is
	// optional, and lack says what is missing without it.
	forPod bool
	lack   string
	// partly says that another grant is for the same resource.
	partly bool
	// file contains the rule.
	file string
}

// grants returns what the files in deploy/ grant.
func (p *clusterPatient) grants() []grant {
	grants := []grant{
		{resource: "pods", verbs: []string{"get", "list", "watch", "create", "patch", "delete"}, forPod: true},
		{group: "coordination.k8s.io", resource: "leases", verbs: []string{"get", "create", "update", "delete"}}, // each lookup asks for the id's holding
		{
			group: "coordination.k8s.io", resource: "leases", verbs: []string{"list"}, partly: true,
			lack: "list and describe show the heartbeats of open sandboxes late, and Leases of orchestrators that were killed stay",
		},
		{resource: "events", verbs: []string{"list"}, lack: "errors come without what the cluster says about a pod"},
	}
	for i := range grants {
		grants[i].file = "deploy/rbac.yaml"
	}
	grants = slices.Insert(grants, 1, p.wayGrant())
	if p.spec.Pod.Workspace.Keep {
		grants = append(grants, grant{
			resource: "persistentvolumeclaims", verbs: []string{"get", "list", "create", "patch", "delete"},
			file: "deploy/claims-rbac.yaml", forPod: true,
		})
	}
	if secret := p.secret(); secret != "" {
		_, name := secretPlace(secret, "")
		grants = append(grants, p.secretGrant(name, "get"))
		if !p.preflight { // a preflight finds out whether it is needed
			g := p.secretGrant("", "create")
			g.lack = "somebody else has to make the identity's Secret"
			grants = append(grants, g)
		}
	}
	return grants
}

// secretGrant returns a permission for the identity's Secret.
func (p *clusterPatient) secretGrant(only, verb string) grant {
	namespace, _ := secretPlace(p.secret(), "")
	return grant{resource: "secrets", partly: true, only: only, namespace: namespace, verbs: []string{verb}, file: identityRules}
}

// wayGrant returns the permission for the connection to the agent. A connection by
// address needs it to learn the agent's key. WebSockets are requested with GET,
// SPDY with POST; newer API servers check create in both cases.
func (p *clusterPatient) wayGrant() grant {
	g := grant{resource: "pods", subresource: "portforward", verbs: []string{"get", "create"}, file: "deploy/rbac.yaml", forPod: true}
	way := p.way()
	if way == ByAddress {
		way = wayTo("", p.spec.Pod.RuntimeClass)
	}
	if way == ByExec {
		g.subresource, g.file = "exec", "deploy/exec-rbac.yaml"
	}
	return g
}

func (p *clusterPatient) way() Connection {
	return wayTo(p.launcher.Connection, p.spec.Pod.RuntimeClass)
}

// checkWay is the name of the check of the connection to the agent.
func (p *clusterPatient) checkWay() string { return string(p.way()) + toTheAgent }

// secret returns the name of the identity's Secret; empty if the identity is in a
// file.
func (p *clusterPatient) secret() string {
	k := p.launcher
	if k.Identity != nil {
		return ""
	}
	config, _, err := k.config()
	if err != nil {
		return k.IdentitySecret
	}
	return k.secretIn(config)
}

// identityNeeds are the checks that must pass before the identity can be read.
func (p *clusterPatient) identityNeeds() []string {
	if p.secret() == "" {
		return []string{checkKubeconfig}
	}
	return []string{checkServer, checkNamespace}
}

func (g *grant) kind() string { return strings.TrimSuffix(g.resource+"/"+g.subresource, "/") }

// name tells one grant from another.
func (g *grant) name() string {
	name := g.kind()
	if g.partly {
		name += " (" + strings.Join(g.verbs, ", ") + ")"
	}
	return name
}

// rule returns the rule of a Role, in YAML, that grants verbs.
func (g *grant) rule(verbs []string) string {
	var only string
	if g.only != "" {
		only = fmt.Sprintf(", resourceNames: [%q]", g.only)
	}
	return fmt.Sprintf(`{apiGroups: [%q], resources: [%q]%s, verbs: ["%s"]}`, g.group, g.kind(), only, strings.Join(verbs, `", "`))
}

// grantAdvice says how to grant a missing rule. The file's Role is for a namespace of
// deploy/ and its ServiceAccount.
func grantAdvice(namespace, rule, file string) string {
	return fmt.Sprintf("Have your Role in namespace %s grant it, like the one that \"kubectl apply -f %s\" makes: %s", namespace, file, rule)
}

// checkGrant asks the API server for each verb.
func (p *clusterPatient) checkGrant(ctx context.Context, g grant) Finding {
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	namespace := cmp.Or(g.namespace, p.namespace)
	var missing []string
	for _, verb := range g.verbs {
		r, err := p.api.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: g.group, Resource: g.resource, Subresource: g.subresource, Name: g.only,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return warned(fmt.Errorf("cannot ask: %w", err), "It will show when it is used.")
		}
		if !r.Status.Allowed {
			missing = append(missing, verb)
		}
	}
	if len(missing) == 0 {
		return passed("%s", strings.Join(g.verbs, ", "))
	}
	err := fmt.Errorf("missing: %s", strings.Join(missing, ", "))
	advice := grantAdvice(namespace, g.rule(missing), g.file)
	if g.lack != "" {
		return warned(fmt.Errorf("%w: %s", err, g.lack), advice)
	}
	return failed(err, advice)
}
