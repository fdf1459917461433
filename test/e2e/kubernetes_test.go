package e2e

// Promises of sandboxes in pods, beyond those of all sandboxes.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// podOf returns the only pod with this id in its label.
func podOf(t *testing.T, c *launchertest.Cluster, id string) *corev1.Pod {
	t.Helper()
	list, err := c.API(t).CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: podmeta.LabelID + "=" + id})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("%d pods have the id %s", len(list.Items), id)
	}
	return &list.Items[0]
}

// awaitNoSandbox waits until there is no sandbox any more.
func awaitNoSandbox(t *testing.T, c *launchertest.Cluster) {
	t.Helper()
	harness.Await(t, "the removal of the last sandbox", func() bool {
		list, err := c.Launcher().List(t.Context())
		return err == nil && len(list) == 0
	})
}

// runningPodOf returns the pod of a sandbox, including its container's status and
// its address. A sandbox may answer before the node has reported these.
func runningPodOf(t *testing.T, c *launchertest.Cluster, id string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	harness.Await(t, "the report that the pod runs", func() bool {
		pod = podOf(t, c, id)
		statuses := pod.Status.ContainerStatuses
		return pod.Status.PodIP != "" && len(statuses) > 0 && statuses[0].State.Running != nil
	})
	return pod
}

