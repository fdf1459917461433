package podapi

import (
	"context"
	"fmt"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Info describes an agent.
type Info struct {
	// Version is the program's version.
	Version string
	// ProtocolMajor and ProtocolMinor are the contract's.
	ProtocolMajor, ProtocolMinor int
	// BootID changes whenever the agent starts anew.
	BootID string
	// PodUID is the pod's, empty outside of Kubernetes.
	PodUID string
	// UID and GID are what the agent, and so every process, runs as.
	UID, GID int
	// Workdir is what relative paths start at.
	Workdir string
	// Idle is how long ago the agent last worked; 0 while it works. A connection
	// to a port is work when bytes pass, and not for being open.
	Idle time.Duration
	// Capabilities name what the agent offers beyond protocol 1.0.
	Capabilities []string
	// Limits are the agent's bounds.
	Limits Limits
	// OS and Arch are the sandbox's, in Go's words.
	OS, Arch string
	// Executable is the path of the agent's own program.
	Executable string
	// Protected are the paths that are protected, and how.
	Protected []ProtectedPath
	// IdleTimeout is how long the agent may be idle until it ends by itself, and
	// Expires when it does in any case; 0 and zero for never.
	IdleTimeout time.Duration
	Expires     time.Time
}

// ProtectedPath is what must not be changed in a sandbox, and what keeps it.
type ProtectedPath struct {
	// Path is a pattern, as it was configured (see [fsops.FS.Protect]), or the
	// absolute path of a directory.
	Path string
	By   Enforcement
}

// Enforcement is what keeps a path from being changed.
type Enforcement string

// What keeps a path from being changed; agents may come to know more.
const (
	// ByAgent refuses what is asked of the agent, by [fsops.ErrProtected].
	// Commands can change the path.
	ByAgent Enforcement = "agent"
	// ByMount is a read-only mount, for commands, too: syscall.EROFS.
	ByMount Enforcement = "mount"
)

// Limits are an agent's bounds, in bytes.
type Limits struct {
	// Message bounds a message, Edit a file that is edited. Chunk is a good
	// size for chunks of content.
	Message, Chunk, Edit int64
	// Journal is how much output of a process is kept, of both streams
	// together, and StdinWindow how much standard input may be under way to it.
	Journal, StdinWindow int64
}

// Info asks the agent who it is. An agent whose protocol this client does not
// understand is an [ErrVersion] that says which of the two to update; what the
// agent said is returned all the same.
func (c *Client) Info(ctx context.Context) (Info, error) {
	r, err := c.agent.Info(ctx, &pb.InfoRequest{})
	if err != nil {
		return Info{}, wire.FromStatus(err)
	}
	info := Info{
		Version:       r.Version,
		ProtocolMajor: int(r.ProtocolMajor),
		ProtocolMinor: int(r.ProtocolMinor),
		BootID:        r.BootId,
		PodUID:        r.PodUid,
		UID:           int(r.Uid),
		GID:           int(r.Gid),
		Workdir:       string(r.Workdir),
		Idle:          time.Duration(r.Idle),
		Capabilities:  r.Capabilities,
		Limits: Limits{
			Message: r.Limits.GetMessageBytes(), Chunk: r.Limits.GetChunkBytes(), Edit: r.Limits.GetEditBytes(),
			Journal: r.Limits.GetJournalBytes(), StdinWindow: r.Limits.GetStdinWindowBytes(),
		},
		OS:   r.Os,
		Arch: r.Arch,

		Executable: string(r.Executable),
		Protected:  protectedFromProto(r.Protected),

		IdleTimeout: time.Duration(r.IdleTimeout),
		Expires:     timeFromProto(r.Expires),
	}
	c.meet(info)
	return info, checkVersion(info.ProtocolMajor, info.ProtocolMinor)
}

// checkVersion reports whether this client understands an agent of the
// protocol major.minor.
func checkVersion(major, minor int) error {
	older := "the agent's image"
	switch {
	case major > wire.ProtocolMajor || major == wire.ProtocolMajor && minor > wire.ProtocolMinor+1:
		older = "this client"
	case major == wire.ProtocolMajor && minor >= wire.ProtocolMinor-1:
		return nil
	}
	return fmt.Errorf("%w: agent speaks protocol %d.%d, client %d.%d: update %s",
		ErrVersion, major, minor, wire.ProtocolMajor, wire.ProtocolMinor, older)
}

// Config is what [Client.Configure] sets on a running agent.
type Config struct {
	// Env is the default environment of processes, as NAME=VALUE, on top of
	// the agent's own. It replaces what was set before, unless it is nil.
	Env []string
	// Workdir, if not empty, becomes the directory that relative paths mean.
	Workdir string
	// Protected are patterns of paths that the agent's operations must not
	// change, as [fsops.FS.Protect] has them. They replace what was set
	// before, unless they are nil. Commands can change these paths.
	Protected []string
	// Expires is when the agent ends by itself. Zero, and what is earlier than it
	// was, leave it as it is.
	// It takes an agent that was started so that its end is for good.
	Expires time.Time
}

// Configure sets the defaults that later calls start from. An agent of
// protocol 1.0 knows of no protected paths (errors.ErrUnsupported), and takes
// a nil Env for an empty one.
func (c *Client) Configure(ctx context.Context, config Config) error {
	r := &pb.ConfigureRequest{
		Env: toBytes(config.Env), KeepEnv: config.Env == nil,
		Workdir:        []byte(config.Workdir),
		ProtectedPaths: toBytes(config.Protected), KeepProtectedPaths: config.Protected == nil,
	}
	if !config.Expires.IsZero() {
		r.Expires = config.Expires.UnixNano()
	}
	_, err := c.agent.Configure(ctx, r)
	return wire.FromStatus(err)
}

// timeFromProto returns a time of the contract, in which 0 is none.
func timeFromProto(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

func protectedFromProto(list []*pb.ProtectedPath) []ProtectedPath {
	var paths []ProtectedPath
	for _, p := range list {
		path := ProtectedPath{Path: string(p.Path)}
		switch p.By {
		case pb.Enforcement_ENFORCEMENT_AGENT:
			path.By = ByAgent
		case pb.Enforcement_ENFORCEMENT_MOUNT:
			path.By = ByMount
		}
		paths = append(paths, path)
	}
	return paths
}
