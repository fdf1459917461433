package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
)

// hung is how long a test waits for something that takes seconds.
const hung = 2 * time.Minute

// real is a cluster that a test runs through the program, as users do.
type real struct {
	*cluster
	program string
}

// atOnce limits how many clusters tests run in parallel: each takes some 600 MB.
var atOnce = make(chan struct{}, 3)

// newReal returns a cluster in a new directory, beside any other. Only one test may
// have two clusters at once, because two such tests could wait for each other.
func newReal(t testing.TB) *real {
	t.Helper()
	program, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	atOnce <- struct{}{}
	t.Cleanup(func() { <-atOnce })
	r := &real{program: program}
	r.open(t, t.TempDir())
	t.Cleanup(func() { r.do(t, context.Background(), "down") })
	return r
}

// scratch is the program's directory. It is empty until a test needs it.
var scratch string

func TestMain(m *testing.M) {
	code := m.Run()
	if scratch != "" {
		_ = os.RemoveAll(scratch)
	}
	os.Exit(code)
}

// buildOnce builds the program. The Kubernetes programs are those of the checkout's
// cluster, or in PODAGENT_CLUSTER_BIN. They are built if necessary.
var buildOnce = sync.OnceValues(func() (program string, err error) {
	if err := asRoot(); err != nil {
		return "", err
	}
	bin, err := filepath.Abs(cmp.Or(os.Getenv("PODAGENT_CLUSTER_BIN"), "../../.cluster/bin"))
	if err == nil {
		err = os.Setenv("PODAGENT_CLUSTER_BIN", bin)
	}
	if err == nil {
		scratch, err = os.MkdirTemp("", "cluster")
	}
	if err != nil {
		return "", err
	}
	program = filepath.Join(scratch, "cluster")
	_, err = goCommand(context.Background(), os.Stderr, "build", "-o", program, ".")
	return program, err
})

// open reads where everything is. The first up decides that.
func (r *real) open(t testing.TB, dir string) {
	t.Helper()
	c, err := open(dir, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	r.cluster = c
}

// try runs a verb of the program.
func (r *real) try(ctx context.Context, args ...string) (string, error) {
	args = append([]string{args[0], "--dir", r.dir}, args[1:]...)
	out, err := exec.CommandContext(ctx, r.program, args...).CombinedOutput()
	return string(out), err
}

// do runs a verb that must succeed, and returns its output.
func (r *real) do(t testing.TB, ctx context.Context, args ...string) string {
	t.Helper()
	out, err := r.try(ctx, args...)
	t.Logf("%s:\n%s", strings.Join(args, " "), out)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return out
}

// awaitHealthy waits until status finds nothing wrong: a kubelet takes a moment to find its
// runtime again.
func (r *real) awaitHealthy(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	var out string
	err := until(ctx, func() (ok bool, err error) {
		out, err = r.try(ctx, "status")
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("the cluster is not healthy: %v: %s", err, out)
	}
}

// kubectl runs kubectl, which must succeed.
func (r *real) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), hung, filepath.Join(r.Bin, "kubectl"), append([]string{"--kubeconfig", r.Kubeconfig}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// runPod creates a pod with one container.
func (r *real) runPod(t *testing.T, name, image, restart string) {
	t.Helper()
	r.kubectl(t, "run", name, "--image", image, "--restart", restart)
}

// runPodUnderGVisor creates a pod that waits under gVisor.
func (r *real) runPodUnderGVisor(t *testing.T, name string) {
	t.Helper()
	r.kubectl(t, "run", name, "--image", pauseImage, "--overrides", `{"spec":{"runtimeClassName":"gvisor"}}`)
}

// podStatus is the part of a pod's status that tests use.
type podStatus struct {
	Phase             string
	ContainerStatuses []struct {
		ContainerID string
		Ready       bool
		State       struct{ Waiting struct{ Reason string } }
	}
}

// id returns the id of the pod's container, if there is one.
func (s podStatus) id() string {
	if len(s.ContainerStatuses) == 0 {
		return ""
	}
	return s.ContainerStatuses[0].ContainerID
}

// ready reports whether the pod's container is ready.
func (s podStatus) ready() bool { return len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].Ready }

// waitPod waits until a pod is in the given state.
func (r *real) waitPod(t *testing.T, name string, is func(podStatus) bool) podStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	var pod struct{ Status podStatus }
	var last error
	err := until(ctx, func() (bool, error) {
		pod.Status = podStatus{}
		last = r.get(ctx, r.APIServer+"/api/v1/namespaces/default/pods/"+name, "ca", "admin", &pod)
		return last == nil && is(pod.Status), nil
	})
	if err != nil {
		t.Fatalf("pod %s is %+v: %v, %v", name, pod.Status, err, last)
	}
	return pod.Status
}

