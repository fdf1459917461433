// Package procfstest has a process for tests that claims a very long environment, as code
// in a sandbox may do.
package procfstest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// claimEnv is the variable that tells a process of this test binary how long its
// environment is to be.
const claimEnv = "PROCFSTEST_CLAIM"

// claimed is what such a process says when its environment is that long.
const claimed = "claimed"

// ClaimEnviron starts a process whose environment claims to have size bytes, without
// memory behind them. It ends when the test does, or by a call of end. The process runs the
// calling test or benchmark again, up to this call, which must come first.
func ClaimEnviron(t testing.TB, size int) (end func()) {
	t.Helper()
	if text := os.Getenv(claimEnv); text != "" {
		beClaimant(text)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	again := []string{"-test.run=^" + t.Name() + "$"}
	if _, ok := t.(*testing.B); ok {
		again = []string{"-test.run=^$", "-test.bench=^" + t.Name() + "$"}
	}
	cmd := exec.Command(self, again...)
	cmd.Env = append(os.Environ(), claimEnv+"="+strconv.Itoa(size))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	t.Cleanup(end)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != claimed+"\n" {
		t.Fatalf("the process cannot claim a long environment: %q, %v", line, err)
	}
	return end
}

// Allocated returns how many bytes this program allocates while it calls do.
func Allocated(do func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// beClaimant is the process: it ends when its standard input does.
func beClaimant(size string) {
	n, err := strconv.Atoi(size)
	if err == nil {
		err = claim(n)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(claimed)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// memoryMap is struct prctl_mm_map of PR_SET_MM (prctl(2)).
type memoryMap struct {
	startCode, endCode, startData, endData  uint64
	startBrk, brk, startStack               uint64
	argStart, argEnd, envStart, envEnd, aux uint64
	auxSize, exeFD                          uint32
}

// claim moves the environment of this process to fresh memory.
func claim(size int) error {
	env, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	field := func(n int) uint64 { // as proc_pid_stat(5) counts them, from the third on
		_, rest, _ := strings.Cut(string(stat), ") ")
		v, _ := strconv.ParseUint(strings.Fields(rest)[n-3], 10, 64)
		return v
	}
	brk, _, _ := unix.Syscall(unix.SYS_BRK, 0, 0, 0)
	start := uint64(uintptr(unsafe.Pointer(&env[0])))
	m := memoryMap{
		startCode: field(26), endCode: field(27), startData: field(45), endData: field(46),
		startBrk: field(47), brk: uint64(brk), startStack: field(28),
		argStart: field(48), argEnd: field(49), envStart: start, envEnd: start + uint64(size),
		exeFD: ^uint32(0),
	}
	return unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_MAP, uintptr(unsafe.Pointer(&m)), unsafe.Sizeof(m), 0)
}
