package e2e

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// The peers that benchmarks compare sandboxes with, all of them with an
// administrator's rights: what Kubernetes' own client does in the same pod.

// subresource returns the URL of a pod's subresource.
func subresource(b *testing.B, c *launchertest.Cluster, pod, name string, query *corev1.PodExecOptions) *url.URL {
	b.Helper()
	request := c.API(b).CoreV1().RESTClient().Post().Namespace(c.Namespace).Resource("pods").Name(pod).SubResource(name)
	if query != nil {
		request.VersionedParams(query, scheme.ParameterCodec)
	}
	return request.URL()
}

// clientGoExec returns a call of client-go's exec that runs a command.
func clientGoExec(b *testing.B, c *launchertest.Cluster, pod *corev1.Pod, command ...string) func() error {
	b.Helper()
	u := subresource(b, c, pod.Name, "exec", &corev1.PodExecOptions{Command: command, Stdout: true, Stderr: true})
	return func() error {
		executor, err := remotecommand.NewWebSocketExecutor(c.Admin, http.MethodGet, u.String())
		if err != nil {
			return err
		}
		return executor.StreamWithContext(b.Context(), remotecommand.StreamOptions{Stdout: io.Discard, Stderr: io.Discard})
	}
}

// startEcho runs testdata/echo in the sandbox, with an address where it is to
// listen if not on the loopback, and returns its port.
func startEcho(b *testing.B, s *launcher.Sandbox, address ...string) int {
	b.Helper()
	program := filepath.Join(b.TempDir(), "echo")
	build := exec.Command("go", "build", "-o", program, "./testdata/echo")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %v\n%s", build, err, out)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.WriteFile(b.Context(), "echo", data, fsops.WriteOptions{Perm: 0o755}); err != nil {
		b.Fatal(err)
	}
	cmd := s.Command(b.Context(), "./echo", address...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	port, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		b.Fatal(err)
	}
	return port
}

// stockForward opens the stock client's port-forward, by WebSocket as kubectl
// prefers it, and returns its data stream. It is what kubectl joins to a local
// connection, which is left out here.
func stockForward(b *testing.B, c *launchertest.Cluster, pod *corev1.Pod, port int) io.ReadWriter {
	b.Helper()
	dialer, err := tunnel.NewSPDYOverWebsocketDialerForStreaming(subresource(b, c, pod.Name, "portforward", nil), c.Admin)
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
			b.Errorf("the stock port-forward failed: %s", text)
			_ = conn.Close()
		}
	}()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	stream, err := conn.CreateStream(headers)
	if err != nil {
		b.Fatal(err)
	}
	return stream
}

// rawStream is a connection to testdata/echo, mostly a port-forward of the stock
// client.
type rawStream struct {
	io.ReadWriter
	buf []byte
}

// forwardBuffer is the size of the buffer by which kubectl copies: io.Copy's.
const forwardBuffer = 32 << 10

func newRawStream(b *testing.B, c *launchertest.Cluster, pod *corev1.Pod, port int) *rawStream {
	b.Helper()
	return &rawStream{stockForward(b, c, pod, port), make([]byte, forwardBuffer)}
}

func (s *rawStream) request(kind byte, size int64) error {
	_, err := s.Write(binary.BigEndian.AppendUint64([]byte{kind}, uint64(size)))
	return err
}

// echo sends what the buffer has first, and waits for it.
func (s *rawStream) echo(size int) error {
	if _, err := s.Write(s.buf[:size]); err != nil {
		return err
	}
	_, err := io.ReadFull(s, s.buf[:size])
	return err
}

// send sends so many bytes, and waits until the program has them.
func (s *rawStream) send(size int64) error {
	if err := s.request('w', size); err != nil {
		return err
	}
	for n := int64(0); n < size; {
		k, err := s.Write(s.buf[:min(int64(len(s.buf)), size-n)])
		if err != nil {
			return err
		}
		n += int64(k)
	}
	_, err := io.ReadFull(s, s.buf[:1])
	return err
}

// receive has the program send so many bytes.
func (s *rawStream) receive(size int64) error {
	if err := s.request('r', size); err != nil {
		return err
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(s, size), s.buf)
	return err
}

// pausePod returns a pod of the cluster's pause image, without probes: otherwise
// as any pod is, with the volume of its account's token. (A pod without any
// volume starts faster on every cluster, but none has a workspace then.)
func pausePod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pause-"},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(1000)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "pause", Image: "podagent.test/pause:1",
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// createPause creates a pause pod and returns when a watch has seen it Ready.
func createPause(ctx context.Context, pods corev1client.PodInterface) (*corev1.Pod, error) {
	pod, err := pods.Create(ctx, pausePod(), metav1.CreateOptions{})
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

// awaitPod watches what happens to a pod after it was read.
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
	return fmt.Errorf("the watch of pod %s ended: %w", pod.Name, context.Cause(ctx))
}
