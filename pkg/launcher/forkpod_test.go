package launcher

import (
	"testing"
	"time"
)

// A pod without an account has no token of the default one either, so its fork gets none.
func TestForkReachesNoTokenThatThePodLacks(t *testing.T) {
	has := reachOf(manifest(&Spec{ID: "a", Pod: Pod{Image: "i"}}, "n", nil, time.Now()), true)
	for name, pod := range map[string]Pod{
		"the default account": {Image: "i", ServiceAccount: "default"},
		"a patch":             {Image: "i", Patch: []byte(`{"spec": {"automountServiceAccountToken": true}}`)},
	} {
		made, problem := patched(manifest(&Spec{ID: "a", Pod: pod}, "n", nil, time.Now()), pod.Patch)
		if problem != nil {
			t.Fatal(problem)
		}
		more := 0
		for what := range reachOf(made, false) {
			if !has[what] {
				more++
			}
		}
		if more == 0 {
			t.Errorf("with %s a fork reaches no more than the pod: %v", name, has)
		}
	}
}
