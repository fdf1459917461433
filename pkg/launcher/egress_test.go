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
)

func TestEgressThatCannotBeMet(t *testing.T) {
	for name, test := range map[string]struct {
		egress Egress
		field  string
	}{
		"an unknown mode":                 {Egress{Mode: "strict"}, "Egress.Mode"},
		"an unknown requirement":          {Egress{Mode: EgressAuto, Require: "strict"}, "Egress.Require"},
		"a requirement that is none":      {Egress{Mode: EgressAuto, Require: podapi.EgressAdvisory}, "Egress.Require"},
		"a requirement of nothing":        {Egress{Mode: EgressOff, Require: podapi.EgressLandlock}, "Egress.Require"},
		"more than variables can do":      {Egress{Mode: EgressAdvisory, Require: podapi.EgressLandlock}, "Egress.Require"},
		"more than Landlock can do":       {Egress{Mode: EgressLandlock, Require: podapi.EgressNetwork}, "Egress.Require"},
		"ports without a mode":            {Egress{LocalPorts: []int{8080}}, "Egress.LocalPorts"},
		"a port that is none":             {Egress{Mode: EgressAuto, LocalPorts: []int{0}}, "Egress.LocalPorts"},
		"a port beyond all":               {Egress{Mode: EgressAuto, LocalPorts: []int{65536}}, "Egress.LocalPorts"},
		"the agent's port":                {Egress{Mode: EgressAuto, LocalPorts: []int{agentPort}}, "Egress.LocalPorts"},
		"a port twice":                    {Egress{Mode: EgressAuto, LocalPorts: []int{80, 81, 80}}, "Egress.LocalPorts"},
		"more ports than a server can be": {Egress{Mode: EgressAuto, LocalPorts: make([]int, maxLocalPorts+1)}, "Egress.LocalPorts"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := Spec{Egress: test.egress, Pod: Pod{Image: "image"}}
			for way, err := range map[string]error{"pod": spec.validatePod(), "local": spec.checkLocalEgress()} {
				if wrong, ok := errors.AsType[*SpecError](err); !ok || wrong.Field != test.field {
					t.Errorf("%s: %v", way, err)
				}
			}
		})
	}
	for _, egress := range []Egress{{}, {Mode: EgressOff}, {Mode: EgressAuto}, {Require: podapi.EgressNetwork}, {Mode: EgressNetwork, Require: podapi.EgressLandlock, LocalPorts: []int{5432, 6379}}} {
		if err := (&Spec{Egress: egress, Pod: Pod{Image: "image"}}).validatePod(); err != nil {
			t.Errorf("%+v: %v", egress, err)
		}
	}
}

func TestLocalSandboxCannotHaveANetworkOfItsOwn(t *testing.T) {
	for field, egress := range map[string]Egress{"Egress.Mode": {Mode: EgressNetwork}, "Egress.Require": {Require: podapi.EgressNetwork}} {
		if wrong, ok := errors.AsType[*SpecError]((&Spec{Egress: egress}).checkLocalEgress()); !ok || wrong.Field != field {
			t.Errorf("%+v: %v", egress, wrong)
		}
	}
}

// What a pod is made with says the same whenever the agent starts, and whoever makes the pod again.
func TestPodSaysHowItsCommandsLeave(t *testing.T) {
	spec := Spec{ID: "a", Egress: Egress{Require: podapi.EgressNetwork, LocalPorts: []int{6379, 5432}}, Pod: Pod{Image: "image", Main: []string{"main"}}}
	pod := manifest(&spec, "n", nil, time.Now())
	for _, want := range []corev1.EnvVar{{Name: "PODAGENT_EGRESS", Value: "auto"}, {Name: "PODAGENT_EGRESS_REQUIRE", Value: "network"}} {
		if !slices.Contains(pod.Spec.Containers[0].Env, want) {
			t.Errorf("no variable %+v", want)
		}
	}
	if got := strings.Join(pod.Spec.Containers[0].Command, " "); got != "podagent serve --egress-port=5432 --egress-port=6379 -- main" {
		t.Errorf("the command is %s", got)
	}
	if pod.Labels[podmeta.LabelEgress] != podmeta.ByTunnel {
		t.Errorf("the labels are %v", pod.Labels)
	}
}

// A cluster's policy takes the network only from pods whose commands are to have none.
func TestPodsAreIsolatedByALabel(t *testing.T) {
	for mode, want := range map[EgressMode]bool{"": false, EgressOff: false, EgressAdvisory: false, EgressAuto: true, EgressLandlock: true, EgressNetwork: true} {
		pod := manifest(&Spec{ID: "a", Egress: Egress{Mode: mode}, Pod: Pod{Image: "image"}}, "n", nil, time.Now())
		if isTunnelled(pod) != want {
			t.Errorf("mode %q: labels %v", mode, pod.Labels)
		}
	}
}

func TestPodWithoutEgressIsAsItWas(t *testing.T) {
	without, off := manifest(&Spec{ID: "a", Pod: Pod{Image: "image"}}, "n", nil, time.Time{}), manifest(&Spec{ID: "a", Egress: Egress{Mode: EgressOff}, Pod: Pod{Image: "image"}}, "n", nil, time.Time{})
	if a, b := without.Annotations[podmeta.AnnotationSpec], off.Annotations[podmeta.AnnotationSpec]; a != b || strings.Contains(a, "egress") {
		t.Errorf("%s\n%s", a, b)
	}
	if len(without.Spec.Containers[0].Env) != len(off.Spec.Containers[0].Env) {
		t.Errorf("%v\n%v", without.Spec.Containers[0].Env, off.Spec.Containers[0].Env)
	}
}

func TestDriftSaysAnotherEgress(t *testing.T) {
	pod := manifest(&Spec{ID: "a", Pod: Pod{Image: "image"}}, "n", nil, time.Now())
	got := driftOf(pod, &Spec{ID: "a", Egress: Egress{Require: podapi.EgressLandlock, LocalPorts: []int{80}}, Pod: Pod{Image: "image"}})
	want := []string{`egress is unset, not "auto"`, `egressPorts is unset, not [80]`, `egressRequire is unset, not "landlock"`}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A pod of a pool is taken only if it was made as the sandbox is to be.
func TestPoolServesSandboxesOfItsEgressAlone(t *testing.T) {
	open, closed := Spec{Pod: Pod{Image: "i"}}, Spec{Egress: Egress{Mode: EgressAuto}, Pod: Pod{Image: "i"}}
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
	levels := []podapi.EgressLevel{podapi.EgressOpen, podapi.EgressAdvisory, podapi.EgressLandlock, podapi.EgressNetwork}
	for _, made := range []podapi.EgressLevel{"", podapi.EgressLandlock, podapi.EgressNetwork} {
		pod := manifest(&Spec{ID: "a", Egress: Egress{Require: made}, Pod: Pod{Image: "i"}}, "n", nil, time.Now())
		o := (&cluster{log: (&Local{}).log()}).openPod(pod)
		for _, asked := range []podapi.EgressLevel{"", podapi.EgressLandlock, podapi.EgressNetwork} {
			for i, is := range levels {
				err := o.checkEgress(&Spec{Egress: Egress{Require: asked}}, podapi.Info{Egress: podapi.EgressInfo{Level: is, Missing: "because"}})
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
	if why := unmet(podapi.EgressLandlock, podapi.EgressInfo{Level: "best"}); why == "" {
		t.Error("it counts")
	}
}
