package launcher

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/internal/keys"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// legacyClaim returns a claim as the previous version made it.
func legacyClaim(t testing.TB, c *cluster, pod *corev1.Pod) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := madeClaim(t, c, pod, time.Now())
	whole, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	claim.Annotations[podmeta.AnnotationPod] = string(whole)
	return claim
}

func TestUnsignedNoteIsRefusedButCanBeSigned(t *testing.T) {
	c := noting(t)
	pod := keptPod(t, c, "a")
	claim := legacyClaim(t, c, pod)
	if _, _, err := c.notedPod(t.Context(), claim, "a"); !errors.Is(err, ErrUnsigned) || !errors.Is(err, keys.ErrNoNote) {
		t.Errorf("resumed: %v", err)
	}
	got, err := c.unverified(t.Context(), claim, "a")
	if err != nil || c.checkNoted(claim, "a", got) != nil || cmp.Diff(pod, got) != "" {
		t.Errorf("to be signed: %v, %v, %s", err, c.checkNoted(claim, "a", got), cmp.Diff(pod, got))
	}
	renote(t, c, claim, 1, got)
	dropKeys(pod) // a signed note has none
	if again, _, err := c.notedPod(t.Context(), claim, "a"); err != nil || cmp.Diff(pod, again) != "" {
		t.Errorf("signed: %v, %s", err, cmp.Diff(pod, again))
	}
	claim = legacyClaim(t, noting(t), keptPod(t, noting(t), "a"))
	if _, err := c.unverified(t.Context(), claim, "a"); !errors.Is(err, ErrOtherKey) {
		t.Errorf("of another identity: %v", err)
	}
}

// A user who may patch claims writes anything into them. Nothing of it is resumed, and a
// pod that breaks the profile, or is not this sandbox's, is not even signed.
func TestWhatAPatcherOfClaimsWrites(t *testing.T) {
	c, stranger := noting(t), noting(t)
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		signs  error // nil if a person may sign it
	}{
		"another image":   {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "evil" }, nil},
		"another account": {func(p *corev1.Pod) { p.Spec.ServiceAccountName = "admin" }, nil},
		"a Secret": {func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "podagent-identity"}}})
		}, nil},
		"hostPath": {func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
		}, ErrRejected},
		"privileged":   {func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.Privileged = new(true) }, ErrRejected},
		"host network": {func(p *corev1.Pod) { p.Spec.HostNetwork = true }, ErrRejected},
		"the profile privileged": {func(p *corev1.Pod) {
			p.Spec.HostPID = true
			p.Annotations[podmeta.AnnotationSpec] = strings.Replace(p.Annotations[podmeta.AnnotationSpec], `"restricted"`, `"privileged"`, 1)
		}, ErrRejected},
		"no traits":      {func(p *corev1.Pod) { delete(p.Annotations, podmeta.AnnotationSpec) }, ErrRejected},
		"another id":     {func(p *corev1.Pod) { p.Annotations[podmeta.AnnotationID] = "b" }, ErrNotOurs},
		"no label":       {func(p *corev1.Pod) { p.Labels = nil }, ErrNotOurs},
		"another space":  {func(p *corev1.Pod) { p.Namespace = "kube-system" }, ErrNotOurs},
		"another claim":  {func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "of-another" }, ErrNotOurs},
		"no agent":       {func(p *corev1.Pod) { p.Spec.Containers[0].Name = "x" }, errAny},
		"another's name": {func(p *corev1.Pod) { p.Name = "x" }, errAny},
	} {
		pod := keptPod(t, c, "a")
		tt.change(pod)
		claim := legacyClaim(t, c, keptPod(t, c, "a"))
		whole, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		forged, err := stranger.writeNote(t.Context(), c.subjectOf(claim.Name, string(claim.UID), "a"), time.Now().UnixNano(), pod)
		if err != nil {
			t.Fatal(err)
		}
		as := strings.Replace(forged, stranger.fingerprint(), c.fingerprint(), 1)
		for _, written := range []string{string(whole), forged, as} {
			claim.Annotations[podmeta.AnnotationPod] = written
			if _, _, err := c.notedPod(t.Context(), claim, "a"); !errors.Is(err, ErrUnsigned) && !errors.Is(err, ErrOtherKey) {
				t.Errorf("%s is resumed: %v", name, err)
			}
		}
		claim.Annotations[podmeta.AnnotationPod] = string(whole)
		shown, err := c.unverified(t.Context(), claim, "a")
		if err == nil {
			err = c.checkNoted(claim, "a", shown)
		}
		if tt.signs == errAny && err == nil || tt.signs != errAny && !errors.Is(err, tt.signs) {
			t.Errorf("%s may be signed: %v", name, err)
		}
		if !errors.Is(tt.signs, ErrRejected) {
			continue
		}
		renote(t, c, claim, time.Now().UnixNano(), pod) // even if the identity had signed it
		if _, _, err := c.notedPod(t.Context(), claim, "a"); !errors.Is(err, ErrRejected) {
			t.Errorf("%s, signed, is resumed: %v", name, err)
		}
		if err := c.checkMade(pod); !errors.Is(err, ErrRejected) {
			t.Errorf("%s is made: %v", name, err)
		}
	}
}

