package launcher

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

func TestEgressThatCannotBeMet(t *testing.T) {
	many := make([]uint16, maxEgressPorts+1)
	for i := range many {
		many[i] = uint16(i + 1)
	}
	for name, test := range map[string]struct {
		egress wayout.Config
		field  string
	}{
		"an unknown mode":                 {wayout.Config{Mode: "strict"}, "Egress.Mode"},
		"an unknown requirement":          {wayout.Config{Mode: wayout.Auto, Require: "strict"}, "Egress.Require"},
		"a requirement that is none":      {wayout.Config{Mode: wayout.Auto, Require: wayout.Advisory}, "Egress.Require"},
		"a requirement of nothing":        {wayout.Config{Mode: wayout.Off, Require: wayout.Landlock}, "Egress.Require"},
		"more than variables can do":      {wayout.Config{Mode: wayout.Mode(wayout.Advisory), Require: wayout.Landlock}, "Egress.Require"},
		"more than Landlock can do":       {wayout.Config{Mode: wayout.Mode(wayout.Landlock), Require: wayout.Network}, "Egress.Require"},
		"ports without a mode":            {wayout.Config{Ports: []uint16{8080}}, "Egress.Ports"},
		"a port that is none":             {wayout.Config{Mode: wayout.Auto, Ports: []uint16{0}}, "Egress.Ports"},
		"the agent's port":                {wayout.Config{Mode: wayout.Auto, Ports: []uint16{agentPort}}, "Egress.Ports"},
		"a port twice":                    {wayout.Config{Mode: wayout.Auto, Ports: []uint16{80, 81, 80}}, "Egress.Ports"},
		"more ports than a server can be": {wayout.Config{Mode: wayout.Auto, Ports: many}, "Egress.Ports"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := Spec{Egress: test.egress, Pod: Pod{Image: "image"}}
			for way, err := range map[string]error{"pod": spec.validatePod(), "local": new(Local).checkEgress(&spec)} {
				if wrong, ok := errors.AsType[*SpecError](err); !ok || wrong.Field != test.field {
					t.Errorf("%s: %v", way, err)
				}
			}
		})
	}
	for _, egress := range []wayout.Config{{}, {Mode: wayout.Off}, {Mode: wayout.Auto}, {Require: wayout.Network}, {Mode: wayout.Mode(wayout.Network), Require: wayout.Landlock, Ports: []uint16{5432, 6379}}} {
		if err := (&Spec{Egress: egress, Pod: Pod{Image: "image"}}).validatePod(); err != nil {
			t.Errorf("%+v: %v", egress, err)
		}
	}
}

func TestLocalSandboxWithoutNamespacesHasNoNetworkOfItsOwn(t *testing.T) {
	for field, egress := range map[string]wayout.Config{"Egress.Mode": {Mode: wayout.Mode(wayout.Network)}, "Egress.Require": {Require: wayout.Network}} {
		if wrong, ok := errors.AsType[*SpecError]((&Local{Isolation: isolation.Off}).checkEgress(&Spec{Egress: egress})); !ok || wrong.Field != field {
			t.Errorf("%+v: %v", egress, wrong)
		}
	}
}

// What a pod is made with says the same whenever the agent starts, and whoever makes the pod again.
func TestPodSaysHowItsCommandsLeave(t *testing.T) {
	spec := Spec{ID: "a", Egress: wayout.Config{Require: wayout.Network, Ports: []uint16{6379, 5432}}, Pod: Pod{Image: "image", Main: []string{"main"}}}
	pod := manifest(&spec, "n", nil, time.Now())
	for _, want := range []corev1.EnvVar{{Name: "PODAGENT_EGRESS", Value: "auto"}, {Name: "PODAGENT_EGRESS_REQUIRE", Value: "network"}} {
		if !slices.Contains(pod.Spec.Containers[0].Env, want) {
			t.Errorf("no variable %+v", want)
		}
	}
	if got := strings.Join(pod.Spec.Containers[0].Command, " "); got != "podagent serve --local-port=5432 --local-port=6379 -- main" {
		t.Errorf("the command is %s", got)
	}
	if pod.Labels[podmeta.LabelEgress] != podmeta.ByTunnel {
		t.Errorf("the labels are %v", pod.Labels)
	}
}

