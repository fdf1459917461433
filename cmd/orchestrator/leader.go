package main

import (
	"log/slog"
	"path/filepath"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/leader"
)

// The names of what chooses the gateway that sweeps for all: a Lease beside the sandboxes, or a file
// beside their ledgers.
const (
	leaderLease = "gateway-leader"
	leaderFile  = "leader.lock"
)

// leaderOf chooses among the gateways over a launcher's sandboxes.
func leaderOf(l launcher.Launcher, log *slog.Logger) (gateway.Leader, error) {
	switch l := l.(type) {
	case *launcher.Local:
		dir, err := l.Dir()
		return &leader.File{Path: filepath.Join(dir, ledgersDir, leaderFile), Log: log}, err
	case *launcher.Kubernetes:
		return &leader.Lease{API: l.API, Name: leaderLease, Log: log}, nil
	case *agentsandbox.Launcher:
		return &leader.Lease{API: l.Cluster.API, Name: leaderLease, Log: log}, nil
	}
	return nil, nil
}
