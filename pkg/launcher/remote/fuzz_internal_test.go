package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/errclass"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// answers stand for a gateway that answers each request in the same way.
type answers struct {
	status      int
	kind, retry string
	body        []byte
	requests    int
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.requests++
	return &http.Response{
		StatusCode: a.status, Header: http.Header{"Content-Type": {a.kind}, "Retry-After": {a.retry}},
		Body: io.NopCloser(bytes.NewReader(a.body)), Request: r,
	}, nil
}

// FuzzAnswers has a gateway answer whatever it likes, for as long as it is asked. The clock is a fake one.
func FuzzAnswers(f *testing.F) {
	const one = `{"id":"job-1","state":"running","workdir":"/w","created_at":"2030-01-01T00:00:00Z","labels":{"a":"b"},"expires_at":"2030-01-01T00:00:00Z"}`
	const problems = "application/problem+json"
	f.Add(200, "application/json", "", []byte(one))
	f.Add(201, "application/json; charset=x", "", []byte(strings.Replace(one, "job-1", "job-2", 1)))
	f.Add(200, "application/json", "", []byte(`{"sandboxes":[`+one+`,{"id":"a"}],"next":"job-2"}`))
	f.Add(200, "application/json", "", []byte(`{"sandboxes":[{"id":"../x\u0000","state":5}],"next":"\u0000"}`))
	f.Add(200, "application/json", "", []byte(`{"sandboxes":[`+strings.Repeat(`{"id":"a"},`, pageLimit)+`{"id":"a"}]}`))
	f.Add(200, "application/json", "", []byte(`{"sandboxes":null,"next":"a","expires_at":"9999-12-31T23:59:60Z"}`))
	f.Add(204, "", "", []byte(nil))
	f.Add(302, "text/html", "1", []byte(`<html>`))
	f.Add(401, problems, "", []byte(`{"class":"unauthenticated","detail":"no"}`))
	f.Add(404, problems, "", []byte(`{"class":"no_sandbox","detail":"sandbox \"job-1\": no such sandbox"}`))
	f.Add(422, problems, "", []byte(`{"class":"invalid","detail":"x","errors":[{"location":"body.cpu","message":"cpu must"}]}`))
	f.Add(422, problems, "", []byte(`{"class":"invalid","detail":"invalid sandbox spec: Pod.Image is"}`))
	f.Add(422, problems, "", []byte(`{"class":"git","detail":"`+strings.Repeat("\xff ", detailLimit)+`"}`))
	f.Add(429, problems, "0", []byte(`{"class":"rate","detail":"wait","until":"2030-01-01T00:00:00Z"}`))
	f.Add(503, problems, "99999999999", []byte(`{"class":"not_ready","detail":"wait"}`))
	f.Add(503, problems, "-1", []byte(`{"class":"`+strings.Repeat(`x`, 1<<16)+`"}`))
	f.Add(504, problems, "1", []byte(`{"class":"deadline\u001b[2J","detail":"wait"}`))
	f.Fuzz(func(t *testing.T, status int, kind, retry string, body []byte) {
		if status < 200 || status > 999 {
			return // net/http itself refuses it
		}
		synctest.Test(t, func(t *testing.T) {
			a := &answers{status: status, kind: kind, retry: retry, body: body}
			l := &Launcher{URL: "http://127.0.0.1:1", Token: "t"}
			if err := l.ready(); err != nil {
				t.Fatal(err)
			}
			l.http.Transport = a
			for name, do := range callsOf(t, l) {
				began := time.Now()
				a.requests = 0
				checkError(t, name, do(t.Context()), status)
				if took := time.Since(began); took > endTime || a.requests > int(endTime/firstPause) {
					t.Errorf("%s takes %v and %d requests", name, took, a.requests)
				}
			}
		})
	})
}

// callsOf returns calls that check what a gateway says that succeeds.
func callsOf(t *testing.T, l *Launcher) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"find": func(ctx context.Context) error {
			s, err := l.Find(ctx, "job-1")
			if err == nil {
				checkSummary(t, s)
				if s.ID != "job-1" {
					t.Errorf("the sandbox is %+v", s)
				}
			}
			return err
		},
		"list": func(ctx context.Context) error {
			all, err := l.List(ctx)
			for _, s := range all {
				checkSummary(t, s)
			}
			if len(all) > 2*pageLimit {
				t.Errorf("a page comes %d times", len(all)/pageLimit)
			}
			return err
		},
		"extend": func(ctx context.Context) error {
			_, err := l.Extend(ctx, "job-1", time.Hour)
			return err
		},
		"create": func(ctx context.Context) error {
			_, err := l.call(ctx, quickTime, http.MethodPost, root, &create{ID: "job-1"}, &sandbox{})
			return gitError(specError(err), &launcher.Git{URL: "https://git.test/a"})
		},
		"terminate": func(ctx context.Context) error { return l.Terminate(ctx, "job-1") },
		"pause":     func(ctx context.Context) error { return l.Pause(ctx, "job-1") },
	}
}

