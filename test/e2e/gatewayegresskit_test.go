package e2e

// A site of this machine, downloads from it, and what gateways do meanwhile.

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// largeDownload is the size of a download that something befalls, in bytes.
const largeDownload = 256 << 20

// webSite greets, and at /large has a large body, in the middle of which it waits if it is told to.
type webSite struct {
	address netip.AddrPort
	sum     string // of the body

	mu   sync.Mutex
	half func(caller string)
}

// newWebSite serves at an address of this machine until the test ends.
func newWebSite(t *testing.T, address string) *webSite {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &webSite{address: l.Addr().(*net.TCPAddr).AddrPort()}
	s.sum, _ = harness.SHA(t, harness.Pattern(largeDownload, 1))
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: s}}
	server.Start()
	t.Cleanup(server.Close)
	return s
}

// rule lets a name lead to the site.
func (s *webSite) rule(name string) string {
	return fmt.Sprintf("%s.test=%s:%d", name, s.address.Addr(), s.address.Port())
}

// get is a script that asks the proxy for a page, and has its answer as descriptor 3.
func (s *webSite) get(name, path string) string {
	return fmt.Sprintf(`address=${HTTP_PROXY#http://}; exec 3<>/dev/tcp/${address%%%%:*}/${address#*:} &&
		printf 'GET http://%s.test:%d%s HTTP/1.0\r\n\r\n' >&3`, name, s.address.Port(), path)
}

func (s *webSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/large" {
		fmt.Fprintln(w, "hello")
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(largeDownload))
	body := harness.Pattern(largeDownload, 1)
	if _, err := io.CopyN(w, body, largeDownload/2); err != nil {
		return // the caller sees it
	}
	s.mu.Lock()
	half := s.half
	s.half = nil
	s.mu.Unlock()
	if half != nil {
		caller, _, _ := net.SplitHostPort(r.RemoteAddr)
		half(caller)
	}
	_, _ = io.Copy(w, body)
}

// hold has the next body wait in its middle. It returns what has the caller's address by then, and what
// lets the body go on.
func (s *webSite) hold() (caller <-chan string, goOn func()) {
	reached, on := make(chan string, 1), make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.half = func(caller string) {
		reached <- caller
		<-on
	}
	return reached, func() { close(on) }
}

// podDownload is a download by a program in a pod.
type podDownload struct {
	done chan struct{}
	sum  string // of what came
	err  error  // of the program
}

// download begins a download. Its program fails if the status is not 200, and prints the answer.
func (w *chartsWayOut) download(name string) *podDownload {
	w.Helper()
	cmd := w.sandbox.Command(w.Context(), "bash", "-c", w.site.get(name, "/large")+` &&
		{ read -r version status reason && [ "$status" = 200 ]; } <&3 || { echo "$status $reason" >&2; cat <&3 >&2; exit 1; }
		while read -r line <&3 && [ "$line" != $'\r' ]; do echo "$line" >&2; done && sha256sum <&3`)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	d := &podDownload{done: make(chan struct{})}
	go func() {
		defer close(d.done)
		if d.err = cmd.Run(); d.err != nil {
			d.err = fmt.Errorf("%w: %s", d.err, &errs)
		}
		d.sum, _, _ = strings.Cut(out.String(), " ")
	}()
	return d
}

// end waits for the end.
func (d *podDownload) end() (sum string, err error) {
	<-d.done
	return d.sum, d.err
}

// reaches waits until the middle is reached, and returns who is the caller.
func (d *podDownload) reaches(t *testing.T, half <-chan string) (caller string) {
	t.Helper()
	select {
	case caller = <-half:
	case <-d.done:
		t.Fatalf("the download ends early: %q, %v", d.sum, d.err)
	case <-time.After(harness.Hung):
		t.Fatal("the download does not begin")
	}
	return caller
}

// cutToAgents ends the connections of a gateway to agents.
func (w *chartsWayOut) cutToAgents(pod corev1.Pod) {
	w.Helper()
	pid := w.processOf(pod.Name)
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		w.Fatal(err)
	}
	defer unix.Close(process)
	open, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	if err != nil {
		w.Fatal(err)
	}
	cut := 0
	for _, entry := range open {
		number, err := strconv.Atoi(entry.Name())
		if err != nil {
			w.Fatal(err)
		}
		if socket, err := unix.PidfdGetfd(process, number, 0); err == nil { // else it was closed meanwhile
			if portOfPeer(socket) == agentPort && unix.Shutdown(socket, unix.SHUT_RDWR) == nil {
				cut++
			}
			unix.Close(socket)
		}
	}
	if cut == 0 {
		w.Error("the gateway is connected to no agent")
	}
}

// portOfPeer returns the port to which a socket is connected; 0 if it is not.
func portOfPeer(socket int) int {
	switch peer, _ := unix.Getpeername(socket); peer := peer.(type) {
	case *unix.SockaddrInet4:
		return peer.Port
	case *unix.SockaddrInet6:
		return peer.Port
	}
	return 0
}

// count checks the metrics of the ways out, while a download is under way and after it.
func (w *chartsWayOut) count() {
	w.Helper()
	gateway, goOn := w.site.hold()
	d := w.download("large-metrics")
	d.reaches(w.T, gateway)
	during := w.scrape()
	goOn()
	if sum, err := d.end(); err != nil || sum != w.site.sum {
		w.Errorf("a download ends by %q, %v", sum, err)
	}
	for series, want := range map[string]float64{
		`connections`: 1, `tries_total{protocol="http",verdict="allowed"}`: 2, `tries_total{protocol="http",verdict="denied"}`: 1,
	} {
		if during[series] != want {
			w.Errorf("%s is %v, want %v", series, during[series], want)
		}
	}
	if during["sandboxes"] < 1 {
		w.Errorf("%v sandboxes are let out", during["sandboxes"])
	}
	harness.Await(w.T, "the end of the connection in the metrics", func() bool {
		after := w.scrape()
		return after["connections"] == 0 && after["sent_bytes_total"] > largeDownload && after["received_bytes_total"] > 0
	})
}

// scrape returns the metrics of the way out, of all gateways together.
func (w *chartsWayOut) scrape() map[string]float64 {
	w.Helper()
	all := map[string]float64{}
	for _, pod := range w.pods() {
		r, err := http.Get("http://" + net.JoinHostPort(pod.Status.PodIP, "8081") + "/metrics")
		if err != nil {
			w.Fatal(err)
		}
		defer r.Body.Close()
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			series, value, _ := strings.Cut(lines.Text(), " ")
			if series, ok := strings.CutPrefix(series, "podagent_gateway_egress_"); ok {
				n, err := strconv.ParseFloat(value, 64)
				if err != nil {
					w.Fatal(err)
				}
				all[series] += n
			}
		}
	}
	return all
}