func deletePod(t *testing.T, c *launchertest.Cluster, name string) {
	t.Helper()
	if err := c.API(t).CoreV1().Pods(c.Namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestFiftyLaunchesOfOneIDEndInOnePod(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	var all sync.WaitGroup
	var created atomic.Int32
	sandboxes := make([]*launcher.Sandbox, 50)
	for i := range sandboxes {
		all.Go(func() {
			s, err := c.Launcher().Launch(t.Context(), c.Spec("shared")) // as another orchestrator would
			if err != nil {
				t.Error(err)
				return
			}
			sandboxes[i] = s
			if s.Created {
				created.Add(1)
			}
			if err := s.WriteFile(t.Context(), fmt.Sprint("of-", i), nil, 0o666); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	podOf(t, c, "shared") // there is only one
	if n := created.Load(); n != 1 {
		t.Errorf("%d launches say that they created it", n)
	}
	if got := len(harness.Names(t, sandboxes[0], ".")); got != 50 {
		t.Errorf("the first sees %d files of 50", got)
	}
	for _, s := range sandboxes {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Fault 1 in others' implementations: a pod that is being deleted must not be used
// as a sandbox.
func TestTerminatingPodIsNotAdopted(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	s := harness.Launch(t, c.Launcher(), c.Spec("a"))
	harness.Put(t, s, "old", "")
	old := podOf(t, c, "a")
	deletePod(t, c, old.Name)
	s = harness.Launch(t, c.Launcher(), c.Spec("a"))
	if now := podOf(t, c, "a"); now.UID == old.UID || !s.Created {
		t.Errorf("the pod that was being deleted was adopted")
	}
	if got := harness.Names(t, s, "."); len(got) > 0 {
		t.Errorf("the new pod has %q", got)
	}
}

func TestCloseDeletesOnlyWhatWasCreatedWithoutAnID(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	exists := func(id string) bool {
		_, err := k.Open(t.Context(), id)
		if err != nil && !errors.Is(err, launcher.ErrNotFound) && !errors.Is(err, launcher.ErrGone) {
			t.Error(err)
		}
		return err == nil
	}
	for _, tt := range []struct {
		name string
		id   string
		on   launcher.OnClose
		kept bool
	}{
		{"made up", "", launcher.CloseDefault, false},
		{"given", "given", launcher.CloseDefault, true},
		{"given, delete", "delete", launcher.CloseDelete, false},
		{"made up, keep", "", launcher.CloseKeep, true},
	} {
		spec := c.Spec(tt.id)
		spec.OnClose = tt.on
		s := harness.Launch(t, k, spec)
		spec.ID = s.ID
		adopter := harness.Launch(t, k, spec)
		if err := adopter.Close(); err != nil {
			t.Error(err)
		}
		if !exists(s.ID) {
			t.Errorf("%s: a sandbox that did not create the pod deleted it", tt.name)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if got := exists(s.ID); got != tt.kept {
			t.Errorf("%s: the pod outlived Close by its creator: %v", tt.name, got)
		}
	}
}

func TestOptionsReachThePod(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "agents"}}
	if _, err := c.API(t).CoreV1().ServiceAccounts(c.Namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	spec := c.Spec("Team/Ünit 7")
	spec.Workdir = "/srv/work"
	spec.Pod.Labels = map[string]string{"example.com/user": "alice"}
	spec.Pod.Annotations = map[string]string{"example.com/why": "a test"}
	spec.Pod.ServiceAccount = "agents"
	spec.Pod.ActiveDeadline = time.Hour
	spec.Pod.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("50m"), "memory": resource.MustParse("64Mi")}
	spec.Pod.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("512Mi")}
	s := harness.Launch(t, c.Launcher(), spec)
	if out, _, _ := harness.Run(t, s, "pwd", nil); out != "/srv/work\n" || s.Workdir != "/srv/work" {
		t.Errorf("commands run in %q, Workdir is %q", out, s.Workdir)
	}
	// As people search for it.
	list, err := c.API(t).CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "example.com/user=alice," + podmeta.LabelManagedBy + "=podagent"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d pods have the label: %v", len(list.Items), err)
	}
	pod := list.Items[0]
	if got := pod.Labels[podmeta.LabelID]; got != "Team-nit-7" {
		t.Errorf("the label of the id is %q", got)
	}
	if pod.Annotations[podmeta.AnnotationID] != spec.ID || pod.Annotations["example.com/why"] != "a test" {
		t.Errorf("the annotations are %q", pod.Annotations)
	}
	if pod.Annotations[podmeta.AnnotationKey] != c.Identity.AuthorizedKey().Fingerprint() {
		t.Errorf("the key's annotation is %q", pod.Annotations[podmeta.AnnotationKey])
	}
	if got := *pod.Spec.ActiveDeadlineSeconds; got != 3600 {
		t.Errorf("the deadline is %d s", got)
	}
	if pod.Spec.ServiceAccountName != "agents" || pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || *pod.Spec.TerminationGracePeriodSeconds > 10 {
		t.Errorf("the pod has account %s, policy %s, %d s of grace", pod.Spec.ServiceAccountName, pod.Spec.RestartPolicy, *pod.Spec.TerminationGracePeriodSeconds)
	}
	want := *spec.Pod.Resources.DeepCopy() // and the defaults of what is not given
	want.Requests[corev1.ResourceEphemeralStorage] = resource.Quantity{}
	want.Limits[corev1.ResourceCPU] = resource.MustParse(launcher.DefaultCPULimit)
	want.Limits[corev1.ResourceEphemeralStorage] = resource.MustParse("20Gi")
	if got := pod.Spec.Containers[0].Resources; !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("resources: %s", cmp.Diff(want, got))
	}
}

func TestPodHasItsDefaults(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	harness.Launch(t, c.Launcher(), c.Spec("a"))
	pod := podOf(t, c, "a")
	main := pod.Spec.Containers[0]
	if pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || *pod.Spec.ActiveDeadlineSeconds != 8*60*60 || *pod.Spec.TerminationGracePeriodSeconds > 10 {
		t.Errorf("policy %s, deadline %d s, grace %d s", pod.Spec.RestartPolicy, *pod.Spec.ActiveDeadlineSeconds, *pod.Spec.TerminationGracePeriodSeconds)
	}
	if requested := main.Resources.Requests.Memory(); requested.Cmp(resource.MustParse(launcher.DefaultMemory)) != 0 || len(main.Resources.Limits) != 3 {
		t.Errorf("it requests %v, and is limited to %v", requested, main.Resources.Limits)
	}
	if main.StartupProbe != nil || main.ReadinessProbe != nil || main.LivenessProbe != nil {
		t.Errorf("it has probes: %+v, %+v, %+v", main.StartupProbe, main.ReadinessProbe, main.LivenessProbe)
	}
	i := slices.IndexFunc(main.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == main.WorkingDir })
	if i < 0 || main.WorkingDir != "/workspace" {
		t.Fatalf("the workdir is %s, mounts are %v", main.WorkingDir, main.VolumeMounts)
	}
	v := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == main.VolumeMounts[i].Name })
	if v < 0 || pod.Spec.Volumes[v].EmptyDir == nil {
		t.Errorf("the workdir is on the volume %q of %v", main.VolumeMounts[i].Name, pod.Spec.Volumes)
	}
	if pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken || *pod.Spec.EnableServiceLinks {
		t.Error("it has a token or the addresses of services")
	}
}

