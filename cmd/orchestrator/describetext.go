package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// A section is a part of a description: a title, and rows of cells.
type section struct {
	title string
	rows  [][]string
}

func (s *section) add(cells ...string) { s.rows = append(s.rows, cells) }

// describeText prints a description for people, in sections.
func (a *app) describeText(d launcher.Description) error {
	sections := []section{sandboxSection(d)}
	if d.Pod != "" {
		sections = append(sections, podSection(d))
	}
	if len(d.Bounds) > 0 {
		sections = append(sections, boundSection(d.Bounds))
	}
	sections = append(sections, agentSection(d))
	if d.AgentErr == nil {
		sections = append(sections, processSection(d.Processes))
	}
	if d.Pod != "" {
		sections = append(sections, eventSection(d.Events))
	}
	var text bytes.Buffer
	for _, s := range sections {
		if err := s.print(&text); err != nil {
			return err
		}
	}
	_, err := a.out.Write(text.Bytes())
	if err == nil {
		for _, problem := range d.Problems {
			a.note("%v", problem)
		}
	}
	return err
}

// print prints the section. It quotes text that would break the table, wherever the
// output goes.
func (s *section) print(w io.Writer) error {
	const quoted = render.Terminal(true)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, s.title)
	for _, row := range s.rows {
		for i, cell := range row {
			row[i] = quoted.Name(cell)
		}
		fmt.Fprintln(table, "  "+strings.Join(row, "\t"))
	}
	return table.Flush()
}

func sandboxSection(d launcher.Description) section {
	s := section{title: "sandbox"}
	s.add("id", d.ID)
	s.add("state", string(d.State))
	s.add("workdir", d.Workdir)
	s.add("created", since(d.CreatedAt))
	return s
}

func podSection(d launcher.Description) section {
	s := section{title: "pod"}
	if d.State == launcher.Paused {
		s.add("namespace", d.Namespace)
		s.add("reason", d.Reason)
		return s
	}
	s.add("name", d.Pod)
	s.add("namespace", d.Namespace)
	s.add("phase", d.Phase)
	if d.Reason != "" {
		s.add("reason", oneLine(d.Reason))
	}
	s.add("node", d.Node)
	s.add("ip", d.IP)
	s.add("connection", string(d.Connection))
	s.add("image", d.Image)
	s.add("restarts", fmt.Sprint(d.Restarts))
	if d.LastEnd != "" {
		s.add("last end", oneLine(d.LastEnd))
	}
	s.add("heartbeat", since(d.Heartbeat))
	s.add("key", d.Key+map[bool]string{true: " (ours)", false: " (not ours)"}[d.KeyIsOurs])
	if d.Owner != "" {
		s.add("owner", d.Owner)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Labels)) {
		s.add("label", name+"="+d.Labels[name])
	}
	return s
}

// boundSection shows the pod's limits and protections.
func boundSection(bounds map[string]string) section {
	s := section{title: "bounds"}
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		s.add(name, bounds[name])
	}
	return s
}

// enforcements say how a path is protected.
var enforcements = map[podapi.Enforcement]string{
	podapi.ByAgent: "by the agent: commands can change it",
	podapi.ByMount: "by a read-only mount: commands cannot change it either",
}

func agentSection(d launcher.Description) section {
	s := section{title: "agent"}
	if info := d.Agent; info != nil {
		s.add("version", fmt.Sprintf("%s (protocol %d.%d, %s/%s)", info.Version, info.ProtocolMajor, info.ProtocolMinor, info.OS, info.Arch))
		s.add("user", fmt.Sprintf("%d:%d", info.UID, info.GID))
		s.add("boot", info.BootID)
		idle := info.Idle.Round(time.Second).String()
		if info.IdleTimeout > 0 {
			idle += fmt.Sprintf(" (ends at %v)", info.IdleTimeout)
		}
		s.add("idle", idle)
		if !info.Expires.IsZero() {
			s.add("expires", info.Expires.UTC().Format(time.RFC3339)+", in "+time.Until(info.Expires).Round(time.Second).String())
		}
		s.add("confined by", cmp.Or(strings.Join(info.Confinement, ", "), "nothing"))
		if is := info.Isolation; is != (isolation.Info{}) {
			s.add("isolated by", cmp.Or(string(is.Level), "nothing")+limiterText(is.Limiter))
			for _, why := range []string{is.Missing, is.NoControlGroup} {
				if why != "" {
					s.add("not better", oneLine(why))
				}
			}
		}
		s.add("egress", egressText(info.Egress))
		if missing := info.Egress.Missing; missing != "" {
			s.add("not stronger", oneLine(missing))
		}
		for _, p := range info.Protected {
			s.add("protected", p.Path, enforcements[p.By])
		}
	}
	if d.AgentErr != nil {
		s.add("not asked", oneLine(message(d.AgentErr)))
	}
	return s
}

// egressText says by which ways commands can leave the sandbox.
func egressText(is wayout.Info) string {
	if is.Level == wayout.Open {
		return "as the network allows"
	}
	served := map[bool]string{true: "served by a far end", false: "without a far end"}[is.Served]
	return fmt.Sprintf("%s: the proxy on port %d, %s", is.Level, is.Port, served)
}

func processSection(list []podapi.ProcessInfo) section {
	s := section{title: "processes"}
	for _, p := range list {
		state := "running"
		if p.Status != nil {
			state = p.Status.String()
		}
		s.add(fmt.Sprint(p.PID), state, age(time.Since(p.Started)), commandText(p))
	}
	if len(list) == 0 {
		s.add("none")
	}
	return s
}

func eventSection(list []launcher.Event) section {
	s := section{title: "events"}
	for _, e := range list {
		s.add(age(time.Since(e.Time)), e.Type, e.Reason, fmt.Sprintf("x%d", e.Count), oneLine(e.Message))
	}
	if len(list) == 0 {
		s.add("none")
	}
	return s
}

// since returns a time for people.
func since(t time.Time) string {
	return fmt.Sprintf("%s (%s ago)", t.Format(time.RFC3339), age(time.Since(t)))
}
