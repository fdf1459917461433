// Command host opens many sandboxes and keeps them open. Benchmarks measure it from outside.
//
// Each line of its input is a request, which it answers with a line. "open" launches the
// sandboxes and runs a command in each; the answer is how long that took. "writes" is how
// many requests have changed something in the API server. "profile NAME" writes what it holds
// into the files NAME.heap and NAME.goroutines; the answer is a summary. It ends with its
// input, and leaves the pods.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podagent/podagent/pkg/launcher"
)

// atOnce is how many sandboxes are opened at once.
const atOnce = 64

var (
	kubeconfig = flag.String("kubeconfig", "", "path of the orchestrator's kubeconfig")
	namespace  = flag.String("namespace", "", "the sandboxes' namespace")
	identity   = flag.String("identity", "", "path of the identity")
	image      = flag.String("image", "", "the sandboxes' image")
	node       = flag.String("node", "", "the sandboxes' node")
	count      = flag.Int("count", 1, "number of sandboxes")
)

func main() {
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	h := &host{sandboxes: make([]*launcher.Sandbox, *count)}
	config.Wrap(h.counting)
	h.launcher = &launcher.Kubernetes{Config: config, Namespace: *namespace, IdentityFile: *identity}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := h.do(context.Background(), lines.Text())
		if err != nil {
			answer = "error: " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(answer)
	}
}

type host struct {
	launcher  *launcher.Kubernetes
	sandboxes []*launcher.Sandbox
	writes    atomic.Int64
}

func (h *host) do(ctx context.Context, request string) (string, error) {
	request, argument, _ := strings.Cut(request, " ")
	switch request {
	case "open":
		begun := time.Now()
		err := h.open(ctx)
		return time.Since(begun).String(), err
	case "writes":
		return fmt.Sprint(h.writes.Load()), nil
	case "profile":
		return memory(), errors.Join(profile("heap", argument+".heap"), profile("goroutine", argument+".goroutines"))
	}
	return "", fmt.Errorf("there is no request %q", request)
}

func (h *host) open(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range h.sandboxes {
		group.Go(func() (err error) {
			h.sandboxes[i], err = h.launch(ctx, fmt.Sprint("host-", i))
			return err
		})
	}
	return group.Wait()
}

// launch launches a sandbox on the node, past the scheduler, and runs a command.
func (h *host) launch(ctx context.Context, id string) (*launcher.Sandbox, error) {
	s, err := h.launcher.Launch(ctx, launcher.Spec{ID: id, Pod: launcher.Pod{
		Image: *image, Patch: []byte("spec: {nodeName: " + *node + "}"),
	}})
	if err != nil {
		return nil, err
	}
	return s, s.Command(ctx, "true").Run()
}

// counting counts the requests that change something.
func (h *host) counting(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			h.writes.Add(1)
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// memory says what the runtime uses memory for.
func memory() string {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return fmt.Sprintf("heap: %d KiB of objects in %d KiB, stacks: %d KiB of %d goroutines, everything: %d KiB, given back: %d KiB",
		m.HeapAlloc>>10, m.HeapInuse>>10, m.StackInuse>>10, runtime.NumGoroutine(), m.Sys>>10, m.HeapReleased>>10)
}

func profile(name, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(name).WriteTo(file, 0), file.Close())
}