// errAny stands for any error.
var errAny = errors.New("any")

// Whatever keys a note has, the agent of the pod that is made of it is started with ours.
func TestKeysInANoteDoNotCount(t *testing.T) {
	c, stranger := noting(t), noting(t)
	theirs := corev1.EnvVar{Name: keyVariable, Value: stranger.identities.now()[0].AuthorizedKey().String()}
	for name, change := range map[string]func(env []corev1.EnvVar) []corev1.EnvVar{
		"another, too":  func(env []corev1.EnvVar) []corev1.EnvVar { return append(env, theirs) },
		"another first": func(env []corev1.EnvVar) []corev1.EnvVar { return append([]corev1.EnvVar{theirs}, env...) },
		"a keychain": func(env []corev1.EnvVar) []corev1.EnvVar {
			return append(env, corev1.EnvVar{Name: keychainVariable, Value: "x"})
		},
		"none": func([]corev1.EnvVar) []corev1.EnvVar { return nil },
	} {
		pod := keptPod(t, c, "a")
		agent := agentContainer(pod)
		agent.Env = change(agent.Env)
		claim := legacyClaim(t, c, pod)
		noted, err := c.unverified(t.Context(), claim, "a")
		if err == nil {
			err = c.checkNoted(claim, "a", noted)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		setKeys(noted, c.identities.now())
		var keys, chains []corev1.EnvVar
		for _, v := range agentContainer(noted).Env {
			switch v.Name {
			case keyVariable:
				keys = append(keys, v)
			case keychainVariable:
				chains = append(chains, v)
			}
		}
		if len(keys) != 1 || keys[0].Value != keysText(c.identities.now().authorized()) || len(chains) != 1 || chains[0].ValueFrom == nil {
			t.Errorf("%s: its agent accepts %v, %v", name, keys, chains)
		}
	}
}

// Only what is sealed is hidden from the person who is to sign it.
func TestOnlyASignedNoteHasItsEnvironmentSealed(t *testing.T) {
	c := noting(t)
	pod := keptPod(t, c, "a")
	for want, claim := range map[bool]*corev1.PersistentVolumeClaim{true: madeClaim(t, c, pod, time.Now()), false: legacyClaim(t, c, pod)} {
		if isSealed(claim) != want {
			t.Errorf("sealed is %t for %s", !want, claim.Annotations[podmeta.AnnotationPod])
		}
	}
}

// The environment of a note that was changed is this identity's, or nobody's.
func TestSealedEnvironmentOfAnotherClaimIsNotSigned(t *testing.T) {
	c := noting(t)
	a, b := madeClaim(t, c, keptPod(t, c, "a"), time.Now()), madeClaim(t, c, keptPod(t, c, "b"), time.Now())
	var mine, theirs podNote
	for claim, note := range map[*corev1.PersistentVolumeClaim]*podNote{a: &mine, b: &theirs} {
		parsed, err := keys.Parse(claim.Annotations[podmeta.AnnotationPod])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(parsed.Text), note); err != nil {
			t.Fatal(err)
		}
	}
	for _, sealed := range [][]byte{theirs.Environment, nil, mine.Environment[1:]} {
		mine.Environment = sealed
		text, err := json.Marshal(mine)
		if err != nil {
			t.Fatal(err)
		}
		a.Annotations[podmeta.AnnotationPod] = c.identities.now()[0].keys.Sign(c.subjectOf("x", "", "x"), 1, string(text))
		if pod, err := c.unverified(t.Context(), a, "a"); !errors.Is(err, ErrNotOurs) {
			t.Errorf("it may be signed: %v, %v", pod, err)
		}
	}
}
