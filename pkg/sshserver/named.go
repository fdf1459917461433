package sshserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/podagent/podagent/pkg/podapi"
)

// The script of a named terminal begins with the name. So whoever asks the agent for
// its processes finds it, from any machine, and nobody has to keep anything.
//
// Clients that start a terminal of one name at once choose the same exec id, and different
// scripts. The agent starts one of them, and tells the others that the id is taken.

// marker is the first line of the script of the terminal with this name.
func marker(name string) string { return "# ssh terminal " + name + "\n" }

// slotID returns the exec id that all clients choose for the n-th terminal of a name that starts in the
// same span of time.
func slotID(name string, now time.Time, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s%d", marker(name), n))
	id := uuid.UUID(sum[:16])
	binary.BigEndian.PutUint64(id[:8], uint64(now.Truncate(slotTime).UnixMilli())<<16|0x7000|uint64(sum[16])<<4|uint64(sum[17])>>4)
	id[8] = id[8]&0x3f | 0x80 // the variant (RFC 9562, section 4.1)
	return id.String()
}

// startNamed attaches to the terminal that runs under the client's name for it, or starts one.
func (s *session) startNamed(ctx context.Context, text string) (*podapi.Process, error) {
	named, err := s.findNamed(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(named, func(p podapi.ProcessInfo) bool { return p.Status == nil }); i >= 0 {
		return s.attach(ctx, named[i].ID)
	}
	now := time.Now()
	for n := range slots {
		id := slotID(s.conn.server.Terminal, now, n)
		if slices.ContainsFunc(named, func(p podapi.ProcessInfo) bool { return p.ID == id }) {
			continue
		}
		p, err := s.startSlot(ctx, text, id)
		switch {
		case errors.Is(err, podapi.ErrConflict):
			return s.attach(ctx, id) // another client was faster
		case !errors.Is(err, podapi.ErrExecExpired): // which says that one had the id, and was forgotten
			return p, err
		}
	}
	return s.startSlot(ctx, text, "")
}

// startSlot starts the named terminal under an exec id, or under a new one if that is empty.
func (s *session) startSlot(ctx context.Context, text, id string) (*podapi.Process, error) {
	mine := "# started by " + rand.Text() + "\n"
	c := s.conn.server.Sandbox.Shell(ctx, marker(s.conn.server.Terminal)+mine+s.script(text))
	c.ID = id
	err := s.startCommand(c)
	return c.Process, err
}

// findNamed returns the terminals with the client's name, the oldest first, with those that have ended.
func (s *session) findNamed(ctx context.Context) (named []podapi.ProcessInfo, err error) {
	list, err := s.conn.server.Sandbox.Processes(ctx)
	mark := marker(s.conn.server.Terminal)
	return slices.DeleteFunc(list, func(p podapi.ProcessInfo) bool {
		return !p.Terminal || !strings.HasPrefix(p.Script, mark)
	}), err
}

// attach attaches to a terminal, which shows its screen.
func (s *session) attach(ctx context.Context, id string) (*podapi.Process, error) {
	return s.conn.server.Sandbox.Attach(ctx, id, podapi.AttachOptions{
		Stdin: s.input(), Stdout: &output{to: s.channel}, Screen: &s.terminal.size,
	})
}
