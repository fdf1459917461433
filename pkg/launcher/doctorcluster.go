package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Check finds out whether sandboxes work in the cluster, step by step: the way
// to the API server, the namespace, each permission that is needed, the
// identity, and in the end a real sandbox in a pod as pod says, with one
// command in it, which is removed again. It changes nothing else, but that an
// identity is made on first use. It ends early when ctx does.
func (k *Kubernetes) Check(ctx context.Context, pod Pod) iter.Seq[Finding] {
	p := &clusterPatient{launcher: k, spec: Spec{ID: "doctor-" + newID(), Pod: pod}}
	return examine(ctx, p, p.checks())
}

// clusterPatient is what the checks of a [Kubernetes] learn for each other.
type clusterPatient struct {
	launcher *Kubernetes
	spec     Spec
	// preflight says that what spec does without may be missing.
	preflight bool

	config    *rest.Config
	namespace string
	api       kubernetes.Interface
	cluster   *cluster

	pod     *corev1.Pod // until it is removed
	sandbox *Sandbox
	broken  string // the check of the pod's start that fails
	err     error  // by this
}

// The names of the checks.
const (
	checkSpec       = "specification"
	checkKubeconfig = "kubeconfig"
	checkServer     = "API server"
	checkNamespace  = "namespace"
	checkPermission = "permission on "
	checkIdentity   = "identity"
	checkPod        = "pod is admitted"
	checkNode       = "pod has a node"
	checkContainer  = "container runs"
	toTheAgent      = " to the agent" // behind the name of the way
	checkCommand    = "command through the agent"
	checkRemoval    = "pod is removed"
)

func (p *clusterPatient) checks() []check[*clusterPatient] {
	needed := []string{checkServer, checkNamespace, checkIdentity}
	for _, g := range p.grants() {
		if g.forPod {
			needed = append(needed, checkPermission+g.name())
		}
	}
	return append(p.access(), []check[*clusterPatient]{
		{checkIdentity, p.identityNeeds(), (*clusterPatient).checkIdentity},
		{checkPod, needed, (*clusterPatient).checkPod},
		{checkNode, []string{checkPod}, func(p *clusterPatient, ctx context.Context) Finding {
			p.attach(ctx) // what it comes to is the result of this check and the next two
			return p.start(checkNode, "the scheduler has found one")
		}},
		{checkContainer, []string{checkNode}, func(p *clusterPatient, _ context.Context) Finding {
			return p.start(checkContainer, "from the image "+p.pod.Spec.Containers[0].Image)
		}},
		{p.checkWay(), []string{checkContainer}, func(p *clusterPatient, _ context.Context) Finding {
			return p.start(p.checkWay(), "it answers")
		}},
		{checkCommand, []string{p.checkWay()}, func(p *clusterPatient, ctx context.Context) Finding {
			return runCommand(ctx, p.sandbox, programOf(p.pod), "version") // what every image has
		}},
		{checkRemoval, []string{checkPod}, (*clusterPatient).checkRemoval},
	}...)
}

func (p *clusterPatient) checkKubeconfig(context.Context) Finding {
	var err error
	if p.config, p.namespace, err = p.launcher.config(); err == nil {
		p.api, err = kubernetes.NewForConfig(p.config)
	}
	if err != nil {
		return failed(err, "Name a kubeconfig that works with kubectl, and one of its contexts.")
	}
	return passed("%s, namespace %s", p.config.Host, p.namespace)
}

func (p *clusterPatient) checkServer(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	data, err := p.api.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	var v version.Info
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	switch {
	case apierrors.IsUnauthorized(err):
		return failed(err, "The credentials in the kubeconfig are not accepted, perhaps not any more: log in again.")
	case err != nil:
		return failed(err, "See whether the cluster is up and can be reached from here: \"kubectl version\" goes the same way.")
	}
	return passed("Kubernetes %s, as %s", v.GitVersion, p.user(ctx))
}

// user returns the caller's name, as the API server knows it.
func (p *clusterPatient) user(ctx context.Context) string {
	r, err := p.api.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil { // Kubernetes before 1.28
		return "an unknown user"
	}
	return r.Status.UserInfo.Username
}

func (p *clusterPatient) checkNamespace(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	namespace, err := p.api.CoreV1().Namespaces().Get(ctx, p.namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return Finding{Verdict: NotChecked, Detail: "you may not ask for " + p.namespace + ", and need not"}
	case apierrors.IsNotFound(err):
		return failed(err, p.adviceFor(ErrNoNamespace))
	case err != nil:
		return failed(err, "See what \"kubectl get namespace "+p.namespace+"\" says.")
	case namespace.Status.Phase == corev1.NamespaceTerminating:
		return failed(fmt.Errorf("namespace %s is being deleted", p.namespace), "Wait until it is gone and make it again, or use another.")
	}
	return passed("%s is there", p.namespace)
}

// A grant is what the caller needs to be allowed to do in the namespace.
type grant struct {
	group, resource, subresource string
	verbs                        []string
	// only names the one object that it is needed on.
	only string
	// forPod says that no sandbox works without it. Others do without what is
	// optional, which lack says.
	forPod bool
	lack   string
	// file has the rule.
	file string
}

