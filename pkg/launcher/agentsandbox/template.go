package agentsandbox

import (
	"context"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// What the launcher gives to a pod.
const (
	agentContainer  = "agent"
	workspaceVolume = "workspace"
	agentPort       = 7463
)

// Template returns, as YAML, a SandboxTemplate and a SandboxWarmPool of this name, which keeps so
// many pods ready. Of spec it uses Workdir, Egress and Pod, as [launcher.Kubernetes.PoolTemplate] does.
// With Pod.Workspace.Keep each Sandbox has a claim for the files in its workdir, so that it can
// be paused.
func (l *Launcher) Template(ctx context.Context, name string, replicas int, spec launcher.Spec) ([]byte, error) {
	if replicas < 0 || replicas > math.MaxInt32 {
		return nil, &launcher.SpecError{Field: "Pool.Size", Msg: fmt.Sprintf("is %d: it is between 0 and %d", replicas, math.MaxInt32)}
	}
	c, err := l.cluster(ctx)
	if err != nil {
		return nil, err
	}
	made, err := c.blueprint(ctx, &spec)
	if err != nil {
		return nil, err
	}
	meta := metav1.ObjectMeta{Name: name, Namespace: c.namespace}
	t := template{ObjectMeta: meta, Spec: templateSpec{
		blueprint: made, NetworkPolicyManagement: "Managed", NetworkPolicy: policyFor(c.k.Connection, isTunnelled(made)),
	}}
	t.SetGroupVersionKind(extensions.WithKind("SandboxTemplate"))
	p := warmPool{ObjectMeta: meta, Spec: warmPoolSpec{int32(replicas), nameRef{name}}}
	p.SetGroupVersionKind(extensions.WithKind("SandboxWarmPool"))
	comment := templateComment + openComment
	if isTunnelled(made) {
		comment = templateComment + tunnelComment
	}
	return documents(comment, t, warmPoolComment, p)
}

const (
	templateComment = `# The pods of this template run podagent, which waits for its sandbox.
#
# networkPolicyManagement is Managed, so that the controller keeps one policy for all of them,
# and networkPolicy says which. Without it, the controller's own policy would let its router in,
# which podagent does not need, and keep the pods from the cluster's DNS. Nobody may connect to
# these pods. The orchestrator need not: a port-forward comes from the pod's own node.
`
	openComment = `# They may connect to the DNS and to public addresses.
`
	tunnelComment = `# They may connect to nobody: their commands leave by the connection to their agent.
`
	warmPoolComment = `# A new sandbox takes one of these (orchestrator up --backend agent-sandbox --pool NAME).
`
)

// documents returns comments and the objects after them as one YAML text.
func documents(parts ...any) (text []byte, err error) {
	for _, part := range parts {
		if comment, ok := part.(string); ok {
			text = append(text, "---\n"+comment...)
			continue
		}
		data, err := yaml.Marshal(part)
		if err != nil {
			return nil, err
		}
		text = append(text, data...)
	}
	return text, nil
}

// blueprint returns the pod of a Sandbox, which waits for its sandbox, and the claim of its
// workspace if the Spec keeps that.
func (c *cluster) blueprint(ctx context.Context, spec *launcher.Spec) (blueprint, error) {
	pod := spec.Pod
	pod.Lifetime, pod.IdleTimeout, pod.IdleIgnoresCommands, pod.ActiveDeadline, pod.Workspace.Keep = 0, 0, false, 0, false
	made, err := c.k.PoolTemplate(ctx, "", launcher.Spec{Workdir: spec.Workdir, Egress: spec.Egress, Pod: pod})
	if err != nil {
		return blueprint{}, err
	}
	delete(made.Labels, podmeta.LabelPool)
	delete(made.Annotations, podmeta.AnnotationKey)         // a rotation changes it
	made.Spec.RestartPolicy = corev1.RestartPolicyOnFailure // an agent that ends by itself ends the pod
	for i := range made.Spec.Containers {
		made.Spec.Containers[i].RestartPolicy = nil
	}
	b := blueprint{PodTemplate: podTemplate{podMetadata{made.Labels, made.Annotations}, made.Spec}}
	if spec.Pod.Workspace.Keep {
		b.PodTemplate.Spec.Volumes = slices.DeleteFunc(b.PodTemplate.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == workspaceVolume })
		b.VolumeClaimTemplates = []claimTemplate{workspaceClaim(spec.Pod.Workspace)}
	}
	return b, nil
}

// workspaceClaim returns the claim for the files in the workdir.
func workspaceClaim(w launcher.Workspace) claimTemplate {
	size := w.Size
	if size.Sign() <= 0 {
		size = resource.MustParse(launcher.DefaultWorkspaceSize)
	}
	t := claimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
	}}
	t.Metadata.Name = workspaceVolume
	if w.StorageClass != "" {
		t.Spec.StorageClassName = &w.StorageClass
	}
	return t
}

// isTunnelled reports whether the network of the pods is to lead nowhere.
func isTunnelled(b blueprint) bool {
	return b.PodTemplate.Metadata.Labels[podmeta.LabelEgress] == podmeta.ByTunnel
}

// policyFor returns who may connect to the pods, and where these may connect to. Policies add up, so
// this one must let nothing out that another is to keep in.
func policyFor(connection launcher.Connection, tunnelled bool) *networkPolicy {
	policy := &networkPolicy{Ingress: []networkingv1.NetworkPolicyIngressRule{}, Egress: []networkingv1.NetworkPolicyEgressRule{}}
	if !tunnelled {
		policy.Egress = append(policy.Egress, toDNS(), toPublic())
	}
	if connection == launcher.ByAddress {
		policy.Ingress = append(policy.Ingress, fromOrchestrators())
	}
	return policy
}

// toDNS lets pods ask the cluster's DNS.
func toDNS() networkingv1.NetworkPolicyEgressRule {
	port := func(protocol corev1.Protocol) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: new(intstr.FromInt32(53))}
	}
	return networkingv1.NetworkPolicyEgressRule{
		Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolUDP), port(corev1.ProtocolTCP)},
		To: []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "kube-system"}},
			PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}},
		}},
	}
}

// toPublic lets pods connect to public addresses: not to those of private networks, of links, and
// of clouds' metadata servers.
func toPublic() networkingv1.NetworkPolicyEgressRule {
	return networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{
		{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{
			"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
		}}},
		{IPBlock: &networkingv1.IPBlock{CIDR: "::/0", Except: []string{"64:ff9b::/96", "fc00::/7", "fe80::/10"}}},
	}}
}

// fromOrchestrators lets pods with this label in the namespace of the orchestrators connect to
// agents, as deploy/networkpolicy-address.yaml does.
func fromOrchestrators() networkingv1.NetworkPolicyIngressRule {
	protocol := corev1.ProtocolTCP
	return networkingv1.NetworkPolicyIngressRule{
		Ports: []networkingv1.NetworkPolicyPort{{Protocol: &protocol, Port: new(intstr.FromInt32(agentPort))}},
		From: []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "podagent-system"}},
			PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{podmeta.Prefix + "orchestrator": "true"}},
		}},
	}
}
