package e2b

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/podapi"
)

// list answers with the processes that run. It does not wake the sandbox.
func (*processes) list(ctx context.Context, _ *listProcessesRequest) (*listProcessesResponse, error) {
	out := &listProcessesResponse{Processes: []processInfo{}}
	return out, task{operation: "process/List", asleep: true}.onProcesses(ctx, func(c *podapi.Client) error {
		all, err := c.Processes(ctx)
		tags := 0
		for _, p := range all {
			if p.Status != nil {
				continue
			}
			info := processInfo{Config: configOf(p), PID: p.PID}
			if isTagged(p.ID) && tags < tagsListed {
				tags++
				info.Tag = tagOf(ctx, c, p.PID)
			}
			out.Processes = append(out.Processes, info)
		}
		return err
	})
}

// configOf returns the command of a process, or the beginning of it. Its environment and directory
// are not known.
func configOf(p podapi.ProcessInfo) processConfig {
	if len(p.Args) == 0 {
		return processConfig{Cmd: "/bin/bash", Args: []string{"-c", p.Script}}
	}
	return processConfig{Cmd: p.Args[0], Args: p.Args[1:]}
}

// connect follows a process from its start, also one that has ended: who lost a connection gets what
// there was.
func (*processes) connect(ctx context.Context, in *connectRequest, out *events[processResponse]) error {
	return in.Process.task("Connect").onProcesses(ctx, func(c *podapi.Client) error {
		p, err := in.Process.find(ctx, c)
		if err != nil {
			return err
		}
		return newRun(ctx, out).attach(c, p.ID)
	})
}

// task is what a call does to the process. Observers are told by which words it is named.
func (s *selector) task(method string) task {
	t := task{operation: "process/" + method, fault: s.fault()}
	if t.fault == nil {
		t.detail.ExecID = s.String()
	}
	return t
}

// fault says what is wrong with a selector; nil if nothing is.
func (s *selector) fault() error {
	if (s.PID == nil) == (s.Tag == nil) {
		return faces.BadRequest("a process is named by its pid or by its tag")
	}
	return nil
}

// find returns the process that is meant: one that runs, or else the one that was started last.
func (s *selector) find(ctx context.Context, c *podapi.Client) (found *podapi.ProcessInfo, err error) {
	all, err := c.Processes(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		p := &all[i]
		if s.names(p) && (found == nil || p.Status == nil || found.Status != nil) {
			found = p
		}
	}
	if found == nil {
		return nil, notFound("there is no process of " + s.String())
	}
	return found, nil
}

// findRunning is find for a process that must run.
func (s *selector) findRunning(ctx context.Context, c *podapi.Client) (*podapi.ProcessInfo, error) {
	p, err := s.find(ctx, c)
	if err == nil && p.Status != nil {
		return nil, notFound("the process of " + s.String() + " has ended")
	}
	return p, err
}

func (s *selector) names(p *podapi.ProcessInfo) bool {
	if s.PID != nil {
		return p.PID == *s.PID
	}
	return strings.HasSuffix(p.ID, tagSuffix(*s.Tag))
}

// String describes what is meant.
func (s *selector) String() string {
	if s.PID != nil {
		return fmt.Sprintf("pid %d", *s.PID)
	}
	return fmt.Sprintf("tag %.40q", *s.Tag)
}

func notFound(text string) error { return gateway.Fail(http.StatusNotFound, "not_exist", text) }

// A tag is kept in the sandbox, so that any gateway knows it: a digest of it is the end of the exec id,
// and the tag itself is in the environment of the process.

// tagVariable is the environment variable that has a process's tag.
const tagVariable = "PODAGENT_E2B_TAG"

// tagMark begins the end of the exec ids of processes that have a tag. Its first bits are those of a UUID.
const tagMark = "-be2b-"

// taggedID returns an exec id for a process with this tag: a UUIDv7, which keeps the time and 12 bits
// of chance.
func taggedID(tag string) string {
	id := uuid.Must(uuid.NewV7()).String()
	return id[:len(id)-len(tagSuffix(tag))] + tagSuffix(tag)
}

func tagSuffix(tag string) string {
	sum := sha256.Sum256([]byte("e2b process " + tag))
	return tagMark + hex.EncodeToString(sum[:6])
}

func isTagged(execID string) bool {
	return len(execID) == len(uuid.Nil.String()) && strings.HasPrefix(execID[18:], tagMark)
}

// tagOf reads the tag of a process that runs; "" if the process has hidden it.
func tagOf(ctx context.Context, c *podapi.Client, pid int) string {
	var environ bytes.Buffer
	for range tagTries {
		_, err := c.Read(ctx, fmt.Sprintf("/proc/%d/environ", pid), &environ, fsops.ReadOptions{Length: environLimit})
		if err != nil || environ.Len() > 0 {
			break
		}
	}
	for v := range bytes.SplitSeq(environ.Bytes(), []byte{0}) {
		if tag, ok := strings.CutPrefix(string(v), tagVariable+"="); ok && len(tag) <= tagLimit {
			return strings.ToValidUTF8(tag, "")
		}
	}
	return ""
}
