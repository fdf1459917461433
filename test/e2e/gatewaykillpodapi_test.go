package e2e

// What callers of podapi do while replicas of a gateway are killed.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/remote"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// open opens the worker's sandbox by podapi.
func (w *killWorker) open(ctx context.Context) (*launcher.Sandbox, error) {
	l := &remote.Launcher{URL: w.url, Token: gatewayToken}
	return untilAnswered(func() (*launcher.Sandbox, error) { return l.Open(ctx, w.sandbox) })
}

// untilAnswered calls again as long as it is not known what became of the last call.
func untilAnswered[T any](call func() (T, error)) (T, error) {
	for deadline := time.Now().Add(harness.Hung); ; {
		got, err := call()
		unknown := errors.Is(err, podapi.ErrUnavailable) || errors.Is(err, podapi.ErrCut) || errors.Is(err, launcher.ErrNotReady)
		if !unknown || time.Now().After(deadline) {
			return got, err
		}
	}
}

// podapiCommands runs commands, each once, and replaces a file.
func (w *killWorker) podapiCommands() error {
	ctx := w.T.Context()
	s, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	var want strings.Builder
	for n := 0; n == 0 || !w.over.Load(); n++ {
		fmt.Fprintln(&want, n)
		out, err := w.runOnce(ctx, s, fmt.Sprintf("echo %d >> podapi-ran; echo %d", n, n))
		if err != nil || string(out) != fmt.Sprintln(n) {
			return fmt.Errorf("command %d answered %q: %w", n, out, err)
		}
		w.commands.Add(1)
		content := bytes.Repeat(fmt.Appendf(nil, "%d,", n), 10_000)
		if _, err := untilAnswered(func() (any, error) { return nil, s.WriteFile(ctx, "podapi-written", content, 0o644) }); err != nil {
			return err
		}
		read, err := untilAnswered(func() ([]byte, error) { return s.ReadFile(ctx, "podapi-written") })
		if err != nil || !bytes.Equal(read, content) {
			return fmt.Errorf("a write is said to be done, and is not: %w", err)
		}
		w.done.Add(1)
	}
	ran, err := untilAnswered(func() ([]byte, error) { return s.ReadFile(ctx, "podapi-ran") })
	if err != nil || string(ran) != want.String() {
		return fmt.Errorf("the commands left %q, want %q: %w", ran, want.String(), err)
	}
	return nil
}

// runOnce runs a script, which is started again under its id as long as it is not known what became of it.
func (w *killWorker) runOnce(ctx context.Context, s *launcher.Sandbox, script string) ([]byte, error) {
	id := uuid.Must(uuid.NewV7()).String()
	return untilAnswered(func() ([]byte, error) {
		cmd := s.Shell(ctx, script)
		cmd.ID, cmd.ResumeTimeout = id, harness.Hung // as all workers
		return cmd.Output()
	})
}

// podapiStream sends input to one command, which sends it back.
func (w *killWorker) podapiStream() error {
	ctx := w.T.Context()
	s, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := untilAnswered(func() (podapi.Info, error) { return s.Info(ctx) }); err != nil {
		return err
	}
	cmd := s.Command(ctx, "cat")
	cmd.ResumeTimeout = harness.Hung
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		return err
	}
	for !w.over.Load() {
		part := make([]byte, 1+rand.IntN(20_000))
		_, _ = rand.NewChaCha8([32]byte{byte(len(part))}).Read(part)
		got := make([]byte, len(part))
		if _, err := in.Write(part); err != nil {
			return err
		}
		if _, err := io.ReadFull(out, got); err != nil {
			return errors.Join(err, cmd.Wait())
		}
		if !bytes.Equal(got, part) {
			return errors.New("other bytes came back")
		}
		w.done.Add(1)
	}
	closed := in.Close()
	rest, err := io.ReadAll(out)
	if err := errors.Join(closed, err, cmd.Wait()); err != nil || len(rest) > 0 {
		return fmt.Errorf("%d bytes more came back: %w", len(rest), err)
	}
	return nil
}
