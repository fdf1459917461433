package podapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Nobody has to remember a new RPC: the table of calls has all of the contract, and
// TestALyingAgentGetsNoMoreThanAnError tells lies to all calls in the table.
func TestEveryRPCHasACallThatIsLiedTo(t *testing.T) {
	called := map[string]bool{}
	for name := range liarCalls {
		called[methodOf(name)] = true
	}
	contract := map[string]bool{}
	protoregistry.GlobalFiles.RangeFilesByPackage(pb.File_podapi_proto.Package(), func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				contract[fmt.Sprintf("%s/%s", service.Name(), service.Methods().Get(j).Name())] = true
			}
		}
		return true
	})
	if diff := cmp.Diff(contract, called); diff != "" {
		t.Errorf("the RPCs of the contract and those that are called (-contract +called):\n%s", diff)
	}
}

func TestRandomAnswersEndEveryCall(t *testing.T) {
	l := newLiar(t, func(name string) answer {
		var seed uint64
		if _, err := fmt.Sscanf(name[strings.Index(name, ":")+1:], "%d", &seed); err != nil {
			panic(err)
		}
		return randomAnswer(seed, methodOf(name))
	})
	c := liarClient(t, l.socket)
	var calls []string
	for name := range liarCalls {
		calls = append(calls, name)
	}
	slices.Sort(calls)
	const rounds = 4000
	begin := rand.Uint64() >> 1
	t.Logf("the seeds begin at %d", begin)
	dir := t.TempDir()
	var all sync.WaitGroup
	for worker := range uint64(4) {
		all.Go(func() {
			for i := worker; i < rounds; i += 4 {
				name := fmt.Sprintf("%s:%d", calls[(begin+i)%uint64(len(calls))], begin+i)
				ctx, cancel := context.WithTimeout(asLie(t.Context(), name), lieTimeout)
				_ = callOf(name)(ctx, c, filepath.Join(dir, fmt.Sprint(i)))
				if ctx.Err() != nil {
					t.Errorf("%s did not end by itself", name)
				}
				cancel()
			}
		})
	}
	all.Wait()
}

func TestATimeoutHoldsWithoutTheAgentToo(t *testing.T) {
	for name, test := range map[string]struct {
		answer answer
		resume time.Duration
	}{
		"Processes/Exec: never ends":          {answer: thenHang(started()), resume: -1},
		"Processes/Exec: never answers":       {answer: thenHang(), resume: -1},
		"Processes/Exec: goes on with output": {answer: endlessOutput, resume: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLiar(t, func(string) answer { return test.answer })
			cmd := liarClient(t, l.socket).Command(asLie(t.Context(), name), "true")
			cmd.ID, cmd.ResumeTimeout, cmd.Timeout = liarExecID, test.resume, 100*time.Millisecond
			cmd.Stdout = io.Discard
			begin := time.Now()
			err := cmd.Run()
			if !errors.Is(err, podapi.ErrUnavailable) {
				t.Errorf("the error is %v", err)
			}
			t.Logf("after %v: %v", time.Since(begin), err)
			if took := time.Since(begin); took < 10*time.Second || took > hung {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// thenHang is an answer of these messages, and nothing more.
func thenHang(messages ...proto.Message) answer {
	return func(ctx context.Context, send func([]byte) error) error {
		if err := once(messages...)(ctx, send); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// endlessOutput is that of a process which never ends.
func endlessOutput(ctx context.Context, send func([]byte) error) error {
	if err := send(encoded(started())); err != nil {
		return err
	}
	for n := int64(0); ; n++ {
		if err := send(encoded(stdout(n, 0, "x"))); err != nil {
			return err
		}
	}
}
