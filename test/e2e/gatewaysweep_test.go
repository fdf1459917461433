package e2e

// What the gateway that leads does about sandboxes that nobody ends, or needs for now.

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// leaderLease is the Lease of the gateway that leads.
const leaderLease = "gateway-leader"

// leads returns the process id of the gateway that leads; 0 if there is none.
func leads(t *testing.T, c *launchertest.Cluster) int {
	t.Helper()
	lease, err := c.API(t).CoordinationV1().Leases(c.Namespace).Get(t.Context(), leaderLease, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return 0
	}
	parts := strings.Split(*lease.Spec.HolderIdentity, "_")
	if len(parts) != 3 {
		return 0
	}
	pid, _ := strconv.Atoi(parts[1])
	return pid
}

// When the gateway that leads and has made the sandboxes is killed, another goes on: it takes away
// the pod of one that went to sleep, and keeps one that nobody calls from being reaped.
func TestAnotherGatewaySweepsWhenTheOneThatLedIsKilled(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	flags := []string{"--workspace-size", "1Gi", "--requests", "cpu=20m,memory=64Mi"}
	if class := c.Storage(t, 1); class != "" {
		flags = append(flags, "--storage-class", class)
	}
	programs := startPrograms(t, c, 1, flags...)
	first := programs.all[0]
	harness.Await(t, "a gateway that leads", func() bool { return leads(t, c) == first.cmd.Process.Pid })
	w := &killWorker{T: t, replicas: newReplicas(t, programs)}
	must := func(status int, path, body string) string {
		t.Helper()
		r, text, err := w.again("POST", "/api/v1/sandboxes"+path, []byte(body))
		if err != nil || r.StatusCode != status {
			t.Fatalf("%s: %s: %v, want %d", path, text, err, status)
		}
		return string(text)
	}
	must(201, "", `{"id":"quiet"}`)
	must(201, "", `{"id":"sleepy","auto_pause":true,"idle_seconds":5}`)
	must(200, "/sleepy/exec", `{"script":"printf kept > file"}`)
	before := podOf(t, c, inPod("quiet")).UID
	programs.kill() // another is started
	forget(t, c, inPod("quiet"), 20*time.Minute)
	k := c.Launcher()
	harness.Await(t, "the pause of what sleeps", func() bool {
		s, err := k.Find(t.Context(), inPod("sleepy"))
		return err == nil && s.State == launcher.Paused
	})
	harness.Await(t, "a heartbeat of what nobody calls", func() bool {
		s, err := k.Find(t.Context(), inPod("quiet"))
		return err == nil && time.Since(s.Heartbeat) < 10*time.Minute
	})
	if now := podOf(t, c, inPod("quiet")).UID; now != before {
		t.Error("the sandbox that nobody calls has another pod")
	}
	if text := must(200, "/sleepy/exec", `{"script":"cat file"}`); !strings.Contains(text, `"stdout":"kept"`) {
		t.Errorf("the one that slept says %s", text)
	}
	last := programs.all[0]
	if got := leads(t, c); got != last.cmd.Process.Pid {
		t.Errorf("%d leads, want %d", got, last.cmd.Process.Pid)
	}
	if err := last.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = last.cmd.Wait()
	if _, err := c.API(t).CoordinationV1().Leases(c.Namespace).Get(t.Context(), leaderLease, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease stays: %v", err)
	}
}

// forget makes a sandbox look as if its orchestrator had been killed a while ago.
func forget(t *testing.T, c *launchertest.Cluster, id string, by time.Duration) {
	t.Helper()
	only := metav1.ListOptions{LabelSelector: podmeta.LabelHeartbeats}
	if err := c.API(t).CoordinationV1().Leases(c.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, only); err != nil {
		t.Fatal(err)
	}
	age(t, c, id, by)
}

// outlived is the sandbox job, whose agent does not end it when its lifetime is over.
type outlived struct {
	*testing.T
	c   *launchertest.Cluster
	k   *launcher.Kubernetes
	pod string // the first one, and the claim
}

// sweep expects that there is something to sweep, or not. A sweep leaves a pod or claim that changes at
// the same time to the next one.
func (o *outlived) sweep(want bool) {
	o.Helper()
	sweep := func() bool {
		swept, err := o.k.Sweep(o.Context(), "job")
		if err != nil {
			o.Fatal(err)
		}
		return swept
	}
	switch {
	case want:
		harness.Await(o.T, "a sweep that does something", sweep)
	case sweep():
		o.Error("something was swept")
	}
}

func (o *outlived) pause() {
	o.Helper()
	if err := o.k.Pause(o.Context(), "job"); err != nil {
		o.Fatal(err)
	}
}

func (o *outlived) resume() {
	o.Helper()
	s, err := o.k.Resume(o.Context(), "job")
	if err != nil {
		o.Fatal(err)
	}
	s.Close()
}

// end has its lifetime be over, and expects the sweep to leave its files.
func (o *outlived) end() {
	o.Helper()
	patch := annotations(podmeta.AnnotationExpires, ago(2*time.Minute))
	if _, err := o.c.API(o.T).CoreV1().Pods(o.c.Namespace).Patch(o.Context(), o.pod, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		o.Fatal(err)
	}
	o.sweep(true)
	harness.Await(o.T, "the pause", func() bool {
		s, err := o.k.Find(o.Context(), "job")
		return err == nil && s.State == launcher.Paused
	})
	o.sweep(false)
}

// filesEnd says when the files go: since which time, and of which resumption.
func (o *outlived) filesEnd(text string) {
	o.Helper()
	patch := annotations(podmeta.AnnotationFilesEnd, text)
	if _, err := o.c.API(o.T).CoreV1().PersistentVolumeClaims(o.c.Namespace).Patch(o.Context(), o.pod, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		o.Fatal(err)
	}
}

// annotations returns a patch.
func annotations(name, value string) []byte {
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, name, value)
}

func ago(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339Nano) }

// A sandbox that outlives its lifetime is ended, and its files stay for a day, in which it can be
// resumed. What lives, and what was resumed since, is left alone.
func TestSweepEndsWhatOutlivesItsLifetime(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := keptSpec(t, c, "job")
	spec.Pod.Lifetime = time.Hour
	o := &outlived{T: t, c: c, k: c.Launcher()}
	harness.Launch(t, o.k, spec).Close()
	o.pod = podOf(t, c, "job").Name
	o.sweep(false) // it lives
	o.end()
	if s, err := o.k.Find(t.Context(), "job"); err != nil || time.Since(s.Expires) < 2*time.Minute {
		t.Errorf("it is %+v, %v: want its end", s, err)
	}
	longAgo := ago(25*time.Hour) + " "
	o.resume()
	o.filesEnd(longAgo) // of the first pod
	o.pause()
	o.sweep(false)
	o.resume()
	o.end()
	o.pause() // by somebody who wants the files
	if s, err := o.k.Find(t.Context(), "job"); err != nil || !s.Expires.IsZero() {
		t.Errorf("its files go at %v although it was paused by hand: %v", s.Expires, err)
	}
	claim, err := c.API(t).CoreV1().PersistentVolumeClaims(c.Namespace).Get(t.Context(), o.pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o.filesEnd(longAgo + claim.Annotations[podmeta.AnnotationResumed])
	o.sweep(true)
	if _, err := o.k.Find(t.Context(), "job"); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("it is left: %v", err)
	}
}