func TestStalePodIsAnErrorOrRecreated(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := c.Spec("a")
	s := harness.Launch(t, k, spec)
	c.EndPod(t, s.PodName())
	harness.Await(t, "the pod's end", func() bool { return podOf(t, c, "a").Status.Phase == corev1.PodFailed })
	if _, err := s.Stat(t.Context(), "."); !errors.Is(err, launcher.ErrStale) {
		t.Errorf("a call to the open sandbox: %v", err)
	}
	_, err := k.Launch(t.Context(), spec)
	if pod, ok := errors.AsType[*launcher.PodError](err); !ok || !errors.Is(err, launcher.ErrStale) || pod.Reason != "DeadlineExceeded" {
		t.Errorf("Launch: %v", err)
	}
	if _, err := k.Open(t.Context(), "a"); !errors.Is(err, launcher.ErrStale) {
		t.Errorf("Open: %v", err)
	}
	if list, err := k.List(t.Context()); err != nil || len(list) != 1 || list[0].State != launcher.Ended {
		t.Errorf("List: %v, %v", list, err)
	}
	spec.Take.OnStale = launcher.StaleRecreate
	if s := harness.Launch(t, k, spec); !s.Created {
		t.Error("the pod that had ended was adopted")
	}
}

func TestDriftIsSaidOrAnError(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.Resources.Requests = corev1.ResourceList{"memory": resource.MustParse("1024Mi")}
	if s := harness.Launch(t, c.Launcher(), spec); len(s.Drift) > 0 {
		t.Errorf("a new pod drifted: %q", s.Drift)
	}
	spec.Pod.Resources.Requests = corev1.ResourceList{"memory": resource.MustParse("1Gi")} // the same amount
	if s := harness.Launch(t, c.Launcher(), spec); len(s.Drift) > 0 {
		t.Errorf("the same pod drifted: %q", s.Drift)
	}
	spec.Workdir, spec.Pod.Labels = "/elsewhere", map[string]string{"a": "b"}
	want := []string{`labels is unset, not {"a":"b"}`, `workdir is "/workspace", not "/elsewhere"`}
	if s := harness.Launch(t, c.Launcher(), spec); !cmp.Equal(s.Drift, want) {
		t.Errorf("drift: %s", cmp.Diff(want, s.Drift))
	}
	spec.Take.OnDrift = launcher.DriftError
	if _, err := c.Launcher().Launch(t.Context(), spec); !errors.Is(err, launcher.ErrDrift) || !strings.Contains(err.Error(), want[1]) {
		t.Errorf("Launch: %v", err)
	}
}

