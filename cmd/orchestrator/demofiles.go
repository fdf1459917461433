package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

func (d *demo) push(ctx context.Context) error {
	opts := podapi.TransferOptions{
		ArchiveOptions: fsops.ArchiveOptions{Ignore: true, Exclude: []string{".git"}},
		ExtractOptions: fsops.ExtractOptions{OutsideLinks: true},
	}
	command := []string{"orchestrator", "cp", "--ignore", "--exclude .git", "--outside-links", quote(filepath.Clean(d.dir) + "/."), d.sandbox.ID + ":"}
	return d.step("Copy the source tree into it", command, func() error {
		stats, err := d.sandbox.Push(ctx, d.dir, ".", opts)
		if err != nil {
			return err
		}
		d.result(fmt.Sprintf("%d files and directories, %s", stats.Entries, bytesText(stats.Bytes)))
		return nil
	})
}

// instructionFiles are where a project tells agents, or people, how to work on
// it.
var instructionFiles = []string{"AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md", "README.md"}

func (d *demo) instructions(ctx context.Context) error {
	name := ""
	for _, candidate := range instructionFiles {
		if _, err := d.sandbox.Stat(ctx, candidate); err == nil {
			name = candidate
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if name == "" {
		return nil
	}
	const window = 6
	return d.step("Read the instructions", d.command("cat", name, fmt.Sprintf("--lines :%d", window)), func() error {
		lines, err := d.sandbox.ReadLines(ctx, name, fsops.LineOptions{Max: window})
		if err != nil {
			return err
		}
		d.result(string(lines.Text))
		d.result(fmt.Sprintf("[lines %d-%d of %d]", lines.First, lines.First+lines.Count-1, lines.Total))
		return nil
	})
}

// command returns the command line of a verb in the demo's sandbox.
func (d *demo) command(verb string, args ...string) []string {
	return append([]string{"orchestrator", verb, d.sandbox.ID}, args...)
}

func (d *demo) read(ctx context.Context) error {
	const before, window = 2, 8
	first := max(d.line-before, 1)
	title := "Read some lines around the first match"
	return d.step(title, d.command("cat", quote(d.file), fmt.Sprintf("--lines %d:%d", first, first+window-1)), func() error {
		lines, err := d.sandbox.ReadLines(ctx, d.file, fsops.LineOptions{First: first, Max: window})
		if err != nil {
			return err
		}
		d.result(string(lines.Text))
		return nil
	})
}

func (d *demo) edit(ctx context.Context) error {
	content, err := d.sandbox.ReadFile(ctx, d.file)
	if err != nil {
		return err
	}
	old := uniqueText(content, d.line)
	d.mark = comment(d.file, "Reviewed in sandbox "+d.sandbox.ID+".")
	edit := fsops.Edit{Old: old, New: []byte(d.mark + "\n" + string(old))}
	command := d.command("edit", quote(d.file), "--old "+quote(trimLine(string(old), demoColumns/2)), "--new …")
	return d.step("Edit that file", command, func() error {
		result, err := d.sandbox.Edit(ctx, d.file, []fsops.Edit{edit}, fsops.EditOptions{})
		if err != nil {
			return err
		}
		d.result(string(result.Diff))
		return nil
	})
}

// uniqueText returns a line of content that occurs only once in it, the first
// from the line with this number on, or else from the beginning; if there is
// none, the whole content.
func uniqueText(content []byte, line int64) []byte {
	lines := bytes.Split(content, []byte("\n"))
	start := min(max(int(line)-1, 0), len(lines))
	for _, text := range append(lines[start:len(lines):len(lines)], lines[:start]...) {
		if len(bytes.TrimSpace(text)) > 0 && bytes.Count(content, text) == 1 {
			return text
		}
	}
	return content
}

// comment returns text as a comment in the language of a file.
func comment(file, text string) string {
	switch path.Ext(file) {
	case ".go", ".c", ".h", ".cc", ".cpp", ".java", ".js", ".ts", ".rs", ".swift", ".kt", ".proto":
		return "// " + text
	case ".md", ".html", ".xml":
		return "<!-- " + text + " -->"
	}
	return "# " + text
}

func (d *demo) pull(ctx context.Context) error {
	opts := podapi.TransferOptions{ExtractOptions: fsops.ExtractOptions{OutsideLinks: true}}
	command := []string{"orchestrator", "cp", "--outside-links", d.sandbox.ID + ":.", quote(d.temp)}
	return d.step("Copy the result to this machine", command, func() error {
		stats, err := d.sandbox.Pull(ctx, ".", d.temp, opts)
		if err != nil {
			return err
		}
		d.result(fmt.Sprintf("%d files and directories, %s", stats.Entries, bytesText(stats.Bytes)))
		return d.compare()
	})
}

// compare shows that the copy has the edit, and the original has not.
func (d *demo) compare() error {
	original, err := os.ReadFile(filepath.Join(d.dir, d.file))
	if err != nil {
		return err
	}
	edited, err := os.ReadFile(filepath.Join(d.temp, d.file))
	if err != nil {
		return err
	}
	at := bytes.Index(edited, []byte(d.mark))
	if at < 0 || bytes.Contains(original, []byte(d.mark)) {
		return fmt.Errorf("the copy of %s lacks the edit", d.file)
	}
	d.result(d.file)
	d.result(fmt.Sprintf("  original  sha256 %x…", sha256.Sum256(original))[:36] + "…")
	d.result(fmt.Sprintf("  copy      sha256 %x…", sha256.Sum256(edited))[:36] + "…")
	d.result(fmt.Sprintf("  line %d: %s", 1+bytes.Count(edited[:at], []byte("\n")), d.mark))
	return nil
}
