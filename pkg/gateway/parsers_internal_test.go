package gateway

import (
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/errclass"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// FuzzFirstMessage reads the first messages of calls of podapi: what observers see of them is bounded
// and readable, and what is no message is refused.
func FuzzFirstMessage(f *testing.F) {
	paths := slices.DeleteFunc(slices.Sorted(maps.Keys(podapiMethods)), func(path string) bool { return podapiMethods[path].read == nil })
	at := func(path string) uint8 { return uint8(slices.Index(paths, path)) }
	encoded := func(m proto.Message) []byte {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return data
	}
	f.Add(at(pb.Files_Grep_FullMethodName), encoded(&pb.GrepRequest{Paths: slices.Repeat([][]byte{[]byte("\xff\x1b")}, 1000)}))
	f.Add(at(pb.Processes_Exec_FullMethodName), encoded(&pb.ExecRequest{}))
	f.Add(at(pb.Git_Checkout_FullMethodName), encoded(&pb.CheckoutRequest{Url: []byte("https://a:b@c"), Ref: []byte(strings.Repeat("x", textLimit+1))}))
	for i := range paths {
		f.Add(uint8(i), []byte(nil))
		f.Add(uint8(i), []byte("\x0a\x05\x0a\x03a\xff\x00\x12\x02\x08\x01"))
		f.Add(uint8(i), []byte("\x0a\xff\xff\xff\xff\x0f"))
	}
	f.Fuzz(func(t *testing.T, method uint8, message []byte) {
		path := paths[int(method)%len(paths)]
		what, err := podapiMethods[path].read(message)
		if err != nil {
			if of, ok := errors.AsType[huma.StatusError](err); !ok || of.GetStatus() != http.StatusUnprocessableEntity {
				t.Errorf("%s %q: %v", path, message, err)
			}
			return
		}
		d := what.redacted()
		all := strings.Join(append(append(d.Args, d.Paths...), d.Method, d.ExecID), "")
		if !utf8.ValidString(all) || strings.ContainsFunc(all, isUnreadable) || len(all) > 4*detailLimit+8*textsLimit {
			t.Errorf("%s %q: observers see %q", path, message, all)
		}
	})
}

// FuzzAgentStatus ends calls with what a hostile agent may say: nothing of it seems to be the gateway's.
func FuzzAgentStatus(f *testing.F) {
	for _, s := range []*status.Status{
		status.New(codes.NotFound, "none"),
		withDetails(status.New(codes.Unavailable, strings.Repeat("é", statusTextLimit)),
			&errdetails.ErrorInfo{Reason: "no_sandbox", Domain: errclass.Domain}, &pb.Error{Class: pb.Class_CLASS_NOT_EXIST}, &errdetails.RetryInfo{}),
		withDetails(status.New(codes.Code(1000), "\x00"), &pb.Error{Class: 1000, Message: errclass.Domain}, &pb.Error{Class: pb.Class_CLASS_PATTERN}),
	} {
		data, err := proto.Marshal(s.Proto())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	g := New(Options{})
	f.Cleanup(func() { g.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		var p spb.Status
		if proto.Unmarshal(data, &p) != nil || p.Code == int32(codes.OK) {
			return
		}
		got := g.grpcStatus(t.Context(), status.ErrorProto(&p))
		for _, d := range got.Details() {
			if _, isError := d.(*pb.Error); !isError {
				t.Errorf("%v passes as %v", &p, d)
			}
		}
		if len(got.Details()) > 1 || got.Code() != codes.Code(p.Code) || len(got.Message()) > 3*statusTextLimit || !utf8.ValidString(got.Message()) {
			t.Errorf("%v becomes %v", &p, got)
		}
	})
}

// FuzzTokens checks that nobody but the gateway makes a link, and that what a service account's token
// claims is fit for a review.
func FuzzTokens(f *testing.F) {
	key := []byte(strings.Repeat("k", linkKeySize))
	to, of := &target{tenant: "acme", name: "job-1", port: 80}, launcher.Summary{ID: "acme.job-1"}
	link := newLink(key, to, of, time.Unix(2e9, 0))
	jwt := func(payload string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
	}
	f.Add(string(link), "job-1", 80)
	f.Add(string(link), "job-2", 80)
	f.Add(string(link)+"=", "job-1", 80)
	f.Add(string(link[:len(link)-1])+"_", "job-1", 80)
	f.Add(string(link)+"\n", "job-1/80", 0)
	f.Add(strings.Repeat("A", len(link)), "job-1", -1)
	f.Add(jwt(`{"sub":"system:serviceaccount:a:b","aud":["podagent-gateway"],"exp":1e300}`), "", 0)
	f.Add(jwt(`{"sub":"system:serviceaccount:a/b:c","aud":"podagent-gateway","exp":-1e300}`), "", 0)
	f.Add(jwt(`{"sub":"system:serviceaccount::","aud":"","exp":4000000000}`), "", 0)
	f.Add(jwt(`{"aud":[[]],"SUB":null}`), "", 0)
	f.Add("..", "", 0)
	accounts := &ServiceAccounts{}
	f.Fuzz(func(t *testing.T, token, name string, port int) {
		asked := &target{tenant: "acme", name: name, port: port}
		_, identity, ok := linkToken(token).parse([][]byte{[]byte(strings.Repeat("x", linkKeySize)), key}, asked)
		if ok != (token == string(link) && name == to.name && port == to.port) || ok && len(identity) != linkIdentity {
			t.Errorf("%q for %q at %d: %t %x", token, name, port, ok, identity)
		}
		c, ok := accounts.claimsOf(token)
		if !ok {
			return
		}
		namespace, account, _ := strings.Cut(c.account(), "/")
		if c.Subject != accountPrefix+namespace+":"+account || len(c.Audience) != 1 || c.Audience[0] != DefaultAudience || !c.expires().After(time.Now()) {
			t.Errorf("%q claims %+v", token, c)
		}
	})
}
