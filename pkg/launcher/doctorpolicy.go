package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// policyFile refuses the pods that these checks try.
const policyFile = "deploy/admission-policy.yaml"

// checkRefusals finds out whether the namespace refuses pods with the node's files and
// privileges. It makes none.
func (p *clusterPatient) checkRefusals(ctx context.Context) Finding {
	said, err := p.refusal(ctx, func(pod *corev1.Pod) {
		pod.Spec.HostPID = true
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "doctor", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
		agentContainer(pod).SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	})
	switch {
	case err != nil:
		return untried(err)
	case said == "":
		return warned(errors.New("anyone who may create pods here, such as the orchestrator, may have all of a node"),
			fmt.Sprintf("Label it: \"kubectl label namespace %s pod-security.kubernetes.io/enforce=restricted\". And apply %s, for this namespace.", p.namespace, policyFile))
	}
	return passed("%s", said)
}

// checkSecrets finds out whether a pod may use the namespace's Secrets, which matters
// most for the identity. It makes no pod.
func (p *clusterPatient) checkSecrets(ctx context.Context) Finding {
	said, err := p.refusal(ctx, func(pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "doctor", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: "podagent-doctor"},
		}})
	})
	switch namespace, name := secretPlace(p.secret(), p.namespace); {
	case err != nil:
		return untried(err)
	case name != "" && namespace == p.namespace:
		// A policy on volumes does not help: a pod may run as an account that reads Secrets.
		return warned(fmt.Errorf("anyone who may create pods here can read the identity in Secret %s", name),
			fmt.Sprintf("Keep it in another namespace (--identity-secret NAMESPACE/NAME), and apply %s, for this namespace.", policyFile))
	case said != "":
		return passed("%s", said)
	}
	return Finding{Verdict: NotChecked, Detail: fmt.Sprintf("no policy keeps pods from this namespace's Secrets: keep others out of it, or apply %s", policyFile)}
}

func untried(err error) Finding {
	return Finding{Verdict: NotChecked, Detail: fmt.Sprintf("it cannot be tried without making a pod: %v", err)}
}

// refusal returns what a policy says against the pod of the Spec once it is changed; empty
// if nothing does.
func (p *clusterPatient) refusal(ctx context.Context, change func(*corev1.Pod)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	pod, err := p.cluster.podFor(ctx, &p.spec)
	if err != nil {
		return "", err
	}
	pod.Name = podmeta.NameOf("doctor-" + newID())
	change(pod)
	_, err = p.api.CoreV1().Pods(p.namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil && isPolicy(err) {
		return "such a pod is refused: " + policyText(err), nil
	}
	return "", err
}

// isPolicy reports whether a policy refused a pod, rather than a quota or a mistake.
func isPolicy(err error) bool {
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		return false
	}
	by := []string{"violates PodSecurity", "ValidatingAdmissionPolicy", "admission webhook"}
	return slices.ContainsFunc(by, func(s string) bool { return strings.Contains(err.Error(), s) })
}

// policyText returns what the policy says, without the name of the pod.
func policyText(err error) string {
	if _, text, ok := strings.Cut(err.Error(), " is forbidden: "); ok {
		return text
	}
	return err.Error()
}

// reaperLabels are those of the CronJob of deploy/reaper.yaml.
const reaperLabels = "app.kubernetes.io/name=podagent,app.kubernetes.io/component=reaper"

// checkReaper looks for a CronJob that reaps sandboxes of the namespace.
func (p *clusterPatient) checkReaper(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	list, err := p.api.BatchV1().CronJobs("").List(ctx, metav1.ListOptions{LabelSelector: reaperLabels})
	if err != nil {
		return Finding{Verdict: NotChecked, Detail: "you may not look for CronJobs in all namespaces, and need not"}
	}
	i := slices.IndexFunc(list.Items, func(job batchv1.CronJob) bool { return reaps(&job, p.namespace) })
	if i < 0 {
		return Finding{Verdict: NotChecked, Detail: "there is no CronJob like deploy/reaper.yaml: sandboxes that everybody forgot stay until their active deadline"}
	}
	job := &list.Items[i]
	last := "it has not succeeded yet"
	if t := job.Status.LastSuccessfulTime; t != nil {
		last = "it last succeeded at " + timeText(t.Time)
	}
	return passed("CronJob %s/%s, %s: %s", job.Namespace, job.Name, job.Spec.Schedule, last)
}

// reaps reports whether a CronJob reaps sandboxes of a namespace.
func reaps(job *batchv1.CronJob, namespace string) bool {
	return slices.ContainsFunc(job.Spec.JobTemplate.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.Contains(c.Args, "--namespace="+namespace)
	})
}
