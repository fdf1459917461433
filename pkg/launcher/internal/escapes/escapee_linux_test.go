//go:build linux && !race

package escapes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// An escapee launches sandboxes, tries to leave them, and looks what has changed outside.
type escapee struct {
	*stage
	launcher *launcher.Local
	process  *outsideProcess
	open     *pair // at the level none
	results  results

	victims string            // where tries change something
	before  map[string]string // what is there, by the tries' names
	fifos   []*os.File        // those that are there
}

// pair are the sandbox that is tried and another one, at one level.
type pair struct {
	*launcher.Sandbox
	level     isolation.Level
	neighbour *launcher.Sandbox
	process   map[string]any // of the neighbour
}

// escape is the role of an escapee.
func escape() error {
	ctx, cancel := context.WithTimeout(context.Background(), allTries)
	defer cancel()
	e := &escapee{stage: new(stage), results: results{}}
	if err := json.NewDecoder(os.Stdin).Decode(e.stage); err != nil {
		return err
	}
	// What the launcher has inherited must not get into the sandbox.
	if _, err := unix.Open(e.home(), unix.O_RDONLY|unix.O_DIRECTORY, 0); err != nil {
		return err
	}
	e.launcher = &launcher.Local{StateDir: e.path("home/state"), Agent: e.path("podagent")}
	err := e.tryAll(ctx)
	err = errors.Join(err, e.end(context.WithoutCancel(ctx)))
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(e.results)
	}
	return err
}

// tryAll tries all that there is, level by level.
func (e *escapee) tryAll(ctx context.Context) (err error) {
	if err := e.startOutside(ctx); err != nil {
		return fmt.Errorf("the process outside: %w", err)
	}
	for _, level := range []isolation.Level{atNone, isolation.Landlock, isolation.Namespaces} {
		p, err := e.launch(ctx, level)
		if err != nil {
			return err
		}
		if level == atNone {
			e.open = p
			err = e.tryCommands(ctx, p, atOutside)
		} else {
			err = e.tryCommands(ctx, p, level)
		}
		if err == nil {
			err = e.tryCalls(ctx, p)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", level, err)
		}
	}
	return nil
}

// end ends the sandboxes.
func (e *escapee) end(ctx context.Context) error {
	list, err := e.launcher.List(ctx)
	for _, s := range list {
		err = errors.Join(err, e.launcher.Terminate(ctx, s.ID))
	}
	if e.process != nil {
		err = errors.Join(err, e.process.end())
	}
	return err
}

// launch makes the sandboxes of a level.
func (e *escapee) launch(ctx context.Context, level isolation.Level) (p *pair, err error) {
	p = &pair{level: level}
	e.launcher.Isolation, e.launcher.Readable = isolation.Mode(level), nil
	if level != atNone {
		e.launcher.Readable = []string{e.readable()}
	}
	if p.Sandbox, err = e.launcher.Launch(ctx, launcher.Spec{ID: string(level)}); err != nil {
		return nil, err
	}
	if p.neighbour, err = e.launcher.Launch(ctx, launcher.Spec{ID: "beside-" + string(level)}); err != nil {
		return nil, err
	}
	if err := e.startBeside(ctx, p); err != nil {
		return nil, fmt.Errorf("the other sandbox: %w", err)
	}
	_, err = p.Push(ctx, e.path("escape"), "escape", podapi.TransferOptions{})
	return p, err
}

// tryCommands runs the program of tries in a sandbox, or outside.
func (e *escapee) tryCommands(ctx context.Context, p *pair, at isolation.Level) error {
	facts, err := e.facts(p, at)
	if err != nil {
		return err
	}
	var out []byte
	if at == atOutside {
		if err := os.WriteFile(e.path("facts.json"), facts, 0o600); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "python3", e.path("escape/escape.py"), e.path("facts.json"))
		cmd.Dir = e.path("work")
		cmd.Stderr = os.Stderr
		out, err = cmd.Output()
	} else {
		if err := p.WriteFile(ctx, "facts.json", facts, 0o600); err != nil {
			return err
		}
		cmd := p.Command(ctx, "python3", "escape/escape.py", "facts.json")
		cmd.Stderr = os.Stderr
		out, err = cmd.Output()
	}
	if err != nil {
		return err
	}
	var outcomes map[string][2]string // kinds and texts
	if err := json.Unmarshal(out, &outcomes); err != nil {
		return err
	}
	e.results[at] = map[string]*result{}
	for name, outcome := range outcomes {
		e.results[at][name] = &result{Kind: outcome[0], Text: outcome[1]}
	}
	if at == atOutside {
		e.results[at][typingByCall] = e.results[at]["input for a terminal that it makes"]
	}
	for name, path := range map[string]string{
		"a file among the sandboxes":  filepath.Join(e.launcher.StateDir, "new"),
		"a file beside the workspace": filepath.Join(filepath.Dir(p.Workdir), "new"),
	} {
		e.results[at][name].Arrived = os.Remove(path) == nil
	}
	return e.arrivals(at)
}

// arrivals notes what has reached the process outside, and what is changed.
func (e *escapee) arrivals(at isolation.Level) error {
	names, err := e.process.arrived()
	if err != nil {
		return err
	}
	changed, err := e.changes()
	for _, name := range append(names, changed...) {
		if r := e.results[at][name]; r != nil {
			r.Arrived = true
		} else {
			err = errors.Join(err, fmt.Errorf("%q arrives and is no try", name))
		}
	}
	return err
}
