package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/secret"
	"github.com/podagent/podagent/pkg/tools/sessionstore"
)

// host does one job.
type host struct {
	job, prompt, project, test string
	wait                       time.Duration
	model                      Model
	backend                    backend
	store                      sessionstore.Store
	secrets                    map[string]secret.Provider
	log                        *slog.Logger

	conversation conversation
	version      string // version of the conversation in the store
}

// run does the rest of the job, and returns the answer.
func (h *host) run(ctx context.Context) (string, error) {
	if err := h.load(ctx); err != nil {
		return "", err
	}
	if _, done := h.conversation.done(); !done {
		if err := h.work(ctx); err != nil {
			return "", err
		}
	}
	// If this host is killed before this step, a retry does it.
	h.log.Info("removing the sandbox")
	if err := h.backend.Terminate(ctx, h.job); err != nil {
		return "", err
	}
	answer, _ := h.conversation.done()
	return answer, nil
}

// work does the job in its sandbox.
func (h *host) work(ctx context.Context) error {
	sandbox, err := h.launch(ctx)
	if err != nil {
		return err
	}
	defer sandbox.Close()
	// Load again, since the previous owner of the sandbox may have gone on.
	if err := h.load(ctx); err != nil {
		return err
	}
	if _, done := h.conversation.done(); done {
		return nil
	}
	info, err := sandbox.Info(ctx)
	if err != nil {
		return err
	}
	h.log.Info("launched", "created", sandbox.Created, "pod", sandbox.PodName())
	// Saving claims the conversation by its version. Any other host of the job will
	// fail to save, and stop. If this host is the outdated one, it fails here, before
	// it repeats a call that the other host has already gone past.
	if err := h.save(ctx); err != nil {
		return err
	}
	workspace, err := h.backend.workspace(ctx, h.job, info.PodUID)
	if err != nil {
		return err
	}
	if err := h.prepare(ctx, sandbox, workspace); err != nil {
		return err
	}
	session := h.newSession(sandbox)
	if h.test != "" {
		if err := session.Begin(ctx); err != nil {
			return err
		}
		h.conversation.Progress.Steps = session.History()
	}
	return h.loop(ctx, &caller{sandbox, session, info.BootID, h.conversation.pending()})
}

// launch returns the job's sandbox, new or existing.
func (h *host) launch(ctx context.Context) (*launcher.Sandbox, error) {
	h.log.Info("launching", "job", h.job)
	for deadline := time.Now().Add(h.wait); ; time.Sleep(ownedRetry) {
		sandbox, err := h.backend.Launch(ctx, launcher.Spec{ID: h.job, Pod: h.backend.pod, Take: h.backend.take})
		if !errors.Is(err, launcher.ErrOwned) || time.Now().After(deadline) {
			return sandbox, err
		}
		h.log.Info("waiting for another host", "error", err)
	}
}

// prepare begins the conversation of a new job, and fills the workspace of a new
// sandbox. It reads the project's instructions once: the model itself may change
// them later.
func (h *host) prepare(ctx context.Context, sandbox *launcher.Sandbox, workspace string) error {
	c := &h.conversation
	isNew := len(c.Messages) == 0
	if !isNew && !sandbox.Created && c.Workspace == workspace {
		return nil
	}
	if h.project != "" {
		if _, err := sandbox.Push(ctx, h.project, ".", podapi.TransferOptions{}); err != nil {
			return err
		}
	}
	c.Workspace = workspace
	if !isNew {
		c.lose()
		return nil
	}
	project, err := tools.New(sandbox, tools.Options{Secrets: h.secrets}).Instructions(ctx)
	if err != nil {
		return err
	}
	c.System = project.String()
	c.say(h.prompt)
	return nil
}

// loop continues the conversation until the job is done. Each turn makes one call,
// asks the model, or tests what it did. Then it saves the outcome together with the
// next call, marked as begun.
func (h *host) loop(ctx context.Context, calls *caller) error {
	c := &h.conversation
	for {
		if err := h.next(ctx, calls); err != nil {
			return err
		}
		if err := calls.begin(c.pending()); err != nil {
			return err
		}
		c.Progress.Steps = calls.session.History()
		if err := h.save(ctx); err != nil {
			return err
		}
		if _, done := c.done(); done {
			return nil
		}
	}
}

// next makes the pending call. If there is none, it tests what the model has done, or asks it.
func (h *host) next(ctx context.Context, calls *caller) error {
	c := &h.conversation
	pending := c.pending()
	switch {
	case c.Progress.Rewind != "":
		return h.rewind(ctx, calls)
	case pending != nil:
		return h.call(ctx, calls, pending)
	case c.Progress.untested():
		return h.attempt(ctx, calls)
	}
	return h.ask(ctx, calls.session.Specs())
}

// ask adds the model's next message.
func (h *host) ask(ctx context.Context, specs []tools.Spec) error {
	c := &h.conversation
	next, err := h.model.Next(ctx, c, specs)
	if err != nil {
		return fmt.Errorf("asking %s: %w", h.model.Name(), err)
	}
	c.Messages = append(c.Messages, next)
	return nil
}

func (h *host) call(ctx context.Context, calls *caller, c *call) error {
	h.log.Info("calling", "tool", c.Name, "again", c == calls.again)
	result, err := calls.call(ctx, c)
	if err != nil {
		return fmt.Errorf("calling %s: %w", c.Name, err)
	}
	h.log.Info("called", "tool", c.Name, "error", result.IsError)
	c.Answer = &answer{result.Content, result.IsError}
	return nil
}

// load loads the conversation. It leaves it empty for a new job.
func (h *host) load(ctx context.Context) error {
	snapshot, err := h.store.Load(ctx, h.job)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	h.conversation, h.version = conversation{}, snapshot.Version
	return json.Unmarshal(snapshot.Data, &h.conversation)
}

// save saves the conversation. It fails if another host has continued it: then this
// host has lost the job, and must stop.
func (h *host) save(ctx context.Context) error {
	data, err := json.Marshal(h.conversation)
	if err != nil {
		return err
	}
	version, err := h.store.Save(ctx, h.job, data, h.version)
	if err != nil {
		return err
	}
	h.version = version
	h.log.Info("saved", "messages", len(h.conversation.Messages))
	return nil
}
