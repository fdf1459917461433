//go:build linux && !race

package escapes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

// call is a try by a call of the API. It returns what the call gave. dir is outside, and the try's own.
type call func(ctx context.Context, c *podapi.Client, e *escapee, dir string) (string, error)

// tryCalls tries all calls in a sandbox.
func (e *escapee) tryCalls(ctx context.Context, p *pair) error {
	calls := allCalls(p)
	victims, err := e.makeVictims(string(p.level)+"-calls", slices.Collect(maps.Keys(calls)))
	if err != nil {
		return err
	}
	if e.results[p.level] == nil {
		e.results[p.level] = map[string]*result{}
	}
	for name, try := range calls {
		text, err := try(ctx, p.Client, e, filepath.Join(victims, name))
		r := &result{Kind: "out", Text: text}
		if err != nil {
			r.Kind, r.Text = "refused", err.Error()
		} else if strings.HasPrefix(name, "call: reading") && !strings.Contains(text, e.Secret) {
			r.Kind, r.Text = "refused", "it reads "+text
		}
		e.results[p.level][name] = r
	}
	return e.arrivals(p.level)
}

// allCalls are the tries by calls, by their names.
func allCalls(p *pair) map[string]call {
	calls := map[string]call{}
	for _, some := range []map[string]call{readingCalls(p), listingCalls, changingCalls, executingCalls} {
		for name, c := range some {
			calls["call: "+name] = c
		}
	}
	return calls
}

// reading reads a file, whatever the call is given.
func reading(path func(e *escapee) string) call {
	return func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		data, err := c.ReadFile(ctx, path(e))
		return string(data), err
	}
}

// byLink reads a file by a symbolic link in the workspace.
func byLink(name string, path func(e *escapee) string, below string) call {
	return func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		if err := c.Symlink(ctx, path(e), name); err != nil {
			return "", fmt.Errorf("no link: %w", err)
		}
		data, err := c.ReadFile(ctx, filepath.Join(name, below))
		return string(data), err
	}
}

func readingCalls(p *pair) map[string]call {
	key := func(e *escapee) string { return e.key() }
	of := func(key string) func(e *escapee) string {
		return func(e *escapee) string { return fmt.Sprintf("/proc/%v/%s", e.process.where["pid"], key) }
	}
	return map[string]call{
		"reading a key":                            reading(key),
		"reading a key by a way upward":            reading(func(e *escapee) string { return strings.Repeat("../", 20) + e.key()[1:] }),
		"reading a key by its process's root":      reading(func(e *escapee) string { return "/proc/self/root" + e.key() }),
		"reading a key by a process's root":        reading(func(e *escapee) string { return of("root")(e) + e.key() }),
		"reading a key by a process's directory":   reading(of("cwd/secret")),
		"reading a process's environment":          reading(of("environ")),
		"reading a file that a process has open":   reading(func(e *escapee) string { return of(fmt.Sprint("fd/", e.process.where["fd"]))(e) }),
		"reading a key by a link":                  byLink("link-to-key", key, ""),
		"reading a key by a link to its directory": byLink("link-to-home", func(e *escapee) string { return e.home() }, ".ssh/id"),
		"reading a key by a link of links":         byLink("link-to-link", func(e *escapee) string { return e.path("home/link") }, ""),
		"reading a file in /run":                   reading(func(e *escapee) string { return filepath.Join(e.Run, "f") }),
		"reading a file in /tmp":                   reading(func(e *escapee) string { return e.Temp }),
		"reading another sandbox's file":           reading(func(*escapee) string { return filepath.Join(p.neighbour.Workdir, "secret") }),
		"reading shared memory":                    reading(func(e *escapee) string { return "/dev/shm/" + e.mark() }),
		"reading lines": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
			lines, err := c.ReadLines(ctx, e.key(), fsops.LineOptions{})
			return string(lines.Text), err
		},
		"reading by a search": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
			return first(c.Grep(ctx, "podagent-secret", fsops.GrepOptions{Paths: []string{e.home()}}), func(r fsops.GrepResult) string { return string(r.Text) })
		},
		"reading a tree": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
			var tar bytes.Buffer
			_, err := c.PullTar(ctx, filepath.Dir(e.key()), &tar, fsops.ArchiveOptions{})
			return tar.String(), err
		},
		"reading by a copy": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
			if err := c.Copy(ctx, e.key(), "copied", fsops.CopyOptions{}); err != nil {
				return "", err
			}
			data, err := c.ReadFile(ctx, "copied")
			return string(data), err
		},
		"reading by a copy of a tree": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
			if err := c.Copy(ctx, filepath.Dir(e.key()), "copied-tree", fsops.CopyOptions{Recursive: true}); err != nil {
				return "", err
			}
			data, err := c.ReadFile(ctx, "copied-tree/id")
			return string(data), err
		},
	}
}

