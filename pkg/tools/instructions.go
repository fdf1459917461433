package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

// Project holds a project's texts for the agents that work on it.
type Project struct {
	// Instructions are the texts of AGENTS.md and CLAUDE.md.
	Instructions string
	// Skills are the skills of .agents/skills, sorted by directory name.
	Skills []Skill
	// Notes say what was left out or could not be read, in a sentence each.
	Notes []string
}

// Skill is a text about one kind of work. An agent reads it before such work.
type Skill struct {
	// Name is the name in the front matter, or the name of the directory.
	Name string
	// Description is one line, and may be empty.
	Description string
	// Path is the file to read, below the project's directory.
	Path string
}

// String returns the skill as listed for a model.
func (s Skill) String() string {
	text := fmt.Sprintf("%s (read %s before using it)", s.Name, s.Path)
	if s.Description != "" {
		text += " - " + s.Description
	}
	return text
}

// String returns instructions, skills and notes as one text for a model; empty
// if there are none.
func (p Project) String() string {
	var parts []string
	if p.Instructions != "" {
		parts = append(parts, p.Instructions)
	}
	if len(p.Skills) > 0 {
		list := []string{"Skills:"}
		for _, s := range p.Skills {
			list = append(list, "- "+s.String())
		}
		parts = append(parts, strings.Join(list, "\n"))
	}
	for _, n := range p.Notes {
		parts = append(parts, "("+n+")")
	}
	return strings.Join(parts, "\n\n")
}

// The files with instructions, in order, and the place of skills.
var instructionFiles = []string{"AGENTS.md", "CLAUDE.md"}

const skillsDir, skillFile = ".agents/skills", "SKILL.md"

// Instructions reads the texts for agents of the project in dir of the sandbox,
// in the time of one round trip. An empty dir means the sandbox's workdir. The
// instructions are AGENTS.md, then CLAUDE.md: trimmed, without empty texts and
// repetitions, with a blank line between them. The skills are the names and
// descriptions of .agents/skills/*/SKILL.md. Missing files are no error. The
// Notes name files that cannot be read, malformed front matter, and limits that
// were hit.
func Instructions(ctx context.Context, sandbox *launcher.Sandbox, dir string) (Project, error) {
	env := &Env{Sandbox: sandbox, Workdir: dir}
	texts := make([]instruction, len(instructionFiles))
	errs := make([]error, len(texts)+1)
	var skills skills
	var all sync.WaitGroup
	for i, name := range instructionFiles {
		all.Go(func() { texts[i], errs[i] = readInstruction(ctx, env, name) })
	}
	all.Go(func() { skills, errs[len(texts)] = readSkills(ctx, env) })
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return Project{}, fmt.Errorf("reading the project's instructions: %w", err)
	}
	p := Project{Skills: skills.list}
	var parts []string
	for _, t := range texts {
		if t.text != "" && !slices.Contains(parts, t.text) {
			parts = append(parts, t.text)
		}
		p.Notes = append(p.Notes, t.notes...)
	}
	p.Instructions = strings.Join(parts, "\n\n")
	p.Notes = append(p.Notes, skills.notes...)
	return p, nil
}

// Instructions calls the function [Instructions] for the session's sandbox and
// workdir, and redacts the session's secrets.
func (s *Session) Instructions(ctx context.Context) (Project, error) {
	opened, err := s.vault.open(ctx)
	if err != nil {
		return Project{}, err
	}
	p, err := Instructions(ctx, s.sandbox, s.workdir)
	if err != nil {
		return Project{}, opened.redactor.Error(err)
	}
	clean := opened.redactor.Redact
	p.Instructions = clean(p.Instructions)
	for i, s := range p.Skills {
		p.Skills[i] = Skill{Name: clean(s.Name), Description: clean(s.Description), Path: clean(s.Path)}
	}
	for i, n := range p.Notes {
		p.Notes[i] = clean(n)
	}
	return p, nil
}

type instruction struct {
	text  string
	notes []string
}

