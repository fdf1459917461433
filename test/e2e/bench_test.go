package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// The benchmarks compare a sandbox in a pod with what Kubernetes' own client
// does in the same cluster, at the same time: the sides take turns within a
// benchmark, so that whatever else the machine does meets them alike. They
// report the medians, and how many times faster the sandbox is, which alone
// says something about another machine.

// side is one of those that a benchmark compares.
type side struct {
	name  string
	do    func() error // what is timed
	after func() error // what has to follow it; nil for nothing
	more  int          // how often it is done again in a turn
}

// compare has the sides take turns, so many rounds in each iteration after one
// that does not count. It reports the median of each, and returns them in
// milliseconds.
func compare(b *testing.B, rounds int, sides ...side) []float64 {
	b.Helper()
	times := make([][]time.Duration, len(sides))
	takeTurns(b, sides, times)
	clear(times)
	for b.Loop() {
		for range rounds {
			takeTurns(b, sides, times)
		}
	}
	medians := make([]float64, len(sides))
	for i, of := range times {
		slices.Sort(of)
		quarter := len(of) / 4
		b.Logf("%s: median %v of %d, half of them from %v to %v", sides[i].name, of[len(of)/2], len(of), of[quarter], of[len(of)-1-quarter])
		medians[i] = of[len(of)/2].Seconds() * 1000
		b.ReportMetric(medians[i], sides[i].name+"-ms")
	}
	b.ReportMetric(0, "ns/op") // of all sides together, which says nothing
	return medians
}

func takeTurns(b *testing.B, sides []side, times [][]time.Duration) {
	b.Helper()
	for i, s := range sides {
		for range 1 + s.more {
			begin := time.Now()
			err := s.do()
			times[i] = append(times[i], time.Since(begin))
			if err == nil && s.after != nil {
				err = s.after()
			}
			if err != nil {
				b.Fatalf("%s: %v", s.name, err)
			}
		}
	}
}

// compareFaster compares, and reports how many times faster the first side is
// than each other. It returns what compare does.
func compareFaster(b *testing.B, rounds int, sides ...side) []float64 {
	b.Helper()
	medians := compare(b, rounds, sides...)
	for i, median := range medians[1:] {
		b.ReportMetric(median/medians[0], "x-faster-than-"+sides[i+1].name)
	}
	return medians
}