// A bad option is found before any request for the pod's name, its events or its
// deletion.
func TestBadOptionOfAPodFailsBeforeAnyAPICall(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	server.Config.ConnState = func(net.Conn, http.ConnState) { calls.Add(1) }
	identity, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	k := &launcher.Kubernetes{Config: &rest.Config{Host: server.URL}, Identity: &identity}
	for field, change := range map[string]func(*launcher.Spec){
		"Workdir":            func(s *launcher.Spec) { s.Workdir = "/" },
		"Env":                func(s *launcher.Spec) { s.Env = []string{"=x"} },
		"Git.URL":            func(s *launcher.Spec) { s.Git = &launcher.Git{} },
		"Git.Ref":            func(s *launcher.Spec) { s.Git = &launcher.Git{URL: "https://example.com/a", Ref: " "} },
		"Git.Timeout":        func(s *launcher.Spec) { s.Git = &launcher.Git{URL: "https://example.com/a", Timeout: -1} },
		"Pod.Image":          func(s *launcher.Spec) { s.Pod.Image = "a b" },
		"Pod.Labels":         func(s *launcher.Spec) { s.Pod.Labels = map[string]string{"a": "b/c"} },
		"Pod.Annotations":    func(s *launcher.Spec) { s.Pod.Annotations = map[string]string{podmeta.AnnotationKey: "x"} },
		"Pod.ServiceAccount": func(s *launcher.Spec) { s.Pod.ServiceAccount = "A" },
		"Pod.Profile":        func(s *launcher.Spec) { s.Pod.Profile = "privileged" },
		"Pod.ActiveDeadline": func(s *launcher.Spec) { s.Pod.ActiveDeadline = time.Millisecond },
		"Take.ReadyTimeout":  func(s *launcher.Spec) { s.Take.ReadyTimeout = -1 },
		"Take.Heartbeat":     func(s *launcher.Spec) { s.Take.Heartbeat = time.Microsecond },
		"Take.OnStale":       func(s *launcher.Spec) { s.Take.OnStale = "ignore" },
		"Take.OnDrift":       func(s *launcher.Spec) { s.Take.OnDrift = "ignore" },
		"Pod": func(s *launcher.Spec) {
			s.Pod.Annotations = map[string]string{"a": strings.Repeat("a", 127<<10)}
			s.Pod.Patch = []byte("metadata: {annotations: {b: " + strings.Repeat("b", 63<<10) + "}}")
		},
		"Pod.Workspace.Keep": func(s *launcher.Spec) {
			s.Pod.Workspace.Keep = true
			s.Env = []string{"A=" + strings.Repeat("a", 80<<10)}
			s.Pod.Annotations = map[string]string{"a": strings.Repeat("a", 100<<10)}
			s.Pod.Main = []string{strings.Repeat("a", 63<<10)}
		},
		"Pod.Resources": func(s *launcher.Spec) {
			s.Pod.Resources.Requests = corev1.ResourceList{"memory": resource.MustParse("-1")}
		},
	} {
		spec := launcher.Spec{ID: "a", Pod: launcher.Pod{Image: "image"}}
		change(&spec)
		_, err := k.Launch(t.Context(), spec)
		if bad, ok := errors.AsType[*launcher.SpecError](err); !ok || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if n := calls.Load(); n > 0 {
		t.Errorf("%d calls reached the API server", n)
	}
}

// A call that waits while another one talks to the API server still ends with its
// own context.
func TestCallsWaitForTheIdentityUntilTheirContextEnds(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case asked <- struct{}{}:
		default: // the key is not the only one that the identity may have
		}
		<-answer
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	k := &launcher.Kubernetes{Config: &rest.Config{Host: server.URL}, IdentitySecret: "identity"}
	first := make(chan error, 1)
	go func() {
		_, err := k.Open(t.Context(), "a")
		first <- err
	}()
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := k.Open(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "identity") {
		t.Errorf("the second: %v", err)
	}
	close(answer)
	if err := <-first; !errors.Is(err, launcher.ErrForbidden) {
		t.Errorf("the first: %v", err)
	}
}

// The named context of a kubeconfig is used, whichever is the current one.
func TestContextThatIsNamedIsUsed(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	path := c.WriteKubeconfig(t)
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	named := config.CurrentContext
	config.Clusters["away"] = &api.Cluster{Server: "https://127.0.0.1:1"}
	config.Contexts["away"] = &api.Context{Cluster: "away", AuthInfo: config.Contexts[named].AuthInfo, Namespace: "nowhere"}
	config.CurrentContext = "away"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	k := &launcher.Kubernetes{Kubeconfig: path, Context: named, Identity: &c.Identity}
	harness.Put(t, harness.Launch(t, k, c.Spec("a")), "file", "x")
	podOf(t, c, "a") // in the context's namespace
}
