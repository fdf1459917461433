package launcher_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
)

func TestSpecsOfProtectedPaths(t *testing.T) {
	dir := func(path, from string) launcher.Spec {
		return launcher.Spec{Pod: launcher.Pod{ReadOnly: []launcher.ReadOnlyDir{{Path: path, From: from}}}}
	}
	twice := dir("/a", "")
	twice.Pod.ReadOnly = append(twice.Pod.ReadOnly, twice.Pod.ReadOnly...)
	git := dir("/workspace", "")
	git.Git = &launcher.Git{URL: "https://example.com/x"}
	for _, tt := range []struct {
		field string
		spec  launcher.Spec
	}{
		{"Protected", launcher.Spec{Protected: []string{"fine", "a["}}},
		{"Protected", launcher.Spec{Protected: []string{""}}},
		{"Protected", launcher.Spec{Protected: []string{"**/../a"}}},
		{"Protected", launcher.Spec{Protected: []string{"\xff"}}},
		{"Protected", launcher.Spec{Protected: []string{strings.Repeat("x", 60<<10), strings.Repeat("y", 60<<10)}}},
		{"Pod.ReadOnly", dir("", "")},
		{"Pod.ReadOnly", dir("relative", "")},
		{"Pod.ReadOnly", dir("/", "")},
		{"Pod.ReadOnly", dir("/a/", "")},
		{"Pod.ReadOnly", dir("/a:b", "")},
		{"Pod.ReadOnly", dir("/usr/bin", "")},
		{"Pod.ReadOnly", dir("/proc/x", "")},
		{"Pod.ReadOnly", dir("/a", "relative")},
		{"Pod.ReadOnly", dir("/a", "/")},
		{"Pod.ReadOnly", dir("/a", "/b/../proc")},
		{"Pod.ReadOnly", dir("/a", "/\xff")},
		{"Pod.ReadOnly", twice},
		{"Pod.ReadOnly", git},
	} {
		// Nothing is asked of a cluster: there is none.
		k := &launcher.Kubernetes{Kubeconfig: "/no/such/file"}
		_, err := k.Launch(t.Context(), tt.spec)
		if spec := (*launcher.SpecError)(nil); !errors.As(err, &spec) || spec.Field != tt.field {
			t.Errorf("%+v: %v, want a SpecError of %s", tt.spec, err, tt.field)
		}
	}
	for _, spec := range []launcher.Spec{dir("/a", ""), {Protected: []string{"a["}}} {
		_, err := new(launcher.Local).Launch(t.Context(), spec)
		if !errors.As(err, new(*launcher.SpecError)) {
			t.Errorf("local, %+v: %v", spec, err)
		}
	}
}
