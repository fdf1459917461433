package main

import "testing"

func TestReleaseHasNoExperiments(t *testing.T) {
	for version, want := range map[string]string{
		"go1.26.8": "go1.26.8", "go1.26.8-X:simd": "go1.26.8", "go1.25.8 X:simd": "go1.25.8", "go1.27rc1-X:a,b": "go1.27rc1",
	} {
		if got := release(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}