// A cluster's policy takes the network only from pods whose commands are to have none.
func TestPodsAreIsolatedByALabel(t *testing.T) {
	for mode, want := range map[wayout.Mode]bool{"": false, wayout.Off: false, wayout.Mode(wayout.Advisory): false, wayout.Auto: true, wayout.Mode(wayout.Landlock): true, wayout.Mode(wayout.Network): true} {
		pod := manifest(&Spec{ID: "a", Egress: wayout.Config{Mode: mode}, Pod: Pod{Image: "image"}}, "n", nil, time.Now())
		if isTunnelled(pod) != want {
			t.Errorf("mode %q: labels %v", mode, pod.Labels)
		}
	}
}

func TestPodWithoutEgressIsAsItWas(t *testing.T) {
	without, off := manifest(&Spec{ID: "a", Pod: Pod{Image: "image"}}, "n", nil, time.Time{}), manifest(&Spec{ID: "a", Egress: wayout.Config{Mode: wayout.Off}, Pod: Pod{Image: "image"}}, "n", nil, time.Time{})
	if a, b := without.Annotations[podmeta.AnnotationSpec], off.Annotations[podmeta.AnnotationSpec]; a != b || strings.Contains(a, "egress") {
		t.Errorf("%s\n%s", a, b)
	}
	if len(without.Spec.Containers[0].Env) != len(off.Spec.Containers[0].Env) {
		t.Errorf("%v\n%v", without.Spec.Containers[0].Env, off.Spec.Containers[0].Env)
	}
}

func TestDriftSaysAnotherEgress(t *testing.T) {
	pod := manifest(&Spec{ID: "a", Pod: Pod{Image: "image"}}, "n", nil, time.Now())
	got := driftOf(pod, &Spec{ID: "a", Egress: wayout.Config{Require: wayout.Landlock, Ports: []uint16{80}}, Pod: Pod{Image: "image"}})
	want := []string{`egress is unset, not "auto"`, `egressPorts is unset, not [80]`, `egressRequire is unset, not "landlock"`}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A pod of a pool is taken only if it was made as the sandbox is to be.
func TestPoolServesSandboxesOfItsEgressAlone(t *testing.T) {
	open, closed := Spec{Pod: Pod{Image: "i"}}, Spec{Egress: wayout.Config{Mode: wayout.Auto}, Pod: Pod{Image: "i"}}
	for _, test := range []struct{ pool, asked Spec }{{open, closed}, {closed, open}} {
		pod := warmPod(test.pool)
		if got := joined(driftOf(pod, &test.asked)); !strings.Contains(got, "egress is") {
			t.Errorf("it fits: %q", got)
		}
	}
	if pod := warmPod(closed); !isTunnelled(pod) {
		t.Errorf("labels %v", pod.Labels)
	}
	if changes := takenLabels(&closed, warmPod(closed)); changes[podmeta.LabelEgress] != podmeta.ByTunnel {
		t.Errorf("changes %v", changes)
	}
}

// What the Spec requires counts, and so does what the pod was made with: whoever opens it has no Spec.
func TestLessThanIsRequiredIsAnError(t *testing.T) {
	levels := []wayout.Level{wayout.Open, wayout.Advisory, wayout.Landlock, wayout.Network}
	for _, made := range []wayout.Level{"", wayout.Landlock, wayout.Network} {
		pod := manifest(&Spec{ID: "a", Egress: wayout.Config{Require: made}, Pod: Pod{Image: "i"}}, "n", nil, time.Now())
		o := (&cluster{log: (&Local{}).log()}).openPod(pod)
		for _, asked := range []wayout.Level{"", wayout.Landlock, wayout.Network} {
			for i, is := range levels {
				err := o.checkEgress(&Spec{Egress: wayout.Config{Require: asked}}, podapi.Info{Egress: wayout.Info{Level: is, Missing: "because"}})
				required := max(slices.Index(levels, made), slices.Index(levels, asked))
				if fails := i < required; errors.Is(err, ErrEgress) != fails || err != nil != fails {
					t.Errorf("made with %q, asked for %q, it is %q: %v", made, asked, is, err)
				}
				if err != nil && i > 0 && !strings.Contains(err.Error(), "because") {
					t.Errorf("no reason: %v", err)
				}
			}
		}
	}
}

// A level that this launcher does not know is no stronger than what it knows.
func TestUnknownLevelIsNone(t *testing.T) {
	if why := unmet(wayout.Landlock, wayout.Info{Level: "best"}); why == "" {
		t.Error("it counts")
	}
}
