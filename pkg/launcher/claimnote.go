package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/internal/keys"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// The note of a claim says which pod Resume makes. A user who may patch claims could
// write another pod there, and so borrow the orchestrator's permission to create
// pods. Hence the orchestrator signs the note, and believes none but its own.

// podNote is the text of a note: the pod without its environment, and the environment
// sealed.
type podNote struct {
	Pod         *corev1.Pod `json:"pod"`
	Environment []byte      `json:"environment,omitempty"`
}

// environment is the part of a pod that a note hides: it may have secrets of the caller's.
type environment struct {
	// Env has the variables of each container by its name.
	Env map[string][]corev1.EnvVar `json:"env"`
	// Spec is podmeta.AnnotationSpec, which repeats the variables of a patch.
	Spec string `json:"spec"`
}

// subjectOf returns what the note of a claim is about. The claim has no UID before it
// is created.
func (c *cluster) subjectOf(name, uid, id string) keys.Subject {
	return keys.Subject{Kind: "PersistentVolumeClaim", Namespace: c.namespace, Name: name, UID: uid, ID: id}
}

// writeNote returns the note of a claim: this pod, signed, with its environment
// sealed.
func (c *cluster) writeNote(ctx context.Context, about keys.Subject, generation int64, pod *corev1.Pod) (string, error) {
	r, err := c.identities.fresh(ctx, ringAge)
	if err != nil {
		return "", err
	}
	ours := r[0].keys
	text, err := noteText(pod, func(secret []byte) []byte { return ours.Seal(about, secret) })
	if err != nil {
		return "", err
	}
	return ours.Sign(about, generation, text), nil
}

// noteText returns the text that is signed.
func noteText(pod *corev1.Pod, seal func([]byte) []byte) (string, error) {
	open := pod.DeepCopy()
	dropKeys(open) // a pod that is made from the note gets the keys of that moment
	hidden := environment{Env: map[string][]corev1.EnvVar{}, Spec: open.Annotations[podmeta.AnnotationSpec]}
	delete(open.Annotations, podmeta.AnnotationSpec)
	for c := range containers(open) {
		if len(c.Env) > 0 {
			hidden.Env[c.Name], c.Env = c.Env, nil
		}
	}
	secret, err := json.Marshal(hidden)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(podNote{open, seal(secret)})
	return string(text), err
}

