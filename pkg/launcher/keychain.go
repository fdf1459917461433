package launcher

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	return fromAnnotation(keychainVariable, podmeta.AnnotationKeychain)
}

// setKeys makes a pod that is about to be created start with the keys of a ring.
func setKeys(pod *corev1.Pod, r ring) {
	dropKeys(pod)
	agent := agentContainer(pod)
	agent.Env = append(agent.Env, corev1.EnvVar{Name: keyVariable, Value: keysText(r.authorized())}, keychainEnv())
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, podmeta.AnnotationKey, fingerprints(r.authorized()))
}

// dropKeys removes all keys from the description of a pod.
func dropKeys(pod *corev1.Pod) {
	if agent := agentContainer(pod); agent != nil {
		agent.Env = slices.DeleteFunc(agent.Env, func(v corev1.EnvVar) bool { return v.Name == keyVariable || v.Name == keychainVariable })
	}
	delete(pod.Annotations, podmeta.AnnotationKey)
	delete(pod.Annotations, podmeta.AnnotationKeychain)
}

// followsKeychain reports whether the pod's agent is started with its keychain. An older
// launcher gave it none.
func followsKeychain(pod *corev1.Pod) bool {
	return variable(agentContainer(pod).Env, keychainVariable).ValueFrom != nil
}

// believed returns the keys that count for a pod's agent after a keychain, and the part of
// the chain that says so. Links that somebody has spoilt are left out.
func believed(pod *corev1.Pod, chain string) (present []wire.AuthorizedKey, good string, err error) {
	first, err := startKeys(pod)
	if err != nil {
		return nil, "", err
	}
	links := strings.Fields(chain)
	present, n, _ := wire.FollowKeychain(chain, string(pod.UID), first)
	return present, strings.Join(links[:n], " "), nil
}

// lengthen returns the keychain by which the pod's agent accepts the keys of a ring, and no
// others. It extends the present one. The error is [ErrOtherKey] if none of our keys counts
// there.
func (c *cluster) lengthen(pod *corev1.Pod, r ring, annotated, agents string) (string, error) {
	present, chain, err := presentChain(pod, annotated, agents)
	if err != nil {
		return "", c.otherKey(pod, "a key that is not valid")
	}
	signer := c.identities.now().of(strings.Split(fingerprints(present), ",")...)
	switch {
	case signer == nil:
		return "", c.otherKey(pod, fingerprints(present))
	case keysText(present) == keysText(r.authorized()):
		return chain, nil
	}
	return signer.keys.Authorize(chain, string(pod.UID), r.authorized())
}

// presentChain returns the keychain to lengthen, and the keys that count after it: the pod's,
// unless it does not begin with that of the agent, which is empty as long as nobody knows it.
// The agent takes no chain then that lengthens the pod's. Somebody may have put an old one
// there, which is signed, too, and may even be longer.
func presentChain(pod *corev1.Pod, annotated, agents string) ([]wire.AuthorizedKey, string, error) {
	present, chain, err := believed(pod, annotated)
	if err != nil || agents == "" || strings.HasPrefix(chain+" ", agents+" ") {
		return present, chain, err
	}
	return believed(pod, agents)
}

// acceptedNow returns the fingerprints of the keys that the pod's agent accepts when it starts
// again; none for a pod without an agent of ours.
func acceptedNow(pod *corev1.Pod) []string {
	if agentContainer(pod) == nil {
		return nil
	}
	present, _, err := believed(pod, pod.Annotations[podmeta.AnnotationKeychain])
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
