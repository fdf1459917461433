package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools/sessionstore"
)

// backend is where sandboxes run: the launcher, and the Pod for each Spec.
type backend struct {
	launcher.Launcher
	pod  launcher.Pod
	take launcher.Take
}

// workspace identifies the current sandbox of a job, to tell it from an earlier
// one with the same id: by its pod, or without pods by its time of creation, to the
// second.
func (b backend) workspace(ctx context.Context, job, pod string) (string, error) {
	if pod != "" {
		return pod, nil
	}
	list, err := b.List(ctx)
	for _, s := range list {
		if s.ID == job {
			return s.CreatedAt.Format(time.RFC3339Nano), nil
		}
	}
	return "", errors.Join(err, launcher.ErrNotFound)
}

// backendOptions are the flags that choose a backend and a store.
type backendOptions struct {
	backend, image, sessions string
}

func backendFlags(flags *flag.FlagSet) *backendOptions {
	o := new(backendOptions)
	flags.StringVar(&o.backend, "backend", "kubernetes", "where the sandbox runs: kubernetes, or local, which is this machine")
	flags.StringVar(&o.image, "image", launcher.DefaultImage(), "the pod's `IMAGE`")
	flags.StringVar(&o.sessions, "sessions", "", "a `DIR` for the conversations (default: the cluster; with the local backend, ~/.local/state/agent-host/sessions)")
	return o
}

// open returns the backend and the store, without using them.
func (o *backendOptions) open(log *slog.Logger) (backend, sessionstore.Store, error) {
	switch o.backend {
	case "local":
		dir, err := o.localSessions()
		return backend{Launcher: &launcher.Local{Log: log}}, &sessionstore.Disk{Dir: dir}, err
	case "kubernetes":
		return o.cluster(log)
	}
	return backend{}, nil, fmt.Errorf("unknown backend %q: it must be kubernetes or local", o.backend)
}

func (o *backendOptions) localSessions() (string, error) {
	if o.sessions != "" {
		return o.sessions, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "agent-host", "sessions"), err
}

// cluster returns the cluster of the kubeconfig, or the one that this host runs in.
// The cluster keeps all that a retry on another machine needs, including the key to
// the pods. deploy/rbac.yaml and deploy/session-rbac.yaml grant the permissions; here all
// is in the namespace of the sandboxes.
func (o *backendOptions) cluster(log *slog.Logger) (backend, sessionstore.Store, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{})
	config, err := loader.ClientConfig()
	if err != nil {
		return backend{}, nil, err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return backend{}, nil, err
	}
	config.QPS, config.Burst = apiRate, apiBurst
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return backend{}, nil, err
	}
	where := backend{
		Launcher: &launcher.Kubernetes{Config: config, Namespace: namespace, IdentitySecret: launcher.DefaultIdentitySecret, Log: log},
		// Replace a pod that has ended; the model is told.
		pod:  launcher.Pod{Image: o.image},
		take: launcher.Take{Exclusive: true, OnStale: launcher.StaleRecreate},
	}
	if o.sessions != "" {
		return where, &sessionstore.Disk{Dir: o.sessions}, nil
	}
	return where, &sessionstore.Cluster{Client: client, Namespace: namespace}, nil
}