func readInstruction(ctx context.Context, env *Env, name string) (instruction, error) {
	lines, err := env.Sandbox.ReadLines(ctx, env.Path(name), fsops.LineOptions{MaxBytes: MaxInstructions})
	switch {
	case isAbsent(err):
		return instruction{}, nil
	case err != nil && (ctx.Err() != nil || !isAnswer(err)):
		return instruction{}, err
	case err != nil:
		return instruction{notes: []string{fmt.Sprintf("%s could not be read: %s", name, reason(err))}}, nil
	}
	in := instruction{text: strings.TrimSpace(strings.ToValidUTF8(string(lines.Text), "\uFFFD"))}
	if lines.Truncated {
		rest := fmt.Sprintf("read the rest from line %d on", lines.First+lines.Count)
		if lines.CutLine {
			rest = "the rest of this line and all that follows are left out"
		}
		in.notes = append(in.notes, fmt.Sprintf("%s is longer than %d KiB: this is its beginning; %s", name, MaxInstructions>>10, rest))
	}
	return in, nil
}

// isAbsent reports whether err says that there is no such file.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// skills are the skills found, with notes.
type skills struct {
	list  []Skill
	notes []string
}

// readSkills finds the skills and, at the same time, reads the beginnings of
// their files.
func readSkills(ctx context.Context, env *Env) (skills, error) {
	var names []string
	var heads skillHeads
	var more bool
	var findErr, readErr error
	var all sync.WaitGroup
	all.Go(func() { names, more, findErr = findSkills(ctx, env) })
	all.Go(func() { heads, readErr = readHeads(ctx, env) })
	all.Wait()
	for _, err := range []error{findErr, readErr} {
		if err != nil && (ctx.Err() != nil || !isAnswer(err)) {
			return skills{}, err
		}
		if err != nil {
			return skills{notes: []string{fmt.Sprintf("%s could not be read: %s", skillsDir, reason(err))}}, nil
		}
	}
	var s skills
	for _, name := range names {
		head := heads.of(name)
		skill, note := parseSkill(name, head.lines)
		if head.unread != "" {
			note = head.unread
		}
		s.list = append(s.list, skill)
		if note != "" {
			s.notes = append(s.notes, fmt.Sprintf("%s: %s", skill.Path, note))
		}
	}
	if more {
		s.notes = append(s.notes, fmt.Sprintf("there are more than %d skills: use Glob with %s/*/%s to see all", MaxSkills, skillsDir, skillFile))
	}
	return s, nil
}

// findSkills returns the names of the skills' directories, sorted.
func findSkills(ctx context.Context, env *Env) (names []string, more bool, err error) {
	var stats fsops.GlobStats
	opts := fsops.GlobOptions{Dir: env.Workdir, Limit: MaxSkills, Sort: fsops.GlobByName, Stats: &stats}
	for m, err := range env.Sandbox.Glob(ctx, path.Join(skillsDir, "*", skillFile), opts) {
		switch {
		case errors.Is(err, fsops.ErrSkipped), m.Type.IsDir():
		case isAbsent(err):
			return nil, false, nil
		case err != nil:
			return nil, false, err
		default:
			names = append(names, path.Base(path.Dir(m.Path)))
		}
	}
	return names, stats.Truncated, nil
}

// readHeads returns the heads of the skills' files.
func readHeads(ctx context.Context, env *Env) (skillHeads, error) {
	var stats fsops.GrepStats
	heads := skillHeads{}
	opts := fsops.GrepOptions{
		Paths: []string{env.Path(skillsDir)}, Include: []string{"*/" + skillFile},
		Hidden: true, NoIgnore: true, Follow: true, Sort: true,
		MaxPerFile: maxFrontMatter, Limit: maxFrontMatter * MaxSkills, Stats: &stats,
	}
	for r, err := range env.Sandbox.Grep(ctx, "^", opts) {
		if skipped, ok := errors.AsType[*fsops.SkippedError](err); ok {
			heads.addSkipped(skipped)
			break
		}
		if isAbsent(err) {
			return skillHeads{}, nil
		}
		if err != nil {
			return skillHeads{}, err
		}
		heads.at(r.Path).lines = append(heads.at(r.Path).lines, string(r.Text))
	}
	heads.binary = stats.Binary > 0
	return heads, nil
}