// first returns the first result, or why there is none.
func first[T any](results iter.Seq2[T, error], text func(T) string) (string, error) {
	for r, err := range results {
		return text(r), err
	}
	return "", errors.New("there is none")
}

// silent is how long a watch may say nothing before it counts as one that sees nothing.
const silent = 10 * time.Second

var listingCalls = map[string]call{
	"listing": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		return first(c.List(ctx, filepath.Dir(e.key()), fsops.ListOptions{}), func(a fsops.Attr) string { return a.Path })
	},
	"listing another sandbox": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		return first(c.List(ctx, filepath.Dir(e.open.Workdir), fsops.ListOptions{}), func(a fsops.Attr) string { return a.Path })
	},
	"a pattern": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		return first(c.Glob(ctx, e.home()+"/.ss*/*", fsops.GlobOptions{}), func(m fsops.GlobMatch) string { return m.Path })
	},
	"a watch": func(ctx context.Context, c *podapi.Client, e *escapee, dir string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, silent)
		defer cancel()
		opts := fsops.WatchOptions{Ready: func() { _ = os.WriteFile(filepath.Join(filepath.Dir(e.key()), "event"), []byte(dir), 0o600) }}
		return first(c.Watch(ctx, filepath.Dir(e.key()), opts), func(w fsops.WatchEvent) string { return w.Path })
	},
	"what a path is": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		a, err := c.Stat(ctx, e.key())
		return fmt.Sprint(a.Size), err
	},
	"where a link leads": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		return c.Readlink(ctx, e.path("home/link"))
	},
}

// changing is a try whose result shows outside.
func changing(change func(ctx context.Context, c *podapi.Client, dir string) error) call {
	return func(ctx context.Context, c *podapi.Client, _ *escapee, dir string) (string, error) {
		if err := change(ctx, c, dir); err != nil {
			return "", err
		}
		return "", errors.New("it says that it is done")
	}
}

