package launcher

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// keyedPod returns a running pod that was made with the keys of a ring.
func keyedPod(t *testing.T, c *cluster, r ring) *corev1.Pod {
	t.Helper()
	pod := keptPod(t, c, "a")
	setKeys(pod, r)
	pod.UID = "uid-1"
	return pod
}

// An agent takes no chain that does not begin with its own. So nobody who may patch pods may
// have another lengthened, as long as the agent says which it has.
func TestTheAgentsChainIsLengthenedUnlessThePodsBeginsWithIt(t *testing.T) {
	c := noting(t)
	r, err := newRing([]keyVersion{made(t, 2, time.Time{}), made(t, 1, time.Time{})})
	if err != nil {
		t.Fatal(err)
	}
	newer, older := r[:1], r[1:]
	pod := keyedPod(t, c, older)
	link := func(chain string, signer, accepted ring) string {
		longer, err := signer[0].keys.Authorize(chain, string(pod.UID), accepted.authorized())
		if err != nil {
			t.Fatal(err)
		}
		return longer
	}
	agents := link("", older, r)
	longer := link(agents, newer, newer)
	fork := link(link("", older, older), older, ring{r[1], r[0]})
	end := strings.Index(agents, ",") - 1
	spelled := agents[:end] + string(agents[end]+1) + agents[end+1:]
	for name, tt := range map[string]struct{ annotated, agents, want string }{
		"the same":              {agents, agents, agents},
		"longer":                {longer, agents, longer},
		"spoilt after that":     {longer + " x", agents, longer},
		"shortened":             {"", agents, agents},
		"an old fork":           {fork, agents, agents},
		"another spelling":      {spelled, agents, agents},
		"longer, and misspelt":  {spelled + strings.TrimPrefix(longer, agents), agents, agents},
		"the agent has none":    {longer, "", longer},
		"only a part is signed": {agents + " " + agents, "", agents},
	} {
		if _, chain, err := presentChain(pod, tt.annotated, tt.agents); err != nil || chain != tt.want {
			t.Errorf("%s: %q, %v, not %q", name, chain, err, tt.want)
		}
	}
}
