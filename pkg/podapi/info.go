package podapi

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/podagent/podagent/pkg/podapi/isolation"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Info describes an agent.
type Info struct {
	Version                      string   // of the program
	ProtocolMajor, ProtocolMinor int      // of the contract
	BootID                       string   // another one at each start of the agent
	PodUID, Keychain             string   // the pod's, and what replaces its keys: see [Config]
	UID, GID                     int      // of the agent, and so of every process
	Workdir                      string   // where relative paths start
	OS, Arch                     string   // in Go's words
	Capabilities                 []string // what the agent offers beyond protocol 1.0
	Confinement                  []string // what the kernel keeps processes within
	Egress                       wayout.Info
	Isolation                    isolation.Info // of an agent without a pod
	Protected                    []ProtectedPath
	Idle                         time.Duration // since the agent last worked, or bytes passed to a port; 0 for now
	IdleTimeout                  time.Duration // how long it may be idle before it ends by itself; 0 means for ever
	Expires                      time.Time     // when it ends in any case; zero means never
}

// ProtectedPath is a path that may not be changed in a sandbox: a pattern that was
// configured (see [fsops.FS.Protect]), or an absolute path.
type ProtectedPath struct {
	Path string
	By   Enforcement
}

// Enforcement says how a path is protected. Later agents may add others.
type Enforcement string

const (
	ByAgent Enforcement = "agent" // it refuses: [fsops.ErrProtected], but not for commands
	ByMount Enforcement = "mount" // a read-only mount: syscall.EROFS, for commands, too
)

// Info asks the agent about itself. If client and agent do not understand each other, the
// error, beside the Info, is [ErrVersion].
func (c *Client) Info(ctx context.Context) (Info, error) { return c.info(ctx, false) }

// info is Info. With wake a gateway resumes a sandbox that sleeps: calls that work in it follow.
func (c *Client) info(ctx context.Context, wake bool) (Info, error) {
	r, err := c.agent.Info(ctx, &pb.InfoRequest{Wake: wake})
	if err == nil {
		err = checkInfo(r)
	}
	if err != nil {
		return Info{}, wire.FromStatus(err)
	}
	info := Info{
		Version:       r.Version,
		ProtocolMajor: int(r.ProtocolMajor),
		ProtocolMinor: int(r.ProtocolMinor),
		BootID:        r.BootId,
		PodUID:        r.PodUid,
		Keychain:      r.Keychain,
		UID:           int(r.Uid),
		GID:           int(r.Gid),
		Workdir:       string(r.Workdir),
		Idle:          time.Duration(r.Idle),
		Capabilities:  r.Capabilities,
		Confinement:   r.Confinement,
		Egress:        egressFromProto(r.Egress),
		Isolation:     isolationFromProto(r.Isolation),
		OS:            r.Os,
		Arch:          r.Arch,

		Protected: protectedFromProto(r.Protected),

		IdleTimeout: time.Duration(r.IdleTimeout),
		Expires:     timeFromProto(r.Expires),
	}
	c.meet(info)
	return info, checkVersion(info.ProtocolMajor, info.ProtocolMinor)
}

func isolationFromProto(i *pb.IsolationInfo) isolation.Info {
	return isolation.Info{
		Level: isolation.Level(i.GetLevel()), Missing: i.GetMissing(),
		Limiter: isolation.Limiter(i.GetLimiter()), NoControlGroup: i.GetNoControlGroup(),
	}
}

// checkInfo refuses what an agent would not say of itself.
func checkInfo(r *pb.InfoResponse) error {
	if len(r.Capabilities) > maxCapabilities || len(r.Protected) > maxProtected || len(r.Confinement) > maxCapabilities {
		return protocolError("%d capabilities, %d protected paths and %d confinements", len(r.Capabilities), len(r.Protected), len(r.Confinement))
	}
	for _, capability := range r.Capabilities {
		if err := checkText("the capability", capability); err != nil {
			return err
		}
	}
	for _, part := range r.Confinement {
		if err := checkText("the confinement", part); err != nil {
			return err
		}
	}
	for _, p := range r.Protected {
		if err := checkPath(p.Path); err != nil {
			return err
		}
	}
	if len(r.Keychain) > maxKeychain {
		return protocolError("a keychain of %d bytes", len(r.Keychain))
	}
	return firstError(
		checkText("the version", r.Version), checkText("the boot id", r.BootId), checkText("the pod's UID", r.PodUid),
		checkText("the system", r.Os), checkText("the architecture", r.Arch),
		checkWorkdir(r.Workdir),
		checkNumbers("a time", r.Idle, r.IdleTimeout),
		checkTime(r.Expires),
		checkText("the level of egress", r.Egress.GetLevel()), checkText("why it is not stronger", r.Egress.GetMissing()),
		checkText("the level of isolation", r.Isolation.GetLevel()), checkText("why it is not stronger", r.Isolation.GetMissing()),
		checkText("what limits the sandbox", r.Isolation.GetLimiter()), checkText("why no control group does", r.Isolation.GetNoControlGroup()),
	)
}

// checkWorkdir refuses a path that is not absolute and clean: programs put it into addresses, in which another one
// could name another host.
func checkWorkdir(dir []byte) error {
	if name := string(dir); !path.IsAbs(name) || path.Clean(name) != name {
		return protocolError("the workdir %.50q", name)
	}
	return checkPath(dir)
}

// checkTime refuses a time before 1970.
func checkTime(ns int64) error {
	if ns < 0 {
		return protocolError("a time of %d", ns)
	}
	return nil
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
	// Env is the default environment of processes, as NAME=VALUE, on top of the agent's; nil leaves it.
	Env     []string
	Workdir string // where relative paths start; empty leaves it as it is
	// Protected are what the agent does not change, but commands can ([fsops.FS.Protect]); nil leaves them.
	Protected []string
	// Expires is when the agent ends by itself, if it was started so that its end is final. Zero changes
	// nothing, nor does a time before the present value, unless it may be Sooner (a capability).
	Expires              time.Time
	Sooner               bool
	Keychain, Assignment string // the keys that the agent accepts, and what it serves its sandbox with (podapi.proto)
}

// Configure sets the defaults of later calls. An agent of protocol 1.0 protects no
// paths (errors.ErrUnsupported), and takes nil for an empty Env.
func (c *Client) Configure(ctx context.Context, config Config) error {
	r := &pb.ConfigureRequest{
		Env: toBytes(config.Env), KeepEnv: config.Env == nil,
		Workdir:        []byte(config.Workdir),
		ProtectedPaths: toBytes(config.Protected), KeepProtectedPaths: config.Protected == nil,
		Keychain: config.Keychain, Assignment: config.Assignment,
	}
	if !config.Expires.IsZero() {
		r.Expires, r.Sooner = config.Expires.UnixNano(), config.Sooner
	}
	done := func() {}
	if c.configuring != nil {
		done = c.configuring(config)
	}
	_, err := c.agent.Configure(ctx, r)
	if err == nil {
		done()
	}
	return wire.FromStatus(err)
}

// timeFromProto returns a time of the contract, in which 0 means none.
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

func egressFromProto(e *pb.EgressInfo) wayout.Info {
	return wayout.Info{Level: wayout.Level(e.GetLevel()), Port: int(e.GetPort()), Served: e.GetServed(), Missing: e.GetMissing()}
}
