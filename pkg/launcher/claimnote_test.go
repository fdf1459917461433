package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/internal/keys"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
)

// noting returns the launcher of a new identity, without an API.
func noting(t testing.TB) *cluster {
	t.Helper()
	identity, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{namespace: "sandboxes", identities: onlyIdentity(t, identity)}
}

// onlyIdentity is an identity with one version.
func onlyIdentity(t testing.TB, id podapi.Identity) *identities {
	t.Helper()
	read := func(context.Context) (ring, error) { return newRing([]keyVersion{{Identity: id, number: 1}}) }
	i := newIdentities(read, read)
	if _, err := i.fresh(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	return i
}

const secretValue = "hunter2-and-more"

// keptPod returns the pod of a sandbox whose workspace is kept. Its variables, and
// those of a patch, have a secret.
func keptPod(t testing.TB, c *cluster, id string) *corev1.Pod {
	t.Helper()
	spec := &Spec{ID: id, Env: []string{"TOKEN=" + secretValue}, Pod: Pod{
		Image: "image", AgentImage: "agent", Workspace: Workspace{Keep: true},
		Patch: []byte("spec: {containers: [{name: agent, env: [{name: PATCHED, value: " + secretValue + "}]}]}"),
	}}
	if err := spec.validatePod(); err != nil {
		t.Fatal(err)
	}
	pod, err := c.podFor(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// madeClaim returns the claim of a pod as the cluster has it since that moment.
func madeClaim(t testing.TB, c *cluster, pod *corev1.Pod, at time.Time) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim, err := c.claimOf(t.Context(), Workspace{Keep: true}, pod, at.UnixNano())
	if err != nil {
		t.Fatal(err)
	}
	claim.UID, claim.CreationTimestamp = "uid-1", metav1.NewTime(at.Truncate(time.Second))
	return claim
}

// renote replaces the note of a claim, as a later launch does.
func renote(t testing.TB, c *cluster, claim *corev1.PersistentVolumeClaim, generation int64, pod *corev1.Pod) {
	t.Helper()
	note, err := c.writeNote(t.Context(), c.subjectOf(claim.Name, string(claim.UID), pod.Annotations[podmeta.AnnotationID]), generation, pod)
	if err != nil {
		t.Fatal(err)
	}
	claim.Annotations[podmeta.AnnotationPod] = note
}

func TestNoteGivesThePodBack(t *testing.T) {
	c := noting(t)
	pod := keptPod(t, c, "a")
	claim := madeClaim(t, c, pod, time.Now())
	for _, later := range []bool{false, true} {
		if later {
			renote(t, c, claim, time.Now().UnixNano(), pod)
		}
		got, _, err := c.notedPod(t.Context(), claim, "a")
		if err != nil {
			t.Fatal(err)
		}
		dropKeys(pod) // a note has none
		if diff := cmp.Diff(pod, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestEnvironmentCannotBeReadInTheClaim(t *testing.T) {
	c := noting(t)
	pod := keptPod(t, c, "a")
	if whole, _ := json.Marshal(pod); !strings.Contains(string(whole), secretValue) {
		t.Fatal("the pod has no secret to hide")
	}
	claim, err := json.Marshal(madeClaim(t, c, pod, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	hidden := variable(agentContainer(pod).Env, "PODAGENT_PROCESS_ENV").Value
	for _, secret := range []string{secretValue, hidden, "TOKEN", "PATCHED"} {
		if hidden == "" || strings.Contains(string(claim), secret) {
			t.Errorf("%q is in the claim", secret)
		}
	}
}

func TestNoteOfAnotherPlaceIsNotResumed(t *testing.T) {
	c, now := noting(t), time.Now()
	other := &cluster{namespace: "elsewhere", identities: c.identities}
	claim := func() *corev1.PersistentVolumeClaim { return madeClaim(t, c, keptPod(t, c, "a"), now) }
	copied := func(from *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
		to := claim()
		to.Annotations[podmeta.AnnotationPod] = from.Annotations[podmeta.AnnotationPod]
		return to
	}
	earlier := claim()
	earlier.UID = "uid-0"
	renote(t, c, earlier, now.UnixNano(), keptPod(t, c, "a"))
	sameName := keptPod(t, c, "b")
	sameName.Name = podmeta.NameOf("a")
	for name, claim := range map[string]*corev1.PersistentVolumeClaim{
		"another claim":                            copied(madeClaim(t, c, keptPod(t, c, "b"), now)),
		"another sandbox":                          copied(madeClaim(t, c, sameName, now)),
		"another namespace":                        copied(madeClaim(t, other, keptPod(t, other, "a"), now)),
		"an earlier claim of this name":            copied(madeClaim(t, c, keptPod(t, c, "a"), now.Add(-noteSkew-2*time.Second))),
		"a later claim of this name":               copied(madeClaim(t, c, keptPod(t, c, "a"), now.Add(noteSkew+2*time.Second))),
		"an earlier claim of this name, with UID":  copied(earlier),
		"another claim, as its annotation id says": copied(claim()),
	} {
		id := "a"
		if strings.HasSuffix(name, "says") {
			id = "b" // a user who may patch claims can write this, too
			claim.Annotations[podmeta.AnnotationID] = id
		}
		if _, _, err := c.notedPod(t.Context(), claim, id); !errors.Is(err, ErrUnsigned) || !errors.Is(err, keys.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := c.notedPod(t.Context(), copied(claim()), "a"); err != nil {
		t.Errorf("its own: %v", err)
	}
}

func TestClaimOfAnUnsetClockIsNotedAnew(t *testing.T) {
	c := noting(t)
	for offset, ok := range map[time.Duration]bool{
		0: true, -noteSkew + 2*time.Second: true, noteSkew - 2*time.Second: true,
		-noteSkew - 2*time.Second: false, noteSkew + 2*time.Second: false,
	} {
		claim := madeClaim(t, c, keptPod(t, c, "a"), time.Now())
		if got := isFromCreation(time.Now().Add(offset).UnixNano(), claim); got != ok {
			t.Errorf("%v: %t", offset, got)
		}
	}
}

func TestNoteOfAnotherIdentityIsOtherKey(t *testing.T) {
	c, theirs := noting(t), noting(t)
	claim := madeClaim(t, theirs, keptPod(t, theirs, "a"), time.Now())
	if _, _, err := c.notedPod(t.Context(), claim, "a"); !errors.Is(err, ErrOtherKey) {
		t.Errorf("resumed: %v", err)
	}
	if _, err := c.unverified(t.Context(), claim, "a"); !errors.Is(err, ErrOtherKey) {
		t.Errorf("to be signed: %v", err)
	}
	err := c.takeClaim(t.Context(), claim, "a", time.Now())
	if !errors.Is(err, ErrOtherKey) {
		t.Errorf("launched: %v", err)
	}
	for _, says := range []string{podmeta.AnnotationPod, claim.Name, theirs.fingerprint(), "remove the annotation"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%v: it does not say %q", err, says)
		}
	}
}

func TestSizeOfANoteIsKnownBeforeItIsMade(t *testing.T) {
	c := noting(t)
	pod := keptPod(t, c, "a")
	note, err := c.writeNote(t.Context(), c.subjectOf(pod.Name, "uid", "a"), time.Now().UnixNano(), pod)
	if size := noteSize(pod); err != nil || len(note) > size || size-len(note) > keys.MaxHeader {
		t.Errorf("it has %d bytes, not %d: %v", len(note), size, err)
	}
	largest := &Spec{ID: "a", Env: []string{"A=" + strings.Repeat("a", maxPodEnv-3)}, Pod: Pod{Image: "image", Workspace: Workspace{Keep: true}}}
	if err := largest.validatePod(); err != nil {
		t.Errorf("the largest environment of a pod does not fit: %v", err)
	}
}

// Whatever a claim says, a list of sandboxes shows it or leaves it out.
func FuzzShownPod(f *testing.F) {
	c := noting(f)
	signed := madeClaim(f, c, keptPod(f, c, "a"), time.Now())
	legacy := legacyClaim(f, c, keptPod(f, c, "a"))
	for _, seed := range []string{"", "{}", "null", "[]", `{"metadata":{"name":"x"}}`, "podagent/v1 1 x y\n{}", signed.Annotations[podmeta.AnnotationPod], legacy.Annotations[podmeta.AnnotationPod]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, note string) {
		claim := signed.DeepCopy()
		claim.Annotations[podmeta.AnnotationPod] = note
		summaryOfClaim(claim)
		if _, _, err := c.notedPod(t.Context(), claim, "a"); err == nil && note != signed.Annotations[podmeta.AnnotationPod] {
			t.Errorf("%q would be resumed", note)
		}
		if pod, err := c.unverified(t.Context(), claim, "a"); err == nil && c.checkNoted(claim, "a", pod) == nil && c.checkMade(pod) != nil {
			t.Errorf("%q could be signed", note)
		}
	})
}
