package agentsandbox

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/test/contracts"
)

func TestWhoMayCallAndHowASandboxIsNamed(t *testing.T) {
	b := newBox(t)
	is := "/exists/%2E"
	b.steps([]step{
		{"GET", is, "", nil, 200, nil},
		{"GET", is, "", []string{"Authorization: Bearer a"}, 200, nil},
		{"GET", is, "", []string{"X-Sandbox-Port: ", "X-Sandbox-Namespace: "}, 200, nil},
		{"GET", is, "", []string{"X-Sandbox-Namespace: acme"}, 200, nil}, // the tenant's name, as elsewhere at the gateway
		{"GET", is, "", []string{"X-Sandbox-Pod-IP: 10.0.0.1", "X-Sandbox-Timeout: 12.5"}, 200, nil},
		{"GET", "/agent-sandbox/here/job-1/8888" + is, "", []string{"X-Sandbox-ID: "}, 200, nil},
		{"GET", "/agent-sandbox/here/job-1/8080/v1/files/%2E", "", []string{"X-Sandbox-ID: "}, 200, nil},

		{"GET", is, "", []string{"Authorization: "}, 401, []string{`{"detail":`}},
		{"GET", is, "", []string{"Authorization: Bearer x"}, 401, []string{`{"detail":`}},
		{"GET", is, "", []string{"Authorization: Basic x"}, 401, []string{`{"detail":`}},
		{"GET", "/v1/files/x", "", []string{"Authorization: "}, 401, []string{`{"code":"UNAUTHENTICATED"`}},
		{"GET", "/agent-sandbox/here/job-1/8888" + is, "", []string{"X-Sandbox-ID: ", "Authorization: "}, 401, []string{`{"detail":`}},
		{"GET", is, "", []string{"Origin: https://evil.test"}, 403, []string{`{"detail":`}}, // a browser adds the password that it knows
		{"GET", is, "", []string{"Sec-Fetch-Site: cross-site", "Authorization: Bearer a"}, 403, nil},

		{"GET", is, "", []string{"Authorization: Bearer b"}, 410, []string{`{"detail":`}},
		{"GET", is, "", []string{"Authorization: Bearer b", "X-Sandbox-Namespace: acme"}, 410, nil},
		{"GET", is, "", []string{"X-Sandbox-ID: job-2"}, 410, []string{`{"detail":`}},
		{"GET", is, "", []string{"X-Sandbox-ID: a--" + strings.Repeat("b", 50)}, 410, nil}, // a name of agent-sandbox's, though none of the gateway's
		{"HEAD", "/v1/files/x", "", []string{"X-Sandbox-ID: job-2"}, 410, nil},             // 404 would be that of a file
		{"GET", is, "", []string{"X-Sandbox-UID: other"}, 410, nil},
		{"GET", is, "", []string{"X-Sandbox-Namespace: elsewhere"}, 410, nil},

		{"GET", is, "", []string{"X-Sandbox-ID: Job_1"}, 400, []string{`Invalid sandbox ID format.`}},
		{"GET", is, "", []string{"X-Sandbox-ID: acme..job-1"}, 400, nil},
		{"GET", is, "", []string{"X-Sandbox-ID: " + strings.Repeat("a", 64)}, 400, nil},
		{"GET", is, "", []string{"X-Sandbox-Namespace: a.b"}, 400, []string{`Invalid namespace format.`}},
		{"GET", is, "", []string{"X-Sandbox-Port: 0"}, 400, []string{`Invalid port format.`}},
		{"GET", is, "", []string{"X-Sandbox-Port: 08888"}, 400, nil},
		{"GET", is, "", []string{"X-Sandbox-Port: 65536"}, 400, nil},
		{"GET", is, "", []string{"X-Sandbox-Timeout: never"}, 400, nil},
		{"GET", is, "", []string{"X-Sandbox-Timeout: NaN"}, 400, nil},
		{"GET", is, "", []string{"X-Sandbox-Timeout: -1"}, 400, nil},
		{"GET", "/agent-sandbox/here/job-1", "", []string{"X-Sandbox-ID: "}, 400, []string{`NAMESPACE/ID/PORT`}},
		{"GET", "/agent-sandbox/here/job-1/3000/", "", []string{"X-Sandbox-ID: "}, 404, nil}, // its page would be one of the gateway's host
		{"POST", "/execute", `{"command":"sleep 1000"}`, []string{"X-Sandbox-Timeout: 1e-12"}, 504, []string{`{"detail":`}},
		{"POST", "/execute", `{"command":"sleep 1000"}`, []string{"X-Sandbox-Timeout: 0.2"}, 504, []string{`{"detail":`}},
	})
	b.eventually("the end of the command whose time was over", func() bool {
		all, err := b.sandbox.Processes(t.Context())
		for _, p := range all {
			if p.Status == nil {
				return false
			}
		}
		return err == nil
	})
	if code, body := b.send("GET", "/healthz", ""); code != 200 || body != `{"status":"ok"}` {
		t.Errorf("the router's health: %d %s", code, body)
	}
	b.saw(contracts.Works, "health", "Open, Close")
	b.refusesCallsByGRPC()
}

// refusesCallsByGRPC shows who may not call by gRPC, and which sandbox.
func (b *box) refusesCallsByGRPC() {
	b.Helper()
	for what, s := range map[string]struct {
		pairs []string
		want  codes.Code
	}{
		"no key":          {[]string{"authorization", ""}, codes.Unauthenticated},
		"another tenant":  {[]string{"authorization", "Bearer b"}, codes.FailedPrecondition},
		"another sandbox": {[]string{"x-sandbox-id", "job-2"}, codes.FailedPrecondition},
	} {
		if err := b.unary(processes+"Execute", bytesField(1, config("true")), s.pairs...); status.Code(err) != s.want {
			b.Errorf("%s: %v", what, err)
		}
	}
}

// A server in the sandbox gets its requests without what is the router's, and no key.
func TestOtherPortsAreServersInTheSandbox(t *testing.T) {
	b := newBox(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
		}
		fmt.Fprintf(w, "%s %v", r.URL, r.Header)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	code, body := b.call("GET", "/v1/files/a%2Fb?x=y", "", "X-Sandbox-Port: "+port, "X-Request-ID: one", "X-Sandbox-Timeout: 10", "X-Sandbox-UID: ")
	if code != 200 || !strings.HasPrefix(body, "/v1/files/a%2Fb?x=y ") || !strings.Contains(body, "X-Request-Id:[one]") {
		t.Errorf("%d %s", code, body)
	}
	for _, header := range []string{"Authorization", "X-Sandbox"} {
		if strings.Contains(body, header) {
			t.Errorf("the server gets %s: %s", header, body)
		}
	}
	b.steps([]step{
		{"GET", "/hang", "", []string{"X-Sandbox-Port: " + port, "X-Sandbox-Timeout: 0.2"}, 504, []string{`{"detail":`}},
		{"GET", "/", "", []string{"X-Sandbox-Port: 1"}, 502, []string{`{"detail":"nothing listens at port 1 of the sandbox"}`}},
	})
	b.saw(contracts.Works, "a server in the sandbox")
}
