package agent

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/podapi"
)

// An agent outside of a pod shares the control group of whoever started it.
func TestStatsKnowWhatIsTheSandboxs(t *testing.T) {
	for uid, contained := range map[string]bool{"": false, "pod-uid": true} {
		workdir, socket := serveTest(t, func(c *Config) { c.PodUID = uid })
		s, err := dial(t, podapi.DialOptions{Dial: unixDialer(socket)}).Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if known := s.Memory != nil && s.MemoryWorkingSet != nil && s.CPU != nil && *s.CPU > 0; known != contained {
			t.Errorf("with the pod %q it says %+v", uid, s)
		}
		if !contained && (s.MemoryLimit != nil || s.CPULimit != nil || s.PIDs != nil || s.PIDsLimit != nil) {
			t.Errorf("without a pod it says %+v", s)
		}
		var disk unix.Statfs_t
		if err := unix.Statfs(workdir, &disk); err != nil {
			t.Fatal(err)
		}
		if s.DiskSize == nil || *s.DiskSize != int64(disk.Blocks)*disk.Frsize || *s.DiskUsed > *s.DiskSize || *s.DiskAvailable > *s.DiskSize {
			t.Errorf("the disk is %+v, statfs says %+v", s, disk)
		}
	}
}

func TestStatsAreNoActivity(t *testing.T) {
	_, a, workdir, socket := onSlowDisk(t)
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	begun, _ := a.activity.idleSince()
	if _, err := c.Stats(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last, idle := a.activity.idleSince(); last != begun || !idle {
		t.Errorf("the agent worked at %v, idle: %v", last, idle)
	}
	if _, err := c.Stat(t.Context(), filepath.Join(workdir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if last, _ := a.activity.idleSince(); last == begun {
		t.Error("another call was no activity either")
	}
}

// All that callers ask of a file system whose server is gone takes one thread.
func TestStatsDoNotWaitForADiskThatDoesNotAnswer(t *testing.T) {
	_, a, _, socket := onSlowDisk(t)
	var asked atomic.Int32
	answers := make(chan struct{})
	a.disk.ask = func(path string, st *unix.Statfs_t) error {
		asked.Add(1)
		<-answers
		return unix.Statfs(path, st)
	}
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	var callers sync.WaitGroup
	for range 10 {
		callers.Go(func() {
			if s, err := c.Stats(t.Context()); err != nil || s.DiskSize != nil || s.Time.IsZero() {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	callers.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("the disk was asked %d times", n)
	}
	close(answers)
	if s, err := c.Stats(t.Context()); err != nil || s.DiskSize == nil {
		t.Errorf("when the disk answers again: %+v, %v", s, err)
	}
}

func TestDiskThatSaysNonsenseIsUnknown(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		said unix.Statfs_t
		want disk
	}{
		"honest":        {unix.Statfs_t{Frsize: 4096, Bsize: 1 << 20, Blocks: 10, Bfree: 5, Bavail: 4, Files: 7, Ffree: 3}, disk{n(40960), n(20480), n(16384), n(7), n(4)}},
		"no fragments":  {unix.Statfs_t{Bsize: 512, Blocks: 2}, disk{n(1024), n(1024), n(0), nil, nil}},
		"no blocks":     {unix.Statfs_t{Frsize: 4096}, disk{}},
		"no size":       {unix.Statfs_t{Blocks: 5}, disk{}},
		"more is free":  {unix.Statfs_t{Frsize: 1, Blocks: 5, Bfree: 6, Bavail: 6, Files: 1, Ffree: 2}, disk{n(5), nil, n(6), n(1), nil}},
		"negative size": {unix.Statfs_t{Frsize: -1, Blocks: 5}, disk{}},
		"huge":          {unix.Statfs_t{Frsize: 4096, Blocks: 1 << 62, Bfree: 1 << 62, Bavail: 1 << 63, Files: 1 << 63}, disk{used: n(0)}},
	} {
		if diff := cmp.Diff(c.want, *diskOf(&c.said), cmp.AllowUnexported(disk{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
