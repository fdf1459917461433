package launcher

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// An agent is started with the keys that its identity has at the launch, in a variable of the
// pod, which stays as it is. When the keys change, an annotation of the pod has a keychain
// ([wire.FollowKeychain]), which the agent reads at each start. Nobody who may change the
// annotation can make the agent accept a key: that takes the signature of an accepted one.

// keychainVariable takes the pod's keychain to the agent.
const keychainVariable = "PODAGENT_KEYCHAIN"

// keychainEnv is the variable with the keychain, which is empty at first.
func keychainEnv() corev1.EnvVar {
	return corev1.EnvVar{Name: keychainVariable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + podmeta.AnnotationKeychain + "']"},
	}}
}

// setKeys has a pod that is about to be made start with the keys of a ring.
func setKeys(pod *corev1.Pod, r ring) {
	agent := agentContainer(pod)
	agent.Env = slices.DeleteFunc(agent.Env, func(v corev1.EnvVar) bool { return v.Name == keyVariable || v.Name == keychainVariable })
	agent.Env = append(agent.Env, corev1.EnvVar{Name: keyVariable, Value: keysText(r.authorized())}, keychainEnv())
	pod.Annotations[podmeta.AnnotationKey] = fingerprints(r.authorized())
	delete(pod.Annotations, podmeta.AnnotationKeychain)
}

// lengthen returns the keychain by which the pod's agent accepts the keys of a ring, and no
// others. What somebody has spoilt of the present one is left out.
func (c *cluster) lengthen(pod *corev1.Pod, r ring) (string, error) {
	present, chain, err := keychainOf(pod)
	if err != nil || keysText(present) == keysText(r.authorized()) {
		return chain, err
	}
	signer := c.identities.now().of(strings.Split(fingerprints(present), ",")...)
	if signer == nil {
		return "", c.otherKey(pod, fingerprints(present))
	}
	return signer.keys.Authorize(chain, string(pod.UID), r.authorized())
}

// keychainOf returns the keys that the pod's agent accepts when it starts again, and the part
// of its keychain that says so.
func keychainOf(pod *corev1.Pod) (present []wire.AuthorizedKey, chain string, err error) {
	first, err := startKeys(pod)
	if err != nil {
		return nil, "", err
	}
	links := strings.Fields(pod.Annotations[podmeta.AnnotationKeychain])
	present, believed, _ := wire.FollowKeychain(strings.Join(links, " "), string(pod.UID), first)
	return present, strings.Join(links[:believed], " "), nil
}

// acceptedNow returns the fingerprints of these keys; none for a pod without an agent of ours.
func acceptedNow(pod *corev1.Pod) []string {
	if agentContainer(pod) == nil {
		return nil
	}
	present, _, err := keychainOf(pod)
	if err != nil {
		return nil
	}
	return strings.Split(fingerprints(present), ",")
}

// startKeys returns the keys that the pod's agent is started with.
func startKeys(pod *corev1.Pod) (list []wire.AuthorizedKey, err error) {
	for text := range strings.SplitSeq(variable(agentContainer(pod).Env, keyVariable).Value, ",") {
		key, err := wire.ParseAuthorizedKey(text)
		if err != nil {
			return nil, err
		}
		list = append(list, key)
	}
	return list, nil
}
