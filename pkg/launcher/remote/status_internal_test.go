package remote

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/errclass"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

func TestStatusOfAGatewayIsTheErrorOfItsClass(t *testing.T) {
	for name, test := range map[string]struct {
		code  codes.Code
		class string
		want  []error
	}{
		"a sandbox that is not there": {codes.NotFound, "no_sandbox", []error{launcher.ErrNotFound}},
		"one that starts":             {codes.Unavailable, "not_ready", []error{launcher.ErrNotReady, podapi.ErrUnavailable}},
		"one that is paused":          {codes.FailedPrecondition, "paused", []error{launcher.ErrPaused}},
		"a token":                     {codes.Unauthenticated, "unauthenticated", []error{podapi.ErrUnauthenticated}},
	} {
		t.Run(name, func(t *testing.T) {
			until := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
			err := fromStatus(statusOf(t, test.code,
				&errdetails.ErrorInfo{Reason: test.class, Domain: errclass.Domain, Metadata: map[string]string{"until": until.Format(time.RFC3339)}},
				&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}))
			e, ok := err.(*Error)
			if !ok || e.Class != test.class || e.retry != time.Second || !e.Until.Equal(until) {
				t.Fatalf("%#v", err)
			}
			for _, want := range test.want {
				if !errors.Is(err, want) {
					t.Errorf("%v is not %v", err, want)
				}
			}
		})
	}
}

// What an agent says is not the gateway's, whatever it says.
func TestStatusOfAnAgentStaysAsItIs(t *testing.T) {
	for _, detail := range []protoadapt.MessageV1{
		&pb.Error{Class: pb.Class_CLASS_NOT_EXIST}, &errdetails.ErrorInfo{Reason: "no_sandbox", Domain: "other"},
	} {
		err := statusOf(t, codes.NotFound, detail)
		if got := fromStatus(err); got != err {
			t.Errorf("%#v", got)
		}
	}
	if err := fromStatus(fs.ErrNotExist); err != fs.ErrNotExist {
		t.Error(err)
	}
}

func statusOf(t testing.TB, code codes.Code, details ...protoadapt.MessageV1) error {
	t.Helper()
	s, err := status.New(code, "text").WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}