// containers yields all containers of a pod.
func containers(pod *corev1.Pod) func(yield func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// noteSize returns how many bytes the note of a pod has.
func noteSize(pod *corev1.Pod) int {
	text, _ := noteText(pod, func(secret []byte) []byte { return make([]byte, keys.Sealed(len(secret))) }) // a pod can always be encoded
	return len(text) + keys.MaxHeader
}

// restore returns the pod of a note with its environment.
func restore(sealed keys.Set, about keys.Subject, text string) (*corev1.Pod, error) {
	note := podNote{Pod: &corev1.Pod{}}
	if err := json.Unmarshal([]byte(text), &note); err != nil || note.Pod == nil {
		return nil, errors.Join(errors.New("it has no pod"), err)
	}
	secret, err := sealed.Open(about, note.Environment)
	if err != nil {
		return nil, fmt.Errorf("its environment cannot be opened: %w", err)
	}
	var hidden environment
	if err := json.Unmarshal(secret, &hidden); err != nil {
		return nil, fmt.Errorf("its environment cannot be read: %w", err)
	}
	pod := note.Pod
	for c := range containers(pod) {
		c.Env = hidden.Env[c.Name]
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[podmeta.AnnotationSpec] = hidden.Spec
	return pod, nil
}

// readNote returns the pod of a claim's note, and the note's generation, if this
// identity has signed it for this claim of this sandbox.
func (c *cluster) readNote(ctx context.Context, claim *corev1.PersistentVolumeClaim, id string) (*corev1.Pod, int64, error) {
	about := c.subjectOf(claim.Name, string(claim.UID), id)
	written := claim.Annotations[podmeta.AnnotationPod]
	said, err := keys.Parse(written)
	if err != nil {
		return nil, 0, c.unsigned(claim, err)
	}
	v, err := c.versionOf(ctx, said.Signer)
	if err != nil {
		return nil, 0, c.unsigned(claim, err)
	}
	note, err := v.keys.Verify(about, written)
	if errors.Is(err, keys.ErrSignature) { // it may be from the claim's creation
		about.UID = ""
		note, err = v.keys.Verify(about, written)
		if err == nil && !isFromCreation(note.Generation, claim) {
			err = fmt.Errorf("%w: it is of another claim of this name, since it was signed at %s", keys.ErrSignature, generationTime(note.Generation).Format(time.RFC3339))
		}
	}
	if err != nil {
		return nil, 0, c.unsigned(claim, err)
	}
	pod, err := restore(v.keys, about, note.Text)
	if err != nil {
		return nil, 0, c.unsigned(claim, err)
	}
	return pod, note.Generation, nil
}

// unsigned returns the error for a note that is not believed. A note of another
// identity is not for this one to sign.
func (c *cluster) unsigned(claim *corev1.PersistentVolumeClaim, err error) error {
	if errors.Is(err, keys.ErrForeign) {
		return c.otherSigner(claim, signerOf(claim))
	}
	e := c.podError(claim, ErrUnsigned, "", fmt.Sprintf("annotation %s of claim %s: %v", podmeta.AnnotationPod, claim.Name, err))
	e.Err = err
	return e
}

// checkSigner returns an error if a claim's note names another identity.
func (c *cluster) checkSigner(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	signer := signerOf(claim)
	if signer == "" {
		return nil
	}
	// A note without a signature names the keys that the pod's agent accepts.
	if _, err := c.versionOf(ctx, strings.Split(signer, ",")...); err != nil {
		return c.otherSigner(claim, signer)
	}
	return nil
}

// otherSigner returns the error for a claim whose note names another identity. Any user who
// may patch claims can have written that.
func (c *cluster) otherSigner(claim *corev1.PersistentVolumeClaim, theirs string) error {
	return c.podError(claim, ErrOtherKey, "", fmt.Sprintf("annotation %s of claim %s names %s, ours is %s (if somebody changed it, remove the annotation and launch the sandbox again)", podmeta.AnnotationPod, claim.Name, theirs, c.fingerprint()))
}

// takeForLaunch takes a claim for a pod that is about to be created. It annotates the pod
// with the time, which becomes the generation of the pod's note if the pod works, and with the
// labels of the sandbox, which is there already.
func (c *cluster) takeForLaunch(ctx context.Context, claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) error {
	id := pod.Annotations[podmeta.AnnotationID]
	next, err := c.nextGeneration(ctx, claim, id)
	if err != nil {
		return err
	}
	now := generationTime(max(time.Now().UnixNano(), next)) // clocks differ
	if err := c.takeClaim(ctx, claim, id, now); err != nil {
		return err
	}
	pod.Annotations[podmeta.AnnotationResumed] = timeText(now)
	copyLabels(pod.Annotations, claim.Annotations)
	return nil
}

// notePod writes into the claim how its latest working pod was made, for
// [Kubernetes.Resume], unless a launch that took the claim later has done so. The
// generation says when this one took it. Nothing that others can write decides this.
func (c *cluster) notePod(ctx context.Context, pod *corev1.Pod, generation int64) error {
	for {
		claim, err := c.claimOfPod(ctx, pod)
		if err != nil {
			return err
		}
		next, err := c.nextGeneration(ctx, claim, pod.Annotations[podmeta.AnnotationID])
		if err != nil || next > generation {
			return err
		}
		if err := c.note(ctx, claim, pod, generation); !apierrors.IsConflict(err) { // a conflict means that it has changed
			return err
		}
	}
}

// nextGeneration returns the lowest generation that the next note of a claim may have.
// The floor has no finer time than microseconds.
func (c *cluster) nextGeneration(ctx context.Context, claim *corev1.PersistentVolumeClaim, id string) (int64, error) {
	last, _, err := c.floor(ctx, claim)
	if _, noted, err := c.readNote(ctx, claim, id); err == nil {
		last = max(last, noted)
	}
	return last + int64(time.Microsecond), err
}

// note writes into a claim how its pod is made, unless the claim has changed since it was
// read, and makes sure that no older note is believed.
func (c *cluster) note(ctx context.Context, claim *corev1.PersistentVolumeClaim, pod *corev1.Pod, generation int64) error {
	note, err := c.writeNote(ctx, c.subjectOf(claim.Name, string(claim.UID), pod.Annotations[podmeta.AnnotationID]), generation, pod)
	if err != nil {
		return err
	}
	if _, err := c.annotateClaim(ctx, claim.Name, metav1.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion}, map[string]string{podmeta.AnnotationPod: note}); err != nil {
		return err
	}
	return c.raiseFloor(ctx, claim, generation)
}

// A generation is the time in nanoseconds at which a launch made or took the claim, or a
// person signed its note; or later, where clocks differ.
func generationTime(generation int64) time.Time { return time.Unix(0, generation).UTC() }

// isFromCreation reports whether a note can be part of the creation of this claim. The
// claim had no UID then. Without this check a note of a claim that had the same name
// could be put in its place, also one in another cluster.
func isFromCreation(generation int64, claim *corev1.PersistentVolumeClaim) bool {
	return generationTime(generation).Sub(claim.CreationTimestamp.Time).Abs() <= noteSkew
}

// shownPod returns the pod of a claim's note only to show it: it need not be signed, and
// may lack its environment.
func shownPod(claim *corev1.PersistentVolumeClaim) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	text := claim.Annotations[podmeta.AnnotationPod]
	if note, err := keys.Parse(text); err == nil {
		err = json.Unmarshal([]byte(note.Text), &podNote{Pod: pod})
		return pod, checkShown(claim, pod, err)
	}
	err := json.Unmarshal([]byte(text), pod) // as claims had it before notes were signed
	return pod, checkShown(claim, pod, err)
}

// checkShown checks that a claim's note, which was decoded with this error, has a pod.
func checkShown(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("annotation %s of claim %s does not say how the pod is made: %w", podmeta.AnnotationPod, claim.Name, err)
	case pod.Name != userOf(claim), agentContainer(pod) == nil:
		return fmt.Errorf("annotation %s of claim %s has no pod of this sandbox", podmeta.AnnotationPod, claim.Name)
	}
	return nil
}

// signerOf returns the fingerprint of the identity that a claim's note names as its
// writer; empty if it names none.
func signerOf(claim *corev1.PersistentVolumeClaim) string {
	text := claim.Annotations[podmeta.AnnotationPod]
	if note, err := keys.Parse(text); err == nil {
		return note.Signer
	}
	if pod, err := shownPod(claim); err == nil && strings.HasPrefix(text, "{") {
		return pod.Annotations[podmeta.AnnotationKey]
	}
	return ""
}
