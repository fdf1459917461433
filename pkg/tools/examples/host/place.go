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

// place is where sandboxes are made, and how: the launcher, and what it needs to
// be in each Spec.
type place struct {
	launcher.Launcher
	pod  launcher.Pod
	take launcher.Take
}

// workspace tells the sandbox of a job, which there is, from one that had the id
// before it: by its pod, or, where sandboxes are no pods, by when it was made, to
// the second.
func (p place) workspace(ctx context.Context, job, pod string) (string, error) {
	if pod != "" {
		return pod, nil
	}
	list, err := p.List(ctx)
	for _, s := range list {
		if s.ID == job {
			return s.Created.Format(time.RFC3339Nano), nil
		}
	}
	return "", errors.Join(err, launcher.ErrNotFound)
}

// placeOptions are the flags that choose a place and a store.
type placeOptions struct {
	backend, image, sessions string
}

func placeFlags(flags *flag.FlagSet) *placeOptions {
	o := new(placeOptions)
	flags.StringVar(&o.backend, "backend", "kubernetes", "where the sandbox is: kubernetes, or local, which isolates nothing")
	flags.StringVar(&o.image, "image", launcher.DefaultImage(), "the pod's `IMAGE`")
	flags.StringVar(&o.sessions, "sessions", "", "a `DIR` for the conversations (default: the cluster; on the local backend, below the user's state)")
	return o
}

// open returns the place and the store. Neither is touched.
func (o *placeOptions) open(log *slog.Logger) (place, sessionstore.Store, error) {
	switch o.backend {
	case "local":
		dir, err := o.localSessions()
		return place{Launcher: &launcher.Local{Log: log}}, &sessionstore.Disk{Dir: dir}, err
	case "kubernetes":
		return o.cluster(log)
	}
	return place{}, nil, fmt.Errorf("unknown backend %q: it is kubernetes or local", o.backend)
}

func (o *placeOptions) localSessions() (string, error) {
	if o.sessions != "" {
		return o.sessions, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "agent-host", "sessions"), err
}

// cluster returns the cluster of the kubeconfig, or the one that this runs in.
// All that a retry on another machine needs is there, the key to the pods
// included. What it takes is granted by deploy/rbac.yaml and
// deploy/session-rbac.yaml.
func (o *placeOptions) cluster(log *slog.Logger) (place, sessionstore.Store, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{})
	config, err := loader.ClientConfig()
	if err != nil {
		return place{}, nil, err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return place{}, nil, err
	}
	config.QPS, config.Burst = apiRate, apiBurst
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return place{}, nil, err
	}
	where := place{
		Launcher: &launcher.Kubernetes{Config: config, Namespace: namespace, IdentitySecret: launcher.DefaultIdentitySecret, Log: log},
		// A pod that has ended is of no use any more; the model is told.
		pod:  launcher.Pod{Image: o.image},
		take: launcher.Take{Exclusive: true, OnStale: launcher.StaleRecreate},
	}
	if o.sessions != "" {
		return where, &sessionstore.Disk{Dir: o.sessions}, nil
	}
	return where, &sessionstore.Cluster{Client: client, Namespace: namespace}, nil
}
