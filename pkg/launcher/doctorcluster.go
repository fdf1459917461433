package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Check finds out whether sandboxes work in the cluster, and how the cluster guards against
// hostile ones. It makes one as spec says, but for its ID and Git, and leaves only the
// identity. It ends with ctx.
func (k *Kubernetes) Check(ctx context.Context, spec Spec) iter.Seq[Finding] {
	spec.ID = "doctor-" + newID()
	p := &clusterPatient{launcher: k, spec: spec.withImage()}
	return examine(ctx, p, p.checks())
}

// clusterPatient holds what the checks of a [Kubernetes] learn for later checks.
type clusterPatient struct {
	launcher *Kubernetes
	spec     Spec
	// preflight excuses missing permissions that spec does not need.
	preflight bool

	config    *rest.Config
	namespace string
	api       kubernetes.Interface
	cluster   *cluster

	pod     *corev1.Pod // nil once it is removed
	sandbox *Sandbox
	broken  string // the name of the failed check of the pod's start
	err     error  // its error
}

// The names of the checks.
const (
	checkSpec        = "specification"
	checkKubeconfig  = "kubeconfig"
	checkServer      = "API server"
	checkNamespace   = "namespace"
	checkPermission  = "permission on "
	checkStorage     = "storage class"
	checkIdentity    = "identity"
	checkPool        = "pool"
	checkPod         = "pod is admitted"
	checkCheckpoints = "checkpoints"
	checkEgress      = "way out of the sandbox"
	checkRefusal     = "pods with the node's files"
	checkSecret      = "pods with Secrets"
	checkReap        = "reaper"
	checkNode        = "pod has a node"
	checkContainer   = "container runs"
	toTheAgent       = " to the agent" // follows the connection's name
	checkCommand     = "command through the agent"
	checkRemoval     = "pod is removed"
)

func (p *clusterPatient) checks() []check[*clusterPatient] {
	needed := []string{checkServer, checkNamespace, checkIdentity}
	for _, g := range p.grants() {
		if g.forPod {
			needed = append(needed, checkPermission+g.name())
		}
	}
	if p.spec.Pod.Workspace.Keep {
		needed = append(needed, checkStorage)
	}
	checks := append(p.access(), check[*clusterPatient]{checkIdentity, p.identityNeeds(), (*clusterPatient).checkIdentity})
	if p.spec.Take.Pool != "" {
		checks = append(checks, check[*clusterPatient]{checkPool, []string{checkIdentity}, (*clusterPatient).checkPool})
	}
	return append(checks, []check[*clusterPatient]{
		{checkPod, needed, (*clusterPatient).checkPod},
		{checkNode, []string{checkPod}, func(p *clusterPatient, ctx context.Context) Finding {
			p.attach(ctx) // this check and the next two report its result
			return p.start(checkNode, "the scheduler has found one")
		}},
		{checkContainer, []string{checkNode}, func(p *clusterPatient, _ context.Context) Finding {
			return p.start(checkContainer, "from the image "+agentContainer(p.pod).Image)
		}},
		{p.checkWay(), []string{checkContainer}, func(p *clusterPatient, _ context.Context) Finding {
			return p.start(p.checkWay(), "it answers")
		}},
		{checkCommand, []string{p.checkWay()}, func(p *clusterPatient, ctx context.Context) Finding {
			return runCommand(ctx, p.sandbox, programOf(p.pod), "version") // every image has this program
		}},
		{checkCheckpoints, []string{p.checkWay()}, (*clusterPatient).checkCheckpoints},
		{checkEgress, []string{p.checkWay()}, (*clusterPatient).checkEgress},
		{checkRefusal, []string{checkPod}, (*clusterPatient).checkRefusals},
		{checkSecret, []string{checkPod}, (*clusterPatient).checkSecrets},
		{checkReap, []string{checkServer}, (*clusterPatient).checkReaper},
		{checkRemoval, []string{checkPod}, (*clusterPatient).checkRemoval},
	}...)
}

// checkPool finds out whether a launch would get a pod of the pool. Without one it makes a pod.
func (p *clusterPatient) checkPool(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	if why := p.spec.mustStartCold(); why != "" {
		return warned(errors.New(why), "Leave that out of the flags, or leave out --pool.")
	}
	pods, why, err := p.cluster.warmPods(ctx, &p.spec, "")
	switch {
	case err != nil:
		return failed(err, "The API server must let this account list pods.")
	case len(pods) == 0:
		return warned(errors.New(why), "New sandboxes start with new pods meanwhile: \"orchestrator pool describe "+p.spec.Take.Pool+"\" says more.")
	}
	return passed("%d pods of %s wait and fit", len(pods), p.spec.Take.Pool)
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
		return failed(err, "The credentials in the kubeconfig are not accepted, or no longer: log in again.")
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

func (p *clusterPatient) checkIdentity(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	c, _, err := p.launcher.cluster(ctx)
	if err != nil {
		return failed(err, p.identityAdvice(err))
	}
	p.cluster = c
	if v := c.identities.now()[0]; v.hasExpired() {
		return warned(fmt.Errorf("the key %s was due at %s", v.fingerprint(), v.expires.UTC().Format(time.RFC3339)), "Make a new one: \"orchestrator identity rotate\".")
	}
	return passed("%s", c.fingerprint())
}

// adviceFor says what to do about an error with a pod.
func (p *clusterPatient) adviceFor(err error) string {
	if p.launcher.Connection == ByAddress && errors.Is(err, ErrNotReady) {
		return "See whether pods can be reached over the network from here, and whether NetworkPolicies allow it: deploy/networkpolicy-address.yaml is one. The agent's key is learned through the API server: see whether \"kubectl port-forward\" to such a pod works, or exec under gVisor and Kata."
	}
	for _, a := range []struct {
		class  error
		advice string
	}{
		{ErrNoNamespace, fmt.Sprintf(`Make it ("kubectl create namespace %s"), or use another.`, p.namespace)},
		{ErrForbidden, "Apply deploy/rbac.yaml, or its missing rules. Connections by exec need deploy/exec-rbac.yaml, too, and workspaces that are kept need deploy/claims-rbac.yaml."},
		{ErrNoStorageClass, "Name one for the workspace (--storage-class), or make one the default: \"kubectl annotate storageclass NAME storageclass.kubernetes.io/is-default-class=true\"."},
		{ErrRejected, "Ask for what the namespace admits: requests and limits by its quota, a profile by its Pod Security Standard."},
		{ErrUnschedulable, "Request less, or add a node that can hold the pod."},
		{ErrImage, `Choose an image that the nodes can pull. "make image" builds one: push it to a registry that they use, or load it into the nodes.`},
		{ErrCannotStart, "The image must have podagent in its PATH, and work for user 1000: see images/runtime."},
		{ErrCrashLoop, "See the container's output (\"kubectl logs\"): the image must have podagent in its PATH, and work for user 1000."},
		{ErrEgress, egressAdvice + " Or require less."},
		{ErrNotReady, "Give it a longer ready timeout if the image is large, or see what the node's kubelet says."},
	} {
		if errors.Is(err, a.class) {
			return a.advice
		}
	}
	return `See what "kubectl get events" says, and whether "kubectl port-forward" to such a pod works.`
}
