package launcher

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// layout is what of a pod's containers matters for its read-only directories.
type layout struct {
	Agent, Fill []string          // commands
	Mounts      map[string]string // what is mounted in the agent's container, and how
	Volumes     []string
}

func layoutOf(t *testing.T, spec *Spec) layout {
	t.Helper()
	if err := spec.validatePod(); err != nil {
		t.Fatal(err)
	}
	pod := manifest(spec, "n", nil, time.Now()).Spec
	c := pod.Containers[0]
	l := layout{Agent: c.Command, Mounts: map[string]string{}}
	for _, m := range c.VolumeMounts {
		if m.MountPath != storeAt { // see podfiles.go
			l.Mounts[m.MountPath] = m.Name + map[bool]string{true: " ro"}[m.ReadOnly]
		}
	}
	for _, v := range pod.Volumes {
		l.Volumes = append(l.Volumes, v.Name)
	}
	for _, fill := range pod.InitContainers {
		l.Fill = fill.Command
		if diff := cmp.Diff(c.SecurityContext, fill.SecurityContext); diff != "" || fill.Image != c.Image {
			t.Errorf("what fills has not what the agent has: %s", diff)
		}
		for _, m := range fill.VolumeMounts {
			if m.ReadOnly {
				t.Errorf("%s cannot be filled", m.Name)
			}
		}
	}
	return l
}

func TestReadOnlyDirectoriesOfAPod(t *testing.T) {
	serve := []string{"podagent", "serve"}
	for name, tt := range map[string]struct {
		profile   Profile
		dirs      []ReadOnlyDir
		protected []string
		want      layout
	}{
		"none": {Restricted, nil, nil, layout{
			serve, nil,
			map[string]string{"/workspace": "workspace", "/home/agent": "home"},
			[]string{"workspace", "home"},
		}},
		"patterns": {Baseline, nil, []string{"a=b", "$(HOME)"}, layout{
			append(serve[:2:2], "--protect=a=b", "--protect=$$(HOME)"), nil,
			map[string]string{"/workspace": "workspace"},
			[]string{"workspace"},
		}},
		"below the workdir, empty": {Baseline, []ReadOnlyDir{{Path: "/workspace/$x"}}, nil, layout{
			append(serve[:2:2], "--read-only=/workspace/$$x"), nil,
			map[string]string{"/workspace": "workspace", "/workspace/$x": "read-only-0 ro"},
			[]string{"workspace", "read-only-0"},
		}},
		"the workdir, with content": {Baseline, []ReadOnlyDir{{Path: "/workspace", From: "/src"}}, nil, layout{
			append(serve[:2:2], "--read-only=/workspace"),
			[]string{"podagent", "copy", "--", "/src", "/.podagent/read-only-0"},
			map[string]string{"/workspace": "read-only-0 ro"},
			[]string{"read-only-0"},
		}},
		"above the others": {Restricted, []ReadOnlyDir{{Path: "/home"}, {Path: "/home/agent/conf", From: "/etc/skel"}}, nil, layout{
			append(serve[:2:2], "--read-only=/home", "--read-only=/home/agent/conf"),
			[]string{"podagent", "copy", "--dir=/.podagent/read-only-0/agent", "--", "/etc/skel", "/.podagent/read-only-1"},
			map[string]string{"/workspace": "workspace", "/home": "read-only-0 ro", "/home/agent": "home", "/home/agent/conf": "read-only-1 ro"},
			[]string{"workspace", "home", "read-only-0", "read-only-1"},
		}},
	} {
		spec := Spec{ID: "a", Protected: tt.protected, Pod: Pod{Image: "runtime", Profile: tt.profile, ReadOnly: tt.dirs}}
		if diff := cmp.Diff(tt.want, layoutOf(t, &spec)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadOnlyDirectoriesAreDrift(t *testing.T) {
	spec := func(dirs ...ReadOnlyDir) *Spec {
		return &Spec{ID: "a", Protected: []string{"x"}, Pod: Pod{ReadOnly: dirs}}
	}
	a, b := ReadOnlyDir{Path: "/a"}, ReadOnlyDir{Path: "/b", From: "/c"}
	pod := &corev1.Pod{}
	pod.Annotations = podAnnotations(spec(a, b), nil, time.Now())
	other := spec(b, a)
	other.Protected = nil
	if drift := driftOf(pod, other); len(drift) > 0 {
		t.Errorf("another order, and other patterns, are drift: %q", drift)
	}
	if diff := cmp.Diff([]string{`readOnly is [{"path":"/a"},{"from":"/c","path":"/b"}], not [{"path":"/a"}]`}, driftOf(pod, spec(a))); diff != "" {
		t.Error(diff)
	}
}
