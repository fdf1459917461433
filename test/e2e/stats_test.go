package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestStatsOfAPodAreThoseOfItsContainer(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("512Mi")}
	spec.Pod.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("10m")}
	s := harness.Launch(t, c.Launcher(), spec)
	before := statsOf(t, s)
	if before.CPU == nil || before.CPULimit == nil || *before.CPULimit != 1.5 {
		t.Errorf("the processors are %v of %v", before.CPU, before.CPULimit)
	}
	if before.Memory == nil || before.MemoryWorkingSet == nil || *before.MemoryWorkingSet > *before.Memory || before.MemoryLimit == nil || *before.MemoryLimit != 512<<20 {
		t.Errorf("the memory is %+v", before)
	}
	if before.PIDs == nil || *before.PIDs < 1 || *before.PIDs > 100 {
		t.Errorf("the processes are %v", before.PIDs)
	}
	if t.Failed() {
		return
	}
	const size = 64 << 20
	cmd := s.Shell(t.Context(), fmt.Sprintf("x=$(head -c %d /dev/zero | tr '\\0' x); sleep 300 & while :; do :; done", size))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(harness.Hung); ; time.Sleep(10 * time.Millisecond) {
		now := statsOf(t, s)
		if *now.CPU >= *before.CPU+time.Second/2 && *now.MemoryWorkingSet >= *before.MemoryWorkingSet+size && *now.PIDs >= *before.PIDs+2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("beside the command it uses %+v, before it %+v", now, before)
		}
	}
}

// A sandbox knows of its disk anywhere. What else it knows under gVisor and outside of pods is
// true, or it does not say it.
func TestStatsOfEachLauncher(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		now := statsOf(t, s)
		if now.DiskSize == nil || *now.DiskSize <= 0 || now.DiskUsed == nil || *now.DiskUsed > *now.DiskSize || now.DiskAvailable == nil {
			t.Errorf("the disk is %+v", now)
		}
		if now.Memory != nil && (*now.Memory <= 0 || now.MemoryLimit != nil && *now.Memory > *now.MemoryLimit) {
			t.Errorf("the memory is %d of %v", *now.Memory, now.MemoryLimit)
		}
		if now.PIDs != nil && *now.PIDs < 1 {
			t.Errorf("%d processes run", *now.PIDs)
		}
	})
}

func statsOf(t *testing.T, s *launcher.Sandbox) podapi.Stats {
	t.Helper()
	now, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return now
}