// grants returns what the files in deploy/ grant.
func (p *clusterPatient) grants() []grant {
	grants := []grant{
		{resource: "pods", verbs: []string{"get", "list", "watch", "create", "patch", "delete"}, forPod: true},
		{group: "coordination.k8s.io", resource: "leases", verbs: []string{"get", "create", "update", "delete"}},
		{resource: "events", verbs: []string{"list"}, lack: "errors come without what the cluster says about a pod"},
	}
	for i := range grants {
		grants[i].file = "deploy/rbac.yaml"
	}
	if p.preflight && !p.spec.Pod.Exclusive {
		grants[1].lack = "no sandbox can be opened exclusively"
	}
	if way, ok := p.wayGrant(); ok {
		grants = slices.Insert(grants, 1, way)
	}
	if p.spec.Pod.Workspace.Keep {
		grants = append(grants, grant{
			resource: "persistentvolumeclaims", verbs: []string{"get", "list", "create", "patch", "delete"},
			file: "deploy/claims-rbac.yaml", forPod: true,
		})
	}
	if secret := p.secret(); secret != "" {
		grants = append(grants, grant{resource: "secrets", only: secret, verbs: []string{"get"}, file: identityRules})
		if !p.preflight { // which sees whether it is needed
			grants = append(grants, grant{resource: "secrets", verbs: []string{"create"}, lack: "somebody else has to make the identity's Secret", file: identityRules})
		}
	}
	return grants
}

// wayGrant returns what the way to the agent needs, if it goes through the API
// server. A WebSocket is asked for by GET, SPDY by POST; newer API servers ask
// for create in both cases.
func (p *clusterPatient) wayGrant() (grant, bool) {
	g := grant{resource: "pods", subresource: "portforward", verbs: []string{"get", "create"}, file: "deploy/rbac.yaml", forPod: true}
	if p.way() == ByExec {
		g.subresource, g.file = "exec", "deploy/exec-rbac.yaml"
	}
	return g, p.way() != ByAddress
}

func (p *clusterPatient) way() Connection {
	return wayTo(p.launcher.Connection, p.spec.Pod.RuntimeClass)
}

// checkWay is the name of the check of the way to the agent.
func (p *clusterPatient) checkWay() string { return string(p.way()) + toTheAgent }

// secret returns the name of the Secret that the identity is in; empty if it
// is in a file.
func (p *clusterPatient) secret() string {
	k := p.launcher
	if k.Identity != nil || k.IdentitySecret != "" || k.IdentityFile != "" {
		return k.IdentitySecret
	}
	if config, _, err := k.config(); err == nil && inPod(config) {
		return DefaultIdentitySecret
	}
	return ""
}

// identityNeeds are the checks without which the identity cannot be had.
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
	if g.resource == "secrets" {
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

// checkGrant asks the API server for each verb.
func (p *clusterPatient) checkGrant(ctx context.Context, g grant) Finding {
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	var missing []string
	for _, verb := range g.verbs {
		r, err := p.api.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: p.namespace, Verb: verb, Group: g.group, Resource: g.resource, Subresource: g.subresource, Name: g.only,
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
	advice := fmt.Sprintf("Run \"kubectl apply -f %s\", or add this rule to your Role in namespace %s: %s", g.file, p.namespace, g.rule(missing))
	if g.lack != "" {
		return warned(fmt.Errorf("%w: %s", err, g.lack), advice)
	}
	return failed(err, advice)
}

func (p *clusterPatient) checkIdentity(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	c, _, err := p.launcher.cluster(ctx)
	if err != nil {
		return failed(err, identityAdvice(err))
	}
	p.cluster = c
	return passed("%s", c.identity.AuthorizedKey().Fingerprint())
}

// adviceFor says what to do about an error of a pod.
func (p *clusterPatient) adviceFor(err error) string {
	if p.launcher.Connection == ByAddress && errors.Is(err, ErrNotReady) {
		return "See whether the network leads from here to pods, and whether NetworkPolicies let it through: deploy/networkpolicy-address.yaml is one."
	}
	for _, a := range []struct {
		class  error
		advice string
	}{
		{ErrNoNamespace, fmt.Sprintf(`Make it ("kubectl create namespace %s"), or use another.`, p.namespace)},
		{ErrForbidden, "Apply deploy/rbac.yaml, or what of its rules is missing; for the way by exec deploy/exec-rbac.yaml, for workspaces that are kept deploy/claims-rbac.yaml, too."},
		{ErrRejected, "Ask for what the namespace admits: requests and limits by its quota, a profile by its Pod Security Standard."},
		{ErrUnschedulable, "Request less, or add a node that can hold the pod."},
		{ErrImage, `Choose an image that the nodes can pull. "make image" builds one: push it to a registry of theirs, or load it into the nodes.`},
		{ErrCannotStart, "The image must have podagent in its PATH, and work for user 1000: see images/runtime."},
		{ErrCrashLoop, "See the container's output (\"kubectl logs\"): the image must have podagent in its PATH, and work for user 1000."},
		{ErrNotReady, "Give it a longer ready timeout if the image is large, or see what the node's kubelet says."},
	} {
		if errors.Is(err, a.class) {
			return a.advice
		}
	}
	return `See what "kubectl get events" says, and whether "kubectl port-forward" to such a pod works.`
}
