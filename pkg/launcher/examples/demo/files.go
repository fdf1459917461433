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
	"slices"

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

// instructionFiles tell agents, or people, how to work on a project.
var instructionFiles = []string{"AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md", "README.md"}

func (d *demo) instructions(ctx context.Context) error {
	name := ""
	for _, candidate := range instructionFiles {
		if info, err := d.sandbox.Stat(ctx, candidate); err == nil && info.Size > 0 {
			name = candidate
			break
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
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
		if lines.Count == 0 {
			return fmt.Errorf("%s has no lines", name)
		}
		d.result(string(lines.Text))
		d.result(fmt.Sprintf("[lines %d-%d of %d]", lines.First, lines.First+lines.Count-1, lines.Total))
		return nil
	})
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
		if lines.First != first || lines.Count <= d.line-first {
			return fmt.Errorf("got %d lines from line %d on, without line %d", lines.Count, lines.First, d.line)
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
	d.made = fsops.Edit{Old: old, New: []byte(d.mark + "\n" + string(old))}
	command := d.command("edit", quote(d.file), "--old "+quote(trimLine(string(old), columns/2)), "--new …")
	return d.step("Edit that file", command, func() error {
		result, err := d.sandbox.Edit(ctx, d.file, []fsops.Edit{d.made}, fsops.EditOptions{})
		if err != nil {
			return err
		}
		if !bytes.Contains(result.Diff, []byte("\n+"+d.mark+"\n")) {
			return fmt.Errorf("the diff lacks the added line: %q", result.Diff)
		}
		d.result(string(result.Diff))
		return nil
	})
}

// uniqueText returns the first line from this line number on that occurs only once
// in content. If there is none, it searches from the beginning; if there is still
// none, it returns the whole content.
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

// compare checks that every file of the copy equals the original, except for the
// edit, which the original must not have.
func (d *demo) compare() error {
	others := slices.DeleteFunc(slices.Clone(d.paths), func(name string) bool { return name == d.file })
	for _, name := range append(others, d.file) {
		original, err := os.ReadFile(filepath.Join(d.dir, name))
		if err != nil {
			return err
		}
		copied, err := os.ReadFile(filepath.Join(d.temp, name))
		if err != nil {
			return fmt.Errorf("the copy is incomplete: %w", err)
		}
		want := original
		if name == d.file {
			want = bytes.Replace(original, d.made.Old, d.made.New, 1)
			d.showEdit(original, copied)
		}
		if !bytes.Equal(copied, want) {
			return fmt.Errorf("the copy of %s is not the original with the edit", name)
		}
	}
	d.result(fmt.Sprintf("[%d other files are unchanged]", len(others)))
	return nil
}

// showEdit prints the difference between the two versions of the edited file.
func (d *demo) showEdit(original, edited []byte) {
	d.result(d.file)
	d.result(fmt.Sprintf("  original  sha256 %.9x…", sha256.Sum256(original)))
	d.result(fmt.Sprintf("  copy      sha256 %.9x…", sha256.Sum256(edited)))
	if before, _, ok := bytes.Cut(edited, []byte(d.mark)); ok {
		d.result(fmt.Sprintf("  line %d: %s", 1+bytes.Count(before, []byte("\n")), d.mark))
	}
}
