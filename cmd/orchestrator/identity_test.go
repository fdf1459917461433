package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Values that the identity has not sealed can be an attacker's, so a person sees them.
func TestOnlySealedValuesAreHidden(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{
			{Name: "PODAGENT_PROCESS_ENV", Value: wire.FormatEnv([]string{"PATH=/evil:/bin", "A=1\nB=2"})},
		}}}}}
		showEnvironment(pod, sealed)
		got := pod.Spec.Containers[0].Env[0].Value
		if !strings.Contains(got, "PATH") || strings.Contains(got, "PATH=/evil:/bin") == sealed || strings.Contains(got, `"A=1\nB=2"`) == sealed {
			t.Errorf("sealed: %t: %s", sealed, got)
		}
	}
}
