package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/cgroup"
)

// TestUsageIsThatOfTheGroup runs an agent in control groups of its own.
func TestUsageIsThatOfTheGroup(t *testing.T) {
	for controller, limits := range map[string]map[string]string{
		"memory": {"memory.max": strconv.Itoa(usageMemory)},
		"pids":   {"pids.max": strconv.Itoa(usagePIDs)},
		"cpu":    nil,
	} {
		dir := testGroup(t, controller, limits)
		if controller == "cpu" {
			limitCPU(t, dir)
		}
		cmd := helperCommand(t, "usage", inGroup(dir)...)
		cmd.Env = append(cmd.Env, "CONTROLLER="+controller)
		if got := helperOutput(t, cmd); got != "all is well" {
			t.Errorf("%s: got %q", controller, got)
		}
	}
}

const (
	usageMemory = 256 << 20
	usagePIDs   = bombLimit
)

// limitCPU limits a group to one and a half processors.
func limitCPU(t *testing.T, dir string) {
	t.Helper()
	file, text := "cpu.max", "150000 100000"
	if _, err := os.Stat(filepath.Join(dir, "cpu.cfs_quota_us")); err == nil {
		file, text = "cpu.cfs_quota_us", "150000" // version 1, whose period is 100 ms
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

func helpUsage() error {
	m := NewManager(Options{Alone: true, OwnGroup: true, Thread: confined()})
	alone <- m
	defer m.Shutdown(context.Background())
	if none := NewManager(Options{}); none.Usage() != (cgroup.Usage{}) {
		return fmt.Errorf("without a group of its own it says %+v", none.Usage())
	}
	var err error
	switch os.Getenv("CONTROLLER") {
	case "memory":
		err = usesMemory(m)
	case "pids":
		err = usesPIDs(m)
	case "cpu":
		err = usesCPU(m)
	}
	if err == nil {
		fmt.Println("all is well")
	}
	return err
}

// usesMemory has a process take memory that is no page cache, and one write a file.
func usesMemory(m *Manager) error {
	const size = 32 << 20
	before := m.Usage()
	if before.MemoryLimit == nil || *before.MemoryLimit != usageMemory || before.Memory == nil || *before.Memory > usageMemory {
		return fmt.Errorf("the memory is %+v", before)
	}
	hold, err := startScript(m, fmt.Sprintf("x=$(head -c %d /dev/zero | tr '\\0' x); sleep 300", size))
	if err != nil {
		return err
	}
	defer hold.Signal(9)
	return until(func() bool {
		u := m.Usage()
		return *u.WorkingSet >= *before.WorkingSet+size && *u.WorkingSet <= *u.Memory && *u.Memory <= *u.MemoryLimit &&
			*u.Peak >= *u.WorkingSet
	}, m)
}

// usesPIDs has a process use up the limit: the usage is known also then.
func usesPIDs(m *Manager) error {
	before := m.Usage()
	if before.PIDLimit == nil || *before.PIDLimit != usagePIDs || before.PIDs == nil || *before.PIDs < 1 {
		return fmt.Errorf("the processes are %+v", before)
	}
	crowd, err := startScript(m, "exec 2>/dev/null; for i in {1..400}; do sleep 300 & done; wait")
	if err != nil {
		return err
	}
	defer crowd.Signal(9)
	return until(func() bool { return *m.Usage().PIDs >= usagePIDs-5 }, m)
}

func usesCPU(m *Manager) error {
	before := m.Usage()
	if before.CPULimit == nil || *before.CPULimit != 1500*time.Millisecond || before.CPU == nil || before.Throttled == nil {
		return fmt.Errorf("the processors are %+v", before)
	}
	busy, err := startScript(m, "while :; do :; done & while :; do :; done & while :; do :; done & wait")
	if err != nil {
		return err
	}
	defer busy.Signal(9)
	return until(func() bool { return *m.Usage().CPU >= *before.CPU+time.Second/2 }, m)
}

// until waits for what must come to hold.
func until(holds func() bool, m *Manager) error {
	for deadline := time.Now().Add(hung); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.New("it does not come to hold: " + fmt.Sprintf("%+v", m.Usage()))
		}
	}
	return nil
}
