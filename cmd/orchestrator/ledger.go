package main

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/ledger"
)

// ledgersDir is where the ledgers of gateways are, beside the sandboxes of this machine.
const ledgersDir = "ledgers"

// ledgerOf returns the ledger of all gateways over a launcher's sandboxes.
func ledgerOf(l launcher.Launcher) gateway.Ledger {
	switch l := l.(type) {
	case *launcher.Local:
		return &lazyLedger{open: func(context.Context) (gateway.Ledger, error) {
			dir, err := l.Dir()
			return ledger.Files{Dir: filepath.Join(dir, ledgersDir)}, err
		}}
	case *launcher.Kubernetes:
		return inCluster(l)
	case *agentsandbox.Launcher:
		return inCluster(l.Cluster)
	}
	return nil
}

func inCluster(k *launcher.Kubernetes) gateway.Ledger {
	return &lazyLedger{open: func(ctx context.Context) (gateway.Ledger, error) {
		config, namespace, err := k.API(ctx)
		return &ledger.Leases{Config: config, Namespace: namespace}, err
	}}
}

// lazyLedger is opened by the first change, so that a gateway without quotas needs none.
type lazyLedger struct {
	open func(context.Context) (gateway.Ledger, error)

	mu     sync.Mutex
	opened gateway.Ledger
}

func (l *lazyLedger) Amend(ctx context.Context, name string, change ledger.Change) error {
	opened, err := l.get(ctx)
	if err != nil {
		return err
	}
	return opened.Amend(ctx, name, change)
}

func (l *lazyLedger) Names(ctx context.Context) ([]string, error) {
	opened, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return opened.Names(ctx)
}

func (l *lazyLedger) get(ctx context.Context) (gateway.Ledger, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened == nil {
		opened, err := l.open(ctx)
		if err != nil {
			return nil, err
		}
		l.opened = opened
	}
	return l.opened, nil
}