// killRecorded kills all recorded programs with SIGKILL.
func (r *real) killRecorded(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(r.Pids)
	if err != nil {
		t.Fatal(err)
	}
	var records map[string]process
	if err := json.Unmarshal(data, &records); err != nil || len(records) != len(r.programs()) {
		t.Fatalf("%d programs are recorded, %v", len(records), err)
	}
	for name, p := range records {
		if !p.alive() {
			t.Errorf("%s is recorded as %v, but is not running", name, p)
		}
		if err := stop(t.Context(), []process{p}, true); err != nil {
			t.Fatal(err)
		}
	}
}

// killEverything also kills the shims and the pods' processes.
func (r *real) killEverything(t *testing.T) {
	t.Helper()
	r.killRecorded(t)
	if err := r.killMarked(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.killPods(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAKilledClusterComesBackAndLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	dir := r.dir
	first, second := make(chan error, 1), make(chan error, 1)
	for _, done := range []chan error{first, second} {
		go func() {
			out, err := r.try(context.Background(), "up")
			t.Logf("up:\n%s", out)
			done <- err
		}()
	}
	for _, done := range []chan error{first, second} {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	r.open(t, dir)
	r.runPod(t, "waits", pauseImage, "Always")
	before := r.waitPod(t, "waits", podStatus.ready)
	r.runPodUnderGVisor(t, "gvisor")
	isolated := r.waitPod(t, "gvisor", podStatus.ready)

	r.killRecorded(t)
	r.do(t, t.Context(), "up")
	// The containers and their shims have not stopped.
	if after := r.waitPod(t, "waits", podStatus.ready); after.id() != before.id() {
		t.Errorf("the container is %s; it was %s", after.id(), before.id())
	}
	if after := r.waitPod(t, "gvisor", podStatus.ready); after.id() != isolated.id() {
		t.Errorf("the container under gVisor is %s; it was %s", after.id(), isolated.id())
	}

	sockets := r.shimSockets()
	if len(sockets) == 0 {
		t.Error("no shim has a socket")
	}
	r.killEverything(t)
	r.do(t, t.Context(), "up")
	r.waitPod(t, "waits", func(s podStatus) bool { return s.ready() && s.id() != before.id() })
	r.waitPod(t, "gvisor", func(s podStatus) bool { return s.ready() && s.id() != isolated.id() })
	r.checkListeners(t)

	ports, _ := filepath.Glob(filepath.Join(interfacePath(r.Bridge), "brif", "*"))
	if len(ports) == 0 {
		t.Error("the pod is not on the bridge")
	}
	r.do(t, t.Context(), "down")
	r.checkNothingLeft(t, ports)
	for _, socket := range sockets {
		if exists(socket) {
			t.Errorf("a shim's socket is left: %s", socket)
		}
	}
}

func TestDownClearsUpAfterAKilledCluster(t *testing.T) {
	t.Parallel()
	other := newReal(t) // down must not touch this cluster
	other.do(t, t.Context(), "up")
	r := newReal(t)
	dir := r.dir
	r.do(t, t.Context(), "up")
	r.open(t, dir)
	r.runPod(t, "waits", pauseImage, "Always")
	r.runPodUnderGVisor(t, "gvisor")
	r.waitPod(t, "waits", podStatus.ready)
	r.waitPod(t, "gvisor", podStatus.ready)
	ports, _ := filepath.Glob(filepath.Join(interfacePath(r.Bridge), "brif", "*"))
	r.killRecorded(t) // the shims and the containers continue
	r.do(t, t.Context(), "down")
	r.checkNothingLeft(t, ports)
	r.do(t, t.Context(), "down") // a second time is not an error
	other.awaitHealthy(t)

	held, err := net.Listen("tcp", r.loopback("etcd"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	out, err := r.try(t.Context(), "up")
	if err == nil || !strings.Contains(out, fmt.Sprintf("process %d (", os.Getpid())) {
		t.Errorf("with a port taken by process %d: %v: %s", os.Getpid(), err, out)
	}
}

func TestPodsRunLoadedImagesAndReachTheAPIServer(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	dir := r.dir
	r.do(t, t.Context(), "up")
	r.open(t, dir)
	if out := r.do(t, t.Context(), "up"); !strings.Contains(out, "already") {
		t.Errorf("a second up says %q", out)
	}
	program := filepath.Join(t.TempDir(), "reach")
	if _, err := goCommand(t.Context(), os.Stderr, "build", "-o", program, "./testdata/reach"); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	image := writeImage(t, "cluster.test/reach:1", content)
	r.do(t, t.Context(), "load", image)
	if out := r.do(t, t.Context(), "load", image); !strings.Contains(out, "already") {
		t.Errorf("a second load says %q", out)
	}
	r.runPod(t, "reaches", "cluster.test/reach:1", "Never")
	r.runPod(t, "missing", "registry.invalid/none:1", "Never")
	r.waitPod(t, "reaches", func(s podStatus) bool { return s.Phase == "Succeeded" })
	r.waitPod(t, "missing", func(s podStatus) bool {
		return len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].State.Waiting.Reason == "ImagePullBackOff"
	})

	// After a restart, everything is as before.
	for _, p := range []string{"apiserver", "kubelet", "containerd"} {
		r.do(t, t.Context(), "restart", "--kill", p)
	}
	r.awaitHealthy(t)
	// Images outlive the cluster.
	r.do(t, t.Context(), "down")
	r.do(t, t.Context(), "up")
	if out := r.do(t, t.Context(), "load", image); !strings.Contains(out, "already") {
		t.Errorf("after down and up, load says %q", out)
	}
}

func TestAClusterWhoseDirectoryWasEmptiedComesUpAgain(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	dir := r.dir
	r.do(t, t.Context(), "up")
	r.open(t, dir)
	r.runPod(t, "waits", pauseImage, "Always")
	r.waitPod(t, "waits", podStatus.ready)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		_ = os.RemoveAll(r.path(entry.Name())) // as far as possible: some entries are mounts
	}
	r.do(t, t.Context(), "up")
	slot := r.Slot
	if r.open(t, dir); r.Slot != slot {
		t.Errorf("it has slot %d; it had %d", r.Slot, slot)
	}
	r.runPod(t, "waits", pauseImage, "Always") // this is a new cluster
	r.waitPod(t, "waits", podStatus.ready)
	r.do(t, t.Context(), "down")
	r.checkNothingLeft(t, nil)
}

// checkListeners checks that the cluster's processes listen only on loopback and
// the bridge.
func (r *real) checkListeners(t *testing.T) {
	t.Helper()
	out, err := command(t.Context(), hung, "ss", "-H", "-ltnp")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, p := range marked(r.dir) {
		for line := range strings.Lines(out) {
			if !strings.Contains(line, fmt.Sprintf("pid=%d,", p.PID)) {
				continue
			}
			seen++
			local := netip.MustParseAddrPort(strings.Fields(line)[3]).Addr()
			if !local.IsLoopback() && local.String() != r.BridgeAddress {
				t.Errorf("a process listens beyond loopback and the bridge: %s", line)
			}
		}
	}
	if seen < len(portNames) {
		t.Errorf("only %d listeners are found in:\n%s", seen, out)
	}
}

// checkNothingLeft checks that the cluster left nothing on the machine.
func (r *real) checkNothingLeft(t *testing.T, ports []string) {
	t.Helper()
	for _, p := range marked(r.dir) {
		t.Errorf("process %d is left: %v", p.PID, commandLine(p.PID))
	}
	mounts, err := readMounts()
	if err != nil {
		t.Fatal(err)
	}
	// A pod's network namespace is a mount, too.
	for _, path := range below(mounts, append(r.stateDirs(), r.dir)) {
		t.Errorf("a mount is left: %s", path)
	}
	for _, port := range append(ports, interfacePath(r.Bridge)) {
		if exists(interfacePath(filepath.Base(port))) {
			t.Errorf("an interface is left: %s", filepath.Base(port))
		}
	}
	if groups, err := r.cgroups(); err != nil || len(groups) > 0 {
		t.Errorf("control groups are left: %v, %v", groups, err)
	}
	rules, err := command(t.Context(), hung, "iptables-save")
	if err != nil || strings.Contains(rules, r.cniNetwork()) {
		t.Errorf("rules are left: %v in %s", err, rules)
	}
	routes, err := command(t.Context(), hung, "ip", "rule", "show")
	if err != nil || strings.Contains(routes, r.Bridge) {
		t.Errorf("a rule for routes is left: %v in %s", err, routes)
	}
	tables, err := (&nftables.Conn{}).ListTables()
	if err != nil || slices.ContainsFunc(tables, func(table *nftables.Table) bool { return table.Name == r.cniNetwork() }) {
		t.Errorf("the table of policies is left: %v", err)
	}
	for _, pattern := range []string{r.run(), "/var/lib/cni/results/" + r.cniNetwork() + "-*", r.path("kubelet"), r.path("etcd")} {
		if left, _ := filepath.Glob(pattern); left != nil {
			t.Errorf("files are left: %v", left)
		}
	}
	if err := syscall.Access(r.path("logs", "kubelet.log"), 0); err != nil {
		t.Errorf("the logs are not kept: %v", err)
	}
}

// BenchmarkSecondStart measures how long a cluster takes to come up if its programs
// and state exist. It should take less than 20 s.
func BenchmarkSecondStart(b *testing.B) {
	r := newReal(b)
	r.do(b, b.Context(), "up")
	for b.Loop() {
		b.StopTimer()
		r.do(b, b.Context(), "down")
		b.StartTimer()
		r.do(b, b.Context(), "up")
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/start")
}
