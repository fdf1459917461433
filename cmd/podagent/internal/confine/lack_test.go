package confine

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// Without descriptors nothing shows what the kernel offers. That makes no boundary weaker.
func TestLackMakesNoBoundaryWeaker(t *testing.T) {
	const inside = "PODAGENT_TEST_LACK"
	if os.Getenv(inside) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	setFiles := func(n uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
	}
	for _, fence := range []*Fence{nil, {}} {
		setFiles(0)
		thread, missing, err := Start(Auto, fence, nil)
		setFiles(limit.Cur)
		if !errors.Is(err, unix.EMFILE) || errors.Is(err, ErrUnavailable) {
			t.Errorf("without descriptors: %v, missing %v, %v", thread.Parts().Names(), missing, err)
		}
	}
	if _, _, err := Start(Auto, nil, nil); err != nil {
		t.Errorf("with descriptors: %v", err)
	}
}