var changingCalls = map[string]call{
	"writing": changing(func(ctx context.Context, c *podapi.Client, dir string) error {
		return c.WriteFile(ctx, dir+"/f", []byte("x"), 0o600)
	}),
	"making a file": changing(func(ctx context.Context, c *podapi.Client, dir string) error {
		return c.WriteFile(ctx, dir+"/.bashrc", []byte("x"), 0o600)
	}),
	"writing by a link": changing(func(ctx context.Context, c *podapi.Client, dir string) error {
		return errors.Join(c.Symlink(ctx, dir+"/f", "link-to-write"), c.WriteFile(ctx, "link-to-write", []byte("x"), 0o600))
	}),
	"writing below a link": changing(func(ctx context.Context, c *podapi.Client, dir string) error {
		return errors.Join(c.Symlink(ctx, dir, "link-to-dir"), c.WriteFile(ctx, "link-to-dir/new", []byte("x"), 0o600))
	}),
	"an edit": changing(func(ctx context.Context, c *podapi.Client, dir string) error {
		_, err := c.Edit(ctx, dir+"/f", []fsops.Edit{{Old: []byte("before"), New: []byte("after")}}, fsops.EditOptions{})
		return err
	}),
	"making a directory": changing(func(ctx context.Context, c *podapi.Client, dir string) error { return c.Mkdir(ctx, dir+"/new", 0o700) }),
	"removing":           changing(func(ctx context.Context, c *podapi.Client, dir string) error { return c.Remove(ctx, dir+"/f") }),
	"removing a tree":    changing(func(ctx context.Context, c *podapi.Client, dir string) error { return c.RemoveAll(ctx, dir+"/d") }),
	"renaming": changing(func(ctx context.Context, c *podapi.Client, dir string) error {
		return c.Rename(ctx, dir+"/f", dir+"/new")
	}),
	"taking a file": changing(func(ctx context.Context, c *podapi.Client, dir string) error {
		return c.Rename(ctx, dir+"/f", "taken-f")
	}),
	"moving a file into it": changing(func(ctx context.Context, c *podapi.Client, dir string) error {
		return errors.Join(c.WriteFile(ctx, "own", nil, 0o600), c.Rename(ctx, "own", dir+"/f"))
	}),
	"copying a file into it": changing(func(ctx context.Context, c *podapi.Client, dir string) error {
		return errors.Join(c.WriteFile(ctx, "own-2", nil, 0o600), c.Copy(ctx, "own-2", dir+"/new", fsops.CopyOptions{}))
	}),
	"making a symbolic link": changing(func(ctx context.Context, c *podapi.Client, dir string) error { return c.Symlink(ctx, "f", dir+"/new") }),
	"changing a mode":        changing(func(ctx context.Context, c *podapi.Client, dir string) error { return c.Chmod(ctx, dir+"/f", 0o640) }),
	"changing a mode by a link": changing(func(ctx context.Context, c *podapi.Client, dir string) error {
		return errors.Join(c.Symlink(ctx, dir+"/f", "link-to-chmod"), c.Chmod(ctx, "link-to-chmod", 0o640))
	}),
	"putting a tree": changing(func(ctx context.Context, c *podapi.Client, dir string) error {
		source, err := os.MkdirTemp("", "")
		if err != nil {
			return err
		}
		defer os.RemoveAll(source)
		if err := os.WriteFile(source+"/f", nil, 0o600); err != nil {
			return err
		}
		_, err = c.Push(ctx, source, dir, podapi.TransferOptions{})
		return err
	}),
	"writing a terminal": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		_, err := c.Write(ctx, fmt.Sprint(e.process.where["terminal"]), strings.NewReader("x"), fsops.WriteOptions{})
		return "it writes", err
	},
	"a terminal": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, silent)
		defer cancel()
		_, err := c.ReadFile(ctx, fmt.Sprint(e.process.where["terminal"]))
		return "it reads", err
	},
	"writing whom the kernel kills first": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		_, err := c.Write(ctx, fmt.Sprintf("/proc/%v/oom_score_adj", e.process.where["pid"]), strings.NewReader("901"), fsops.WriteOptions{})
		return "it writes", err
	},
	"writing a setting of the kernel": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		setting := "/proc/sys/vm/overcommit_memory"
		is, err := os.ReadFile(setting)
		if err != nil {
			return "", err
		}
		_, err = c.Write(ctx, setting, bytes.NewReader(is), fsops.WriteOptions{})
		return "it writes", err
	},
}

// typingByCall is a try in a terminal that a caller gives a command, as "orchestrator shell" does. The filter of
// calls confines commands at the level none, too, so that it leads out nowhere but outside.
const typingByCall = "call: input for the terminal of a command"

var executingCalls = map[string]call{
	"a command in a directory outside": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		cmd := c.Command(ctx, "true")
		cmd.Dir = filepath.Dir(e.key())
		return "it runs", cmd.Run()
	},
	"reading by a command in a directory outside": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		cmd := c.Command(ctx, "cat", "id")
		cmd.Dir = filepath.Dir(e.key())
		out, err := cmd.Output()
		return string(out), err
	},
	"reading by a program outside": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		out, err := c.Command(ctx, e.path("home/bin/tool")).Output()
		return string(out), err
	},
	"reading by a path of programs": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		cmd := c.Command(ctx, "tool")
		cmd.Env = []string{"PATH=" + e.path("home/bin") + ":/usr/bin:/bin"}
		out, err := cmd.Output()
		return string(out), err
	},
	typingByCall[len("call: "):]: func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		cmd := c.Command(ctx, "python3", "-c", `import fcntl, termios; fcntl.ioctl(1, termios.TIOCSTI, b"x")`)
		cmd.Terminal = &podapi.TerminalSize{Rows: 24, Columns: 80}
		out, err := cmd.Output()
		if err != nil && !bytes.Contains(out, []byte("Operation not permitted")) {
			return fmt.Sprintf("it does not come to the kernel: %v: %s", err, out), nil
		}
		return "it types", err
	},
	"a port of the machine": func(ctx context.Context, c *podapi.Client, e *escapee, _ string) (string, error) {
		conn, err := c.Dial(ctx, int(e.process.where["tcp"].(float64)))
		if err != nil {
			return "", err
		}
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
		return "it answers", err
	},
}
