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
	Version                      string   // of the program
	ProtocolMajor, ProtocolMinor int      // of the contract
	BootID                       string   // another one at each start of the agent
	PodUID                       string   // empty outside of Kubernetes
	UID, GID                     int      // of the agent, and so of every process
	Workdir                      string   // where relative paths start
	OS, Arch                     string   // in Go's words
	Executable                   string   // the path of the agent's own program
	Capabilities                 []string // what the agent offers beyond protocol 1.0
	Protected                    []ProtectedPath
	// Idle is how long ago the agent last worked; 0 while it works. A connection to
	// a port is work when bytes pass, and not for being open.
	Idle time.Duration
	// IdleTimeout is how long the agent may be idle before it ends by itself, and
	// Expires when it ends in any case; zero means never.
	IdleTimeout time.Duration
	Expires     time.Time
}

// ProtectedPath is what nobody may change in a sandbox: a pattern, as it was
// configured (see [fsops.FS.Protect]), or the absolute path of a directory.
type ProtectedPath struct {
	Path string
	By   Enforcement
}

// Enforcement is what protects a path. Later agents may know of others.
type Enforcement string

const (
	// ByAgent is the agent's refusal: [fsops.ErrProtected], but not for commands.
	ByAgent Enforcement = "agent"
	// ByMount is a read-only mount: syscall.EROFS, for commands, too.
	ByMount Enforcement = "mount"
)

// Info asks the agent who it is. If this client does not understand its protocol,
// the error is [ErrVersion] and says which of the two to update, beside the Info.
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
		OS:            r.Os,
		Arch:          r.Arch,

		Executable: string(r.Executable),
		Protected:  protectedFromProto(r.Protected),

		IdleTimeout: time.Duration(r.IdleTimeout),
		Expires:     timeFromProto(r.Expires),
	}
	c.meet(info)
	return info, checkVersion(info.ProtocolMajor, info.ProtocolMinor)
}

// checkVersion returns nil if this client understands an agent of the protocol
// major.minor.
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
	// Env is the default environment of processes, as NAME=VALUE, on top of the
	// agent's own; nil leaves it as it is.
	Env []string
	// Workdir is where relative paths start; empty leaves it as it is.
	Workdir string
	// Protected are patterns of paths that the agent does not change, but commands
	// can (see [fsops.FS.Protect]); nil leaves them as they are.
	Protected []string
	// Expires is when the agent ends by itself, where it was started so that its end
	// is for good. Zero, and a time before the present one, leave it as it is.
	Expires time.Time
}

// Configure sets the defaults of later calls. An agent of protocol 1.0 knows of no
// protected paths (errors.ErrUnsupported), and takes a nil Env for an empty one.
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

// timeFromProto returns a time of the contract, where 0 means none.
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