func checkSummary(t *testing.T, s launcher.Summary) {
	t.Helper()
	if _, err := json.Marshal(s.State); err != nil || !isName(s.ID) || s.State == "" {
		t.Errorf("%+v is no sandbox", s)
	}
}

// checkError checks the error of a call whose requests were answered with a status.
func checkError(t *testing.T, name string, err error, status int) {
	t.Helper()
	if err == nil {
		if status/100 != 2 && name != "terminate" { // which is content if there is no sandbox
			t.Errorf("%s: %d is a success", name, status)
		}
		return
	}
	if text := err.Error(); len(text) > 3*detailLimit || !utf8.ValidString(text) {
		t.Errorf("%s: the error has %d bytes: %.100q", name, len(text), text)
	}
	if errors.As(err, new(*launcher.SpecError)) || errors.As(err, new(*launcher.GitError)) {
		return
	}
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok:
		t.Errorf("%s: %T %v is no *Error", name, err, err)
	case e.Class == "" && !errors.Is(err, podapi.ErrProtocol) && !errors.Is(err, podapi.ErrUnavailable) && !errors.Is(err, podapi.ErrUnauthenticated):
		t.Errorf("%s: %#v is of no class", name, e)
	case e.Class != "" && (!classExp.MatchString(e.Class) || !errors.Is(err, e) || causeOf(e.Class, e.Status) != nil && e.cause == nil):
		t.Errorf("%s: %#v is of another class", name, e)
	}
}

// FuzzStatuses ends calls in a sandbox with any status. What is not the gateway's stays as it is.
func FuzzStatuses(f *testing.F) {
	for _, details := range [][]protoadapt.MessageV1{
		nil,
		{&errdetails.ErrorInfo{Reason: "no_sandbox", Domain: errclass.Domain, Metadata: map[string]string{"until": "2030-01-01T00:00:00Z"}}},
		{&errdetails.ErrorInfo{Reason: "x\x00", Domain: errclass.Domain, Metadata: map[string]string{"until": "9"}}, &errdetails.RetryInfo{}},
		{&errdetails.ErrorInfo{Reason: "not_ready", Domain: errclass.Domain}, &errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: -1 << 63, Nanos: 1<<31 - 1}}},
		{&errdetails.ErrorInfo{Reason: "rate", Domain: errclass.Domain}, &pb.Error{Class: 1000, Message: "\x00"}, &pb.Error{Class: pb.Class_CLASS_PATTERN}},
		{&errdetails.ErrorInfo{Reason: "no_sandbox", Domain: "other"}},
	} {
		p := status.Convert(statusOf(f, codes.Unavailable, details...)).Proto()
		data, _ := proto.Marshal(p)
		f.Add(uint32(codes.Unavailable), data)
		f.Add(uint32(codes.NotFound), data)
		f.Add(uint32(1000), data)
	}
	f.Fuzz(func(t *testing.T, code uint32, data []byte) {
		var p spb.Status
		if proto.Unmarshal(data, &p) != nil {
			return
		}
		p.Code = int32(code)
		err := status.ErrorProto(&p)
		got := fromStatus(err)
		e, ours := got.(*Error)
		switch {
		case !ours && got != err:
			t.Errorf("%v becomes %T %v", err, got, got)
		case !bytes.Contains(data, []byte(errclass.Domain)) && ours:
			t.Errorf("%v becomes the gateway's: %#v", err, e)
		case ours && (!classExp.MatchString(e.Class) || len(e.Error()) > 3*detailLimit || !utf8.ValidString(e.Error())):
			t.Errorf("%v becomes %#v", err, e)
		case ours && code == uint32(codes.Unavailable) && !errors.Is(e, podapi.ErrUnavailable):
			t.Errorf("%v is not unavailable", e)
		}
	})
}

// A gateway whose pages have nothing, or never end, is not asked for ever.
func TestPagesThatHaveNothingEnd(t *testing.T) {
	next := ""
	l := &Launcher{URL: "http://127.0.0.1:1", Token: "t"}
	if err := l.ready(); err != nil {
		t.Fatal(err)
	}
	l.http.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		next += "a"
		a := &answers{status: http.StatusOK, kind: "application/json", body: []byte(`{"sandboxes":[],"next":"` + next + `"}`)}
		return a.RoundTrip(r)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := l.List(ctx); !errors.Is(err, podapi.ErrProtocol) || len(next) > 1 {
		t.Errorf("after %d pages: %v", len(next), err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return f(r)
}