// benchPod launches a sandbox, and returns it with its pod.
func benchPod(b *testing.B) (*launchertest.Cluster, *launcher.Sandbox, *corev1.Pod) {
	b.Helper()
	c := launchertest.NewCluster(b, launcher.Restricted)
	s, err := c.Launcher().Launch(b.Context(), c.Spec("bench"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	list, err := c.API(b).CoreV1().Pods(c.Namespace).List(b.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		b.Fatalf("%d pods in the benchmark's namespace, %v", len(list.Items), err)
	}
	return c, s, &list.Items[0]
}

// BenchmarkExecTrueAgainstClientGoExec is to be 30 times faster than client-go,
// and 60 times faster than kubectl.
func BenchmarkExecTrueAgainstClientGoExec(b *testing.B) {
	c, s, pod := benchPod(b)
	compareFaster(b, 20,
		// More than one, since the node is at work for a while after the others.
		side{name: "exec", more: 9, do: func() error { return s.Command(b.Context(), "true").Run() }},
		side{name: "client-go-exec", do: clientGoExec(b, c, pod, "true")},
		side{name: "kubectl-exec", do: kubectl(b, c, "exec", pod.Name, "--", "true")},
	)
}

// BenchmarkExecTrueAgainstTheFloor is to take no longer than one and a half
// times what it takes here to start a process and wait for it, and one raw round
// trip: at most 1 time the bound, also with a full GiB of journals held.
func BenchmarkExecTrueAgainstTheFloor(b *testing.B) {
	c, s, pod := benchPod(b)
	raw := newRawStream(b, c, pod, startEcho(b, s))
	if err := raw.request('e', 0); err != nil {
		b.Fatal(err)
	}
	bench := func(b *testing.B) {
		medians := compare(b, 300,
			side{name: "exec", do: func() error { return s.Command(b.Context(), "true").Run() }},
			side{name: "vfork-floor", do: startTrue},
			side{name: "raw-64-bytes", do: func() error { return raw.echo(64) }},
		)
		b.ReportMetric(medians[0]/(1.5*medians[1]+medians[2]), "x-the-bound")
	}
	b.Run("no journals", bench)
	for range journalHolders {
		if err := s.Shell(b.Context(), "head -c 64M /dev/zero").Run(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("1 GiB of journals", bench)
}

// journalHolders are the commands whose output together is all that an agent
// keeps.
const journalHolders = 16

// startTrue starts a process, which Go does by vfork, and waits for it.
func startTrue() error {
	p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	if err == nil {
		_, err = p.Wait()
	}
	return err
}

// BenchmarkStatAgainstRawRoundTrip is to take no longer than what 64 bytes take
// to the pod and back: 1 time faster.
func BenchmarkStatAgainstRawRoundTrip(b *testing.B) {
	c, s, pod := benchPod(b)
	raw := newRawStream(b, c, pod, startEcho(b, s))
	if err := raw.request('e', 0); err != nil {
		b.Fatal(err)
	}
	compareFaster(b, 1000,
		side{name: "stat", do: func() error {
			_, err := s.Stat(b.Context(), ".")
			return err
		}},
		side{name: "raw-64-bytes", do: func() error { return raw.echo(64) }},
	)
}

// BenchmarkDialAgainstRawPortForward compares connections with port-forwards to the
// same server, which need one each, and neither TLS nor an agent: the round trip of
// 64 bytes, and what passes either way.
func BenchmarkDialAgainstRawPortForward(b *testing.B) {
	c, s, pod := benchPod(b)
	port := startEcho(b, s)
	open := func(conn func() io.ReadWriter) *rawStream { return &rawStream{conn(), make([]byte, forwardBuffer)} }
	dialed := func() io.ReadWriter {
		conn, err := s.Dial(b.Context(), port)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		return conn
	}
	forwarded := func() io.ReadWriter { return stockForward(b, c, pod, port) }
	b.Run("round trip", func(b *testing.B) {
		ours, raw := open(dialed), open(forwarded)
		for _, stream := range []*rawStream{ours, raw} {
			if err := stream.request('e', 0); err != nil {
				b.Fatal(err)
			}
		}
		compareFaster(b, 1000,
			side{name: "dial-64-bytes", do: func() error { return ours.echo(64) }},
			side{name: "raw-64-bytes", do: func() error { return raw.echo(64) }},
		)
	})
	b.Run("send", func(b *testing.B) {
		ours, raw := open(dialed), open(forwarded)
		compareTransfers(b,
			side{name: "dial", do: func() error { return ours.send(transferSize) }},
			side{name: "raw", do: func() error { return raw.send(transferSize) }},
		)
	})
	b.Run("receive", func(b *testing.B) {
		ours, raw := open(dialed), open(forwarded)
		compareTransfers(b,
			side{name: "dial", do: func() error { return ours.receive(transferSize) }},
			side{name: "raw", do: func() error { return raw.receive(transferSize) }},
		)
	})
}

// transferSize is large against what the buffers on the way hold.
const transferSize = 256 << 20

// BenchmarkTransferAgainstRawAndKubectlCp is to be 0.8 times as fast as raw
// bytes, which no file is made of, and twice as fast as kubectl.
func BenchmarkTransferAgainstRawAndKubectlCp(b *testing.B) {
	c, s, pod := benchPod(b)
	raw := newRawStream(b, c, pod, startEcho(b, s))
	local := filepath.Join(b.TempDir(), "file")
	data, err := io.ReadAll(pattern(transferSize, 1))
	if err == nil {
		err = os.WriteFile(local, data, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	inPod := func(name string) string { return pod.Name + ":" + path.Join(s.Workdir, name) }
	b.Run("write", func(b *testing.B) {
		compareTransfers(b,
			side{name: "write", do: func() error {
				_, err := s.WriteFile(b.Context(), "written", data, fsops.WriteOptions{})
				return err
			}},
			side{name: "raw", do: func() error { return raw.send(transferSize) }},
			side{name: "kubectl-cp", do: kubectl(b, c, "cp", local, inPod("copied"))},
		)
	})
	b.Run("read", func(b *testing.B) {
		compareTransfers(b,
			side{name: "read", do: func() error {
				_, err := s.Read(b.Context(), "written", fsops.ReadOptions{}, io.Discard)
				return err
			}},
			side{name: "raw", do: func() error { return raw.receive(transferSize) }},
			side{name: "kubectl-cp", do: kubectl(b, c, "cp", inPod("copied"), local)},
		)
	})
}

// compareTransfers reports the rate of the first side, too.
func compareTransfers(b *testing.B, sides ...side) {
	b.Helper()
	medians := compareFaster(b, 3, sides...)
	b.ReportMetric(transferSize/1e3/medians[0], "MB/s")
}

// BenchmarkCreateToFirstExec is to take at most 50 ms more than a pod that does
// nothing takes until it is Ready.
func BenchmarkCreateToFirstExec(b *testing.B) {
	c := launchertest.NewCluster(b, launcher.Restricted)
	l, pods := c.Launcher(), c.API(b).CoreV1().Pods(c.Namespace)
	var s *launcher.Sandbox
	var pause *corev1.Pod
	medians := compare(b, 10,
		side{
			name: "create-to-exec",
			do: func() (err error) {
				s, err = firstExec(b, l, c.Spec("bench"))
				return err
			},
			after: func() error { return errors.Join(s.Close(), l.Terminate(b.Context(), "bench")) },
		},
		side{
			name: "pause-to-ready",
			do: func() (err error) {
				pause, err = createPause(b.Context(), pods)
				return err
			},
			after: func() error { return removePod(b.Context(), pods, pause) },
		},
	)
	b.ReportMetric(medians[0]-medians[1], "ms-over-pause")
}

// BenchmarkResumeToFirstExec is to take at most a second more than a pod that does
// nothing takes until it is Ready.
func BenchmarkResumeToFirstExec(b *testing.B) {
	c := launchertest.NewCluster(b, launcher.Restricted)
	l, pods := c.Launcher(), c.API(b).CoreV1().Pods(c.Namespace)
	spec := c.Spec("bench")
	spec.Pod.Workspace = launcher.Workspace{Keep: true, Size: resource.MustParse("1Gi"), StorageClass: c.Storage(b, 1)}
	s, err := firstExec(b, l, spec)
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(s.Close(), l.Pause(b.Context(), "bench")); err != nil {
		b.Fatal(err)
	}
	var pause *corev1.Pod
	medians := compare(b, 10,
		side{
			name: "resume-to-exec",
			do: func() (err error) {
				if s, err = l.Resume(b.Context(), "bench"); err != nil {
					return err
				}
				return s.Command(b.Context(), "true").Run()
			},
			after: func() error { return errors.Join(s.Close(), l.Pause(b.Context(), "bench")) },
		},
		side{
			name: "pause-to-ready",
			do: func() (err error) {
				pause, err = createPause(b.Context(), pods)
				return err
			},
			after: func() error { return removePod(b.Context(), pods, pause) },
		},
	)
	b.ReportMetric(medians[0]-medians[1], "ms-over-pause")
}

// BenchmarkAdoptToFirstExec is to take under 150 ms: what a new orchestrator
// needs, that has no connection yet, and no session of TLS to resume.
func BenchmarkAdoptToFirstExec(b *testing.B) {
	c, _, _ := benchPod(b)
	var s *launcher.Sandbox
	compare(b, 20, side{
		name: "adopt-to-exec",
		do: func() (err error) {
			l := c.Launcher()
			l.Config = rest.CopyConfig(l.Config)
			l.Config.Dial = (&net.Dialer{}).DialContext // its own, or transports are shared
			s, err = firstExec(b, l, c.Spec("bench"))
			if err == nil && s.Created {
				err = fmt.Errorf("the sandbox %q was made anew", s.ID)
			}
			return err
		},
		after: func() error { return s.Close() },
	})
}

// firstExec launches a sandbox and runs a command in it.
func firstExec(b *testing.B, l launcher.Launcher, spec launcher.Spec) (*launcher.Sandbox, error) {
	s, err := l.Launch(b.Context(), spec)
	if err != nil {
		return nil, err
	}
	return s, s.Command(b.Context(), "true").Run()
}
