package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	tunnel "k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// These are calls of Kubernetes' own clients in the same pod, with administrator
// rights.

// kubectl returns a call of kubectl.
func (p *pod) kubectl(b *testing.B, args ...string) func() error {
	b.Helper()
	program := kubectlProgram(b, p.c)
	return func() error {
		cmd := p.kubectlCommand(b.Context(), program, args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", cmd, err, out)
		}
		return nil
	}
}

func (p *pod) kubectlCommand(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, program, append([]string{"--kubeconfig", p.c.Kubeconfig, "--namespace", p.c.Namespace}, args...)...)
}

// kubectlProgram returns the cluster's kubectl, or the installed one.
func kubectlProgram(b *testing.B, c *launchertest.Cluster) string {
	b.Helper()
	program := filepath.Join(filepath.Dir(c.Kubeconfig), "bin", "kubectl")
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("kubectl"); err != nil {
			b.Fatalf("there is no kubectl in bin/ beside the kubeconfig, and %v", err)
		}
	}
	return program
}

// forwarding matches the output of kubectl port-forward.
var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+) -> `)

// forward makes kubectl forward a port, and returns the local address.
func (p *pod) forward(b *testing.B, port string) string {
	b.Helper()
	cmd := p.kubectlCommand(context.Background(), kubectlProgram(b, p.c), "port-forward", "pod/"+p.PodName(), ":"+port)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	match := forwarding.FindStringSubmatch(line)
	if err != nil || match == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		b.Fatalf("kubectl port-forward printed %q: %v\n%s", line, err, &failure)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return match[1]
}

// subresource returns the URL of a pod's subresource.
func subresource(b *testing.B, c *launchertest.Cluster, pod, name string, query *corev1.PodExecOptions) *url.URL {
	b.Helper()
	request := c.API(b).CoreV1().RESTClient().Post().Namespace(c.Namespace).Resource("pods").Name(pod).SubResource(name)
	if query != nil {
		request.VersionedParams(query, scheme.ParameterCodec)
	}
	return request.URL()
}

// exec returns a call of client-go's exec with its output to w.
func (p *pod) exec(b *testing.B, w io.Writer, command ...string) func() error {
	b.Helper()
	return execIn(b, p.c, p.PodName(), w, command...)
}

func execIn(b *testing.B, c *launchertest.Cluster, pod string, w io.Writer, command ...string) func() error {
	b.Helper()
	u := subresource(b, c, pod, "exec", &corev1.PodExecOptions{Command: command, Stdout: true, Stderr: true})
	return func() error {
		executor, err := remotecommand.NewWebSocketExecutor(c.Admin, http.MethodGet, u.String())
		if err != nil {
			return err
		}
		return executor.StreamWithContext(b.Context(), remotecommand.StreamOptions{Stdout: w, Stderr: io.Discard})
	}
}

// readByBase64 returns a call that reads a file as adapters with only exec do;
// writeByBase64 returns one that writes a file.
func (p *pod) readByBase64(b *testing.B, path string, size int) func() error {
	b.Helper()
	var out bytes.Buffer
	run := p.exec(b, &out, "base64", "-w0", path)
	return func() error {
		out.Reset()
		if err := run(); err != nil {
			return err
		}
		data, err := base64.StdEncoding.DecodeString(out.String())
		if err == nil && len(data) != size {
			err = fmt.Errorf("%d bytes came, not %d", len(data), size)
		}
		return err
	}
}

func (p *pod) writeByBase64(b *testing.B, path string, data []byte) func() error {
	b.Helper()
	return p.exec(b, io.Discard, "sh", "-c", "echo "+base64.StdEncoding.EncodeToString(data)+" | base64 -d > "+path)
}

// forwardRaw connects to testdata/echo through forwardStream.
func (p *pod) forwardRaw(b *testing.B, port int) *rawStream {
	b.Helper()
	return &rawStream{p.forwardStream(b, port), random(forwardBuffer)}
}

// forwardStream opens the stock client's port-forward, over WebSocket, which
// kubectl prefers. kubectl would copy its data stream to a local connection, which
// is left out here.
func (p *pod) forwardStream(b *testing.B, port int) io.ReadWriteCloser {
	b.Helper()
	dialer, err := tunnel.NewSPDYOverWebsocketDialerForStreaming(subresource(b, p.c, p.PodName(), "portforward", nil), p.c.Admin)
	if err != nil {
		b.Fatal(err)
	}
	conn, _, err := dialer.Dial(portforward.PortForwardV1Name)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := conn.CreateStream(headers)
	if err != nil {
		b.Fatal(err)
	}
	_ = failures.Close() // nothing is sent on it
	go func() {
		if text, _ := io.ReadAll(failures); len(text) > 0 {
			_ = conn.Close() // so that its user fails, too
			fmt.Fprintf(os.Stderr, "the stock port-forward ended: %s\n", text)
		}
	}()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	stream, err := conn.CreateStream(headers)
	if err != nil {
		b.Fatal(err)
	}
	return stream
}

// pausePod returns a pod of the cluster's pause image, without probes. In other
// respects it is like a sandbox's pod: it has an empty workspace and no service
// account token.
func pausePod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pause-"},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false),
			Volumes:                      []corev1.Volume{{Name: "workspace"}}, // an emptyDir
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(1000)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "pause", Image: "podagent.test/pause:1",
				VolumeMounts: []corev1.VolumeMount{{Name: "workspace", MountPath: "/workspace"}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// createPod creates a pod and returns when a watch has seen it Ready.
func createPod(ctx context.Context, pods corev1client.PodInterface, pod *corev1.Pod) (*corev1.Pod, error) {
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return pod, awaitPod(ctx, pods, pod, func(_ watch.EventType, now *corev1.Pod) bool {
		for _, condition := range now.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	})
}

// removePod deletes a pod and returns when it is gone.
func removePod(ctx context.Context, pods corev1client.PodInterface, pod *corev1.Pod) error {
	if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return awaitPod(ctx, pods, pod, func(event watch.EventType, _ *corev1.Pod) bool { return event == watch.Deleted })
}

// awaitPod watches a pod from the version that was read until a condition holds.
func awaitPod(ctx context.Context, pods corev1client.PodInterface, pod *corev1.Pod, until func(watch.EventType, *corev1.Pod) bool) error {
	ctx, cancel := context.WithTimeout(ctx, hung)
	defer cancel()
	w, err := pods.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", pod.Name).String(),
		ResourceVersion: pod.ResourceVersion,
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		now, ok := event.Object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("watching pod %s: %v", pod.Name, event.Object)
		}
		if until(event.Type, now) {
			return nil
		}
	}
	return fmt.Errorf("the watch of pod %s ended: %w", pod.Name, cmp.Or(context.Cause(ctx), io.EOF))
}
