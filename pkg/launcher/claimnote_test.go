package launcher

import (
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
	set, err := keys.Of(identity)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{namespace: "sandboxes", identity: identity, keys: set}
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
	pod, err := c.podFor(spec)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// madeClaim returns the claim of a pod as the cluster has it since that moment.
func madeClaim(t testing.TB, c *cluster, pod *corev1.Pod, at time.Time) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim, err := c.claimOf(Workspace{Keep: true}, pod, at.UnixNano())
	if err != nil {
		t.Fatal(err)
	}
	claim.UID, claim.CreationTimestamp = "uid-1", metav1.NewTime(at.Truncate(time.Second))
	return claim
}

// renote replaces the note of a claim, as a later launch does.
func renote(t testing.TB, c *cluster, claim *corev1.PersistentVolumeClaim, generation int64, pod *corev1.Pod) {
	t.Helper()
	note, err := c.writeNote(c.subjectOf(claim.Name, string(claim.UID), pod.Annotations[podmeta.AnnotationID]), generation, pod)
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
		got, _, err := c.notedPod(claim, "a")
		if err != nil {
			t.Fatal(err)
		}
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
	other := &cluster{namespace: "elsewhere", identity: c.identity, keys: c.keys}
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
	sameName.Name = nameOf("a")
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
			id = "b" // whoever patches claims can write this, too
			claim.Annotations[podmeta.AnnotationID] = id
		}
		if _, _, err := c.notedPod(claim, id); !errors.Is(err, ErrUnsigned) || !errors.Is(err, keys.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := c.notedPod(copied(claim()), "a"); err != nil {
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
	if _, _, err := c.notedPod(claim, "a"); !errors.Is(err, ErrOtherKey) {
		t.Errorf("resumed: %v", err)
	}
	if _, err := c.unverified(claim, "a"); !errors.Is(err, ErrOtherKey) {
		t.Errorf("to be signed: %v", err)
	}
}

// unsigned returns a claim as the previous version made it.
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
	if _, _, err := c.notedPod(claim, "a"); !errors.Is(err, ErrUnsigned) || !errors.Is(err, keys.ErrNoNote) {
		t.Errorf("resumed: %v", err)
	}
	got, err := c.unverified(claim, "a")
	if err != nil || c.checkNoted(claim, "a", got) != nil || cmp.Diff(pod, got) != "" {
		t.Errorf("to be signed: %v, %v, %s", err, c.checkNoted(claim, "a", got), cmp.Diff(pod, got))
	}
	renote(t, c, claim, 1, got)
	if again, _, err := c.notedPod(claim, "a"); err != nil || cmp.Diff(pod, again) != "" {
		t.Errorf("signed: %v, %s", err, cmp.Diff(pod, again))
	}
	claim = legacyClaim(t, noting(t), keptPod(t, noting(t), "a"))
	if _, err := c.unverified(claim, "a"); !errors.Is(err, ErrOtherKey) {
		t.Errorf("of another identity: %v", err)
	}
}

// Whoever patches claims writes what they like. Nothing of it is resumed, and what
// breaks the profile, or is not this sandbox's, is not even signed.
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
		"another key":    {func(p *corev1.Pod) { setKey(p, stranger.identity.AuthorizedKey().String()) }, ErrOtherKey},
		"no key":         {func(p *corev1.Pod) { setKey(p, "") }, ErrOtherKey},
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
		forged, err := stranger.writeNote(c.subjectOf(claim.Name, string(claim.UID), "a"), time.Now().UnixNano(), pod)
		if err != nil {
			t.Fatal(err)
		}
		as := strings.Replace(forged, stranger.identity.AuthorizedKey().Fingerprint(), c.identity.AuthorizedKey().Fingerprint(), 1)
		for _, written := range []string{string(whole), forged, as} {
			claim.Annotations[podmeta.AnnotationPod] = written
			if _, _, err := c.notedPod(claim, "a"); !errors.Is(err, ErrUnsigned) && !errors.Is(err, ErrOtherKey) {
				t.Errorf("%s is resumed: %v", name, err)
			}
		}
		claim.Annotations[podmeta.AnnotationPod] = string(whole)
		shown, err := c.unverified(claim, "a")
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
		if _, _, err := c.notedPod(claim, "a"); !errors.Is(err, ErrRejected) {
			t.Errorf("%s, signed, is resumed: %v", name, err)
		}
		if err := c.checkMade(pod); !errors.Is(err, ErrRejected) {
			t.Errorf("%s is made: %v", name, err)
		}
	}
}

// errAny stands for any error.
var errAny = errors.New("any")

func setKey(pod *corev1.Pod, key string) {
	env := pod.Spec.Containers[0].Env
	for i := range env {
		if env[i].Name == keyVariable {
			env[i].Value = key
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
		a.Annotations[podmeta.AnnotationPod] = c.keys.Sign(c.subjectOf("x", "", "x"), 1, string(text))
		if pod, err := c.unverified(a, "a"); !errors.Is(err, ErrNotOurs) {
			t.Errorf("it may be signed: %v, %v", pod, err)
		}
	}
}

func TestSizeOfANoteIsKnownBeforeItIsMade(t *testing.T) {
	c := noting(t)
	pod := keptPod(t, c, "a")
	note, err := c.writeNote(c.subjectOf(pod.Name, "uid", "a"), time.Now().UnixNano(), pod)
	if size := noteSize(pod); err != nil || len(note) > size || size-len(note) > keys.MaxHeader {
		t.Errorf("it has %d bytes, not %d: %v", len(note), size, err)
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
		if _, _, err := c.notedPod(claim, "a"); err == nil && note != signed.Annotations[podmeta.AnnotationPod] {
			t.Errorf("%q would be resumed", note)
		}
		if pod, err := c.unverified(claim, "a"); err == nil && c.checkNoted(claim, "a", pod) == nil && c.checkMade(pod) != nil {
			t.Errorf("%q could be signed", note)
		}
	})
}
