package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
)

// glob finds the Go files, or all files if there are none.
func (d *demo) glob(ctx context.Context) error {
	pattern := "**/*.go"
	if has, err := d.has(ctx, pattern); err != nil {
		return err
	} else if !has {
		pattern = "**/*"
	}
	return d.step("Find files by name", d.command("glob", quote(pattern)), func() error {
		for match, err := range d.sandbox.Glob(ctx, pattern, fsops.GlobOptions{Sort: fsops.GlobByName}) {
			if errors.Is(err, fsops.ErrSkipped) {
				break
			}
			if err != nil {
				return err
			}
			if match.Type.IsRegular() {
				d.paths = append(d.paths, match.Path)
			}
		}
		if len(d.paths) == 0 {
			return fmt.Errorf("there is nothing to show: %s has no files", quote(d.dir))
		}
		if err := d.areHere(); err != nil {
			return err
		}
		const some = 4
		d.result(strings.Join(d.paths[:min(some, len(d.paths))], "\n"))
		if more := len(d.paths) - some; more > 0 {
			d.result(fmt.Sprintf("[and %d more]", more))
		}
		return nil
	})
}

// areHere checks that the local tree has the files found in the sandbox.
func (d *demo) areHere() error {
	for _, name := range d.paths {
		if _, err := os.Lstat(filepath.Join(d.dir, name)); err != nil {
			return fmt.Errorf("%s was found, but is not in the tree: %w", name, err)
		}
	}
	return nil
}

func (d *demo) has(ctx context.Context, pattern string) (bool, error) {
	for match, err := range d.sandbox.Glob(ctx, pattern, fsops.GlobOptions{}) {
		if err == nil && match.Type.IsRegular() {
			return true, nil
		}
		if err != nil && !errors.Is(err, fsops.ErrSkipped) {
			return false, err
		}
	}
	return false, nil
}

// searches are tried in order until one finds something.
var searches = []struct {
	pattern string
	include []string
}{
	{`func Test\w+`, []string{"*.go"}},
	{`func \w+`, []string{"*.go"}},
	{`\w+`, nil},
}

func (d *demo) grep(ctx context.Context) error {
	for _, s := range searches[:len(searches)-1] {
		matches, err := d.matches(ctx, s.pattern, fsops.GrepOptions{Include: s.include, Limit: 1})
		if err != nil {
			return err
		}
		if len(matches) > 0 {
			return d.search(ctx, s.pattern, s.include)
		}
	}
	last := searches[len(searches)-1]
	return d.search(ctx, last.pattern, last.include)
}

func (d *demo) matches(ctx context.Context, pattern string, opts fsops.GrepOptions) ([]fsops.GrepResult, error) {
	var matches []fsops.GrepResult
	for r, err := range d.sandbox.Grep(ctx, pattern, opts) {
		if errors.Is(err, fsops.ErrSkipped) {
			break
		}
		if err != nil {
			return nil, err
		}
		matches = append(matches, r)
	}
	return matches, nil
}

// search shows matches, and remembers the place of the first.
func (d *demo) search(ctx context.Context, pattern string, include []string) error {
	const some = 5
	command := d.command("grep", quote(pattern))
	for _, glob := range include {
		command = append(command, "-g "+quote(glob))
	}
	return d.step("Search in files", append(command, fmt.Sprintf("--sort path --max %d", some)), func() error {
		matches, err := d.matches(ctx, pattern, fsops.GrepOptions{Include: include, Limit: some, Sort: true})
		if err != nil {
			return err
		}
		if len(matches) == 0 {
			return fmt.Errorf("there is nothing to show: the files in %s have no text", quote(d.dir))
		}
		d.file, d.line = matches[0].Path, matches[0].Line
		for _, m := range matches {
			d.result(fmt.Sprintf("%s:%d:%s", m.Path, m.Line, m.Text))
		}
		return nil
	})
}
