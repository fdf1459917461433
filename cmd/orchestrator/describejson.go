package main

import (
	"time"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// description is a sandbox as JSON.
type description struct {
	summary
	*pod
	Agent     *agent    `json:"agent,omitempty"`
	AgentErr  string    `json:"agent_error,omitempty"`
	Processes []process `json:"processes"`
}

// pod describes the pod of a sandbox.
type pod struct {
	Namespace  string              `json:"namespace"`
	Node       string              `json:"node,omitempty"`
	Image      string              `json:"image,omitempty"`
	IP         string              `json:"ip,omitempty"`
	Connection launcher.Connection `json:"connection"`
	Bounds     map[string]string   `json:"bounds,omitempty"`
	Phase      string              `json:"phase,omitempty"`
	Reason     string              `json:"reason,omitempty"`
	Restarts   int                 `json:"restarts"`
	LastEnd    string              `json:"last_end,omitempty"`
	Labels     map[string]string   `json:"labels,omitempty"`
	Key        string              `json:"key"`
	KeyIsOurs  bool                `json:"key_is_ours"`
	Owner      string              `json:"owner,omitempty"`
	Events     []event             `json:"events"`
	Problems   []string            `json:"problems,omitempty"`
}

type event struct {
	Time    time.Time `json:"time"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Count   int       `json:"count"`
}

type agent struct {
	Version      string      `json:"version"`
	Major        int         `json:"protocol_major"`
	Minor        int         `json:"protocol_minor"`
	Boot         string      `json:"boot_id"`
	PodUID       string      `json:"pod_uid,omitempty"`
	UID          int         `json:"uid"`
	GID          int         `json:"gid"`
	Workdir      render.Text `json:"workdir"`
	Idle         int64       `json:"idle_ms"`
	Capabilities []string    `json:"capabilities,omitempty"`
	OS           string      `json:"os"`
	Arch         string      `json:"arch"`
	Confinement  []string    `json:"confinement,omitempty"`
	Isolation    *isolated   `json:"isolation,omitempty"`
	Egress       *egressInfo `json:"egress,omitempty"`
	Protected    []protected `json:"protected,omitempty"`
	IdleTimeout  int64       `json:"idle_timeout_ms,omitempty"`
	Expires      string      `json:"expires,omitempty"`
}

// egressInfo says by which ways commands can leave the sandbox. Port is the proxy's on its loopback.
type egressInfo struct {
	Level   wayout.Level `json:"level"`
	Port    int          `json:"port,omitempty"`
	Served  bool         `json:"served"`
	Missing string       `json:"missing,omitempty"`
}

// protected is a path that must not be changed, and how it is protected.
type protected struct {
	Path render.Text        `json:"path"`
	By   podapi.Enforcement `json:"by"`
}

// process is a process as JSON. Code is set once it has ended.
type process struct {
	ID         string        `json:"id"`
	PID        int           `json:"pid"`
	Args       []render.Text `json:"args,omitempty"`
	Script     render.Text   `json:"script,omitempty"`
	Cut        int64         `json:"cut,omitempty"`
	Terminal   bool          `json:"terminal,omitempty"`
	Started    time.Time     `json:"started_at"`
	Stdout     int64         `json:"stdout_bytes"`
	Stderr     int64         `json:"stderr_bytes"`
	StdoutKept int64         `json:"stdout_kept_bytes"`
	StderrKept int64         `json:"stderr_kept_bytes"`
	Reason     podapi.Reason `json:"reason,omitempty"`
	Code       *int          `json:"code,omitempty"`
	Signal     int           `json:"signal,omitempty"`
}

func (a *app) describeJSON(d launcher.Description) error {
	out := description{
		summary: newSummary(d.Summary), pod: newPod(d),
		Agent: newAgent(d.Agent), Processes: newProcesses(d.Processes),
	}
	if d.AgentErr != nil {
		out.AgentErr = message(d.AgentErr)
	}
	return render.JSON(a.out, out)
}

func newPod(d launcher.Description) *pod {
	if d.Pod == "" {
		return nil
	}
	out := &pod{
		Namespace: d.Namespace, Node: d.Node, Image: d.Image, IP: d.IP, Connection: d.Connection, Bounds: d.Bounds,
		Phase: d.Phase, Reason: d.Reason, Restarts: d.Restarts, LastEnd: d.LastEnd, Labels: d.Labels,
		Key: d.Key, KeyIsOurs: d.KeyIsOurs, Owner: d.Owner, Events: []event{},
	}
	for _, e := range d.Events {
		out.Events = append(out.Events, event{e.Time, e.Type, e.Reason, e.Message, e.Count})
	}
	for _, problem := range d.Problems {
		out.Problems = append(out.Problems, problem.Error())
	}
	return out
}

func newAgent(info *podapi.Info) *agent {
	if info == nil {
		return nil
	}
	var paths []protected
	for _, p := range info.Protected {
		paths = append(paths, protected{render.Text(p.Path), p.By})
	}
	expires := ""
	if !info.Expires.IsZero() {
		expires = info.Expires.UTC().Format(time.RFC3339)
	}
	return &agent{
		info.Version, info.ProtocolMajor, info.ProtocolMinor, info.BootID, info.PodUID, info.UID, info.GID,
		render.Text(info.Workdir), info.Idle.Milliseconds(), info.Capabilities, info.OS, info.Arch, info.Confinement, newIsolated(info.Isolation), newEgressInfo(info.Egress), paths,
		info.IdleTimeout.Milliseconds(), expires,
	}
}

// isolated says what keeps a sandbox of the local backend from its machine. Without a level nothing does.
type isolated struct {
	Level          isolation.Level   `json:"level,omitempty"`
	Missing        string            `json:"missing,omitempty"`
	Limiter        isolation.Limiter `json:"limiter,omitempty"`
	NoControlGroup string            `json:"no_control_group,omitempty"`
}

// newIsolated returns nil for a sandbox in a pod.
func newIsolated(is isolation.Info) *isolated {
	if is == (isolation.Info{}) {
		return nil
	}
	return &isolated{is.Level, is.Missing, is.Limiter, is.NoControlGroup}
}

// newEgressInfo returns nil if there is no proxy.
func newEgressInfo(is wayout.Info) *egressInfo {
	if is == (wayout.Info{}) {
		return nil
	}
	return &egressInfo{is.Level, is.Port, is.Served, is.Missing}
}

func newProcesses(list []podapi.ProcessInfo) []process {
	out := make([]process, len(list))
	for i, p := range list {
		out[i] = process{
			ID: p.ID, PID: p.PID, Script: render.Text(p.Script), Cut: p.CommandCut,
			Terminal: p.Terminal, Started: p.Started.UTC(),
			Stdout: p.Stdout, Stderr: p.Stderr, StdoutKept: p.StdoutKept, StderrKept: p.StderrKept,
		}
		for _, arg := range p.Args {
			out[i].Args = append(out[i].Args, render.Text(arg))
		}
		if p.Status != nil {
			out[i].Reason, out[i].Code, out[i].Signal = p.Status.Reason, &p.Status.Code, p.Status.Signal
		}
	}
	return out
}
