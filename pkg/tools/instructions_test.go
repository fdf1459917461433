package tools_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/tools"
)

func instructions(t *testing.T, h *host) tools.Project {
	t.Helper()
	p, err := h.Instructions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestInstructionsOfAProjectWithoutAny(t *testing.T) {
	h := newHost(t, tools.Options{})
	if p := instructions(t, h); p.String() != "" {
		t.Errorf("got %q", p)
	}
}

func TestInstructions(t *testing.T) {
	h := newHost(t, tools.Options{})
	h.put("AGENTS.md", "\n\nUse tabs.\n\n")
	h.put("CLAUDE.md", "Run make test.\n")
	skill := func(dir, content string) { h.put(".agents/skills/"+dir+"/SKILL.md", content) }
	skill("release", "---\nname: release-notes\ndescription: Writes the notes of a release.\n---\n# Body\nname: not this\n")
	skill("a-plain", "# No front matter\n")
	skill("b-folded", "---\r\nname: folded\r\ndescription: >\r\n  Over two\r\n  lines: with a colon.\r\n---\r\n")
	skill("c-malformed", "---\nname: [unclosed\n---\n")
	skill("d-endless", "---\nname: endless\n")
	skill("e-empty", "")
	skill("f-number", "---\nname: 42\n---\n")
	skill("g-long", "---\ndescription: "+strings.Repeat("x", 1023)+"é"+"\n---\n")
	skill("h-list", "---\n- a\n---\n")
	skill("i/deeper", "---\nname: too deep\n---\n")
	h.put(".agents/skills/README.md", "no skill")
	h.put("shared/SKILL.md", "---\nname: linked\n---\n")
	if err := os.Symlink("../../shared", h.workdir+"/.agents/skills/j-link"); err != nil {
		t.Fatal(err)
	}
	h.put(".gitignore", ".agents\n")
	compareGolden(t, "instructions", h.stable(instructions(t, h).String())+"\n")
}

func TestInstructionsThatAreTheSameAreThereOnce(t *testing.T) {
	h := newHost(t, tools.Options{})
	h.put("AGENTS.md", "The same.\n")
	if err := os.Symlink("AGENTS.md", h.workdir+"/CLAUDE.md"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tools.Project{Instructions: "The same."}, instructions(t, h)); diff != "" {
		t.Error(diff)
	}
	h.put("AGENTS.md", " \n")
	if p := instructions(t, h); p.Instructions != "" {
		t.Errorf("got %q", p.Instructions)
	}
}

func TestInstructionsSayTheirLimits(t *testing.T) {
	h := newHost(t, tools.Options{})
	h.put("AGENTS.md", strings.Repeat("0123456789abcde\n", 5000))
	if err := os.Mkdir(h.workdir+"/CLAUDE.md", 0o777); err != nil {
		t.Fatal(err)
	}
	for i := range tools.MaxSkills + 1 {
		h.put(fmt.Sprintf(".agents/skills/s%03d/SKILL.md", i), "---\ndescription: d\n---\n")
	}
	p := instructions(t, h)
	if len(p.Instructions) > tools.MaxInstructions || len(p.Skills) != tools.MaxSkills || p.Skills[tools.MaxSkills-1].Description != "d" {
		t.Errorf("%d bytes, %d skills", len(p.Instructions), len(p.Skills))
	}
	want := []string{
		"AGENTS.md is longer than 64 KiB: this is its beginning; read the rest from line 4097 on",
		`CLAUDE.md could not be read: it is a directory. Use Glob with a pattern such as "*" in it to list it.`,
		"there are more than 200 skills: use Glob with .agents/skills/*/SKILL.md to see all",
	}
	if diff := cmp.Diff(want, p.Notes); diff != "" {
		t.Error(diff)
	}
}

func TestInstructionsOfAnotherDirectory(t *testing.T) {
	h := newHost(t, tools.Options{Workdir: "sub"})
	h.put("sub/AGENTS.md", "Of sub.")
	h.put("sub/.agents/skills/x/SKILL.md", "---\ndescription: Of x.\n---\n")
	want := "Of sub.\n\nSkills:\n- x (read .agents/skills/x/SKILL.md before using it) - Of x."
	p := instructions(t, h)
	if p.String() != want {
		t.Errorf("got %q", p)
	}
	has(t, h.text("Read", `{"path": "`+p.Skills[0].Path+`"}`), "Of x.")
}

func TestInstructionsSayWhatCouldNotBeRead(t *testing.T) {
	h := newHost(t, tools.Options{})
	h.put("AGENTS.md/file", "")
	h.put("CLAUDE.md", strings.Repeat("x", tools.MaxInstructions+1))
	h.put(".agents/skills/binary/SKILL.md", "---\nname: a\x00b\n---\n")
	h.put(".agents/skills/dangling/file", "")
	h.put(".agents/skills/loop/file", "")
	for name, target := range map[string]string{"dangling": "nowhere", "loop": "SKILL.md"} {
		if err := os.Symlink(target, filepath.Join(h.workdir, ".agents/skills", name, "SKILL.md")); err != nil {
			t.Fatal(err)
		}
	}
	p, err := h.Instructions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"AGENTS.md could not be read: it is a directory.",
		"CLAUDE.md is longer than 64 KiB: this is its beginning; the rest of this line and all that follows are left out",
		".agents/skills/binary/SKILL.md: it is empty or binary",
		".agents/skills/dangling/SKILL.md: it could not be read: no such file or directory.",
		".agents/skills/loop/SKILL.md: it could not be read: the path has too many symbolic links.",
	}
	if len(p.Notes) != len(want) {
		t.Errorf("%d notes", len(p.Notes))
	}
	has(t, strings.Join(p.Notes, "\n"), want...)
}

func TestInstructionsThatCannotBeReachedAreANote(t *testing.T) {
	h := newHost(t, tools.Options{})
	h.put("AGENTS.md", "Use tabs.")
	if err := os.Symlink(".agents", filepath.Join(h.workdir, ".agents")); err != nil {
		t.Fatal(err)
	}
	p, err := h.Instructions(t.Context())
	if err != nil || p.Instructions != "Use tabs." {
		t.Errorf("%+v, %v", p, err)
	}
	has(t, p.String(), "(.agents/skills could not be read: the path has too many symbolic links")
}
