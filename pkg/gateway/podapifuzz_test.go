package gateway_test

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// FuzzPodapi calls podapi with frames and metadata that are nearly right, beside another tenant's
// sandbox. A local sandbox isolates nothing, so no call gets through that changes anything: the
// method is one that only reads, or none, and the paths are of the sandbox.
func FuzzPodapi(f *testing.F) {
	p := newPodapiProbe(f)
	p.addCalls(f)
	f.Fuzz(func(t *testing.T, path, sandbox, authorization, name, value string, body []byte) {
		r := p.callOf(t, path, body)
		r.Header.Set("Podagent-Sandbox", sandbox)
		r.Header.Set("Authorization", authorization)
		r.Header.Add(name, value)
		code, told, answered := p.answer(t, r)
		fail := func(what string) { t.Errorf("%s %v %q: %s", path, r.Header, body, what) }
		if said := p.said.String(); said != "" {
			fail(said)
		}
		if strings.Contains(told, p.mark) && !strings.Contains(path+sandbox+value+string(body), p.mark) {
			fail("it has another's: " + told)
		}
		if answered && (code < 0 || code > 16 || code == 2 || code == 13) {
			fail("the code should not be: " + strconv.Itoa(code))
		}
		if answered && code == 0 && (sandbox != "job-1" || authorization == "") {
			fail("it is answered")
		}
	})
}

// podapiProbe is a probe that is called over HTTP/2.
type podapiProbe struct {
	*probe
	url    string
	said   *panics
	client *http.Transport
}

func newPodapiProbe(f *testing.F) *podapiProbe {
	p := &podapiProbe{probe: newProbe(f), said: &panics{}}
	front := httptest.NewUnstartedServer(p.gateway)
	front.Config.ErrorLog = log.New(p.said, "", 0)
	front.Config.Protocols = &http.Protocols{}
	front.Config.Protocols.SetUnencryptedHTTP2(true)
	front.Start()
	f.Cleanup(front.Close)
	p.url, p.client = front.URL, &http.Transport{Protocols: front.Config.Protocols}
	f.Cleanup(p.client.CloseIdleConnections)
	return p
}

// addCalls adds calls to begin with.
func (p *podapiProbe) addCalls(f *testing.F) {
	stat, _ := proto.Marshal(&pb.StatRequest{Path: []byte("f/x")})
	frame := func(message []byte) []byte { return append([]byte{0, 0, 0, 0, byte(len(message))}, message...) }
	f.Add("/podapi.v1.Files/Stat", "job-1", "Bearer a", "Te", "trailers", frame(stat))
	f.Add("/podapi.v1.Files/Stat", p.mark, "Bearer a", "Grpc-Timeout", "1H", frame(stat))
	f.Add("/podapi.v1.Files/List", "other.job-1", "bearer  a", "Grpc-Timeout", "99999999999S", frame(nil))
	f.Add("/podapi.v1.Processes/List", "job-1", "Bearer a", "Grpc-Encoding", "gzip", []byte{1, 0, 0, 0, 0})
	f.Add("/podapi.v1.Agent/Info", "job-1", "Bearer a", "Podagent-Sandbox", p.mark, append(frame(nil), frame(stat)...))
	f.Add("/podapi.v1.Agent/Configure", "job-1", "Bearer a", "Grpc-Status-Details-Bin", "AA", frame(nil))
	f.Add("/grpc.health.v1.Health/Check", "job-1", "Basic a", "Content-Type", "application/grpc-web", frame([]byte("\x0a\x01x")))
	f.Add("/podapi.v1.Files/%53tat", "..", "", "X-Sandbox-Token", "a", []byte{0, 255, 255, 255, 255})
	f.Add("//podapi.v1.Files/../Stat", "job-1\x80", "Bearer a", "Grpc-Timeout", "n", []byte{0, 0, 0, 0, 9, 1})
	f.Add("/podapi.v1.Git/Checkout", "job-1", "Bearer x", "Content-Type", "application/grpc+json", []byte(nil))
}

// callOf returns a call of a method, or of none if it might change something.
func (p *podapiProbe) callOf(t *testing.T, path string, body []byte) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Path = path
	if !harmlessMethods[path] && path != "" {
		r.URL.Path = strings.Replace(path, "podapi.v1.", "podapi.v2.", 1)
	}
	r.Header.Set("Content-Type", "application/grpc")
	return r
}

// answer returns the code that a request is answered with, -1 for none that is a number, and what is told
// beside it. Nothing is answered that is no request, or none of gRPC.
func (p *podapiProbe) answer(t *testing.T, r *http.Request) (code int, told string, answered bool) {
	t.Helper()
	hang := time.AfterFunc(hungCall, func() { panic("a call hangs") })
	defer hang.Stop()
	answer, err := p.client.RoundTrip(r)
	if err != nil {
		return 0, "", false
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	told = string(text) + answer.Trailer.Get("Grpc-Message")
	if code, err = strconv.Atoi(answer.Trailer.Get("Grpc-Status")); err != nil {
		code = -1
	}
	return code, told, answer.Header.Get("Content-Type") == "application/grpc"
}

// harmlessMethods are those that change nothing, and end.
var harmlessMethods = map[string]bool{
	"/podapi.v1.Agent/Info": true, "/podapi.v1.Agent/Stats": true, "/podapi.v1.Agent/Configure": true, "/grpc.health.v1.Health/Check": true,
	"/podapi.v1.Files/Stat": true, "/podapi.v1.Processes/List": true,
}
