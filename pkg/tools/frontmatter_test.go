package tools

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzFrontMatter(f *testing.F) {
	for _, seed := range []string{
		"", "---", "---\n---", "---\nname: a\ndescription: b\n---\nbody", "\uFEFF---\r\nname: 'a\r\n...\r\n", "---\n- a\n---",
		"---\na: &a [*a]\n---", "---\nname: !!binary aGk=\n---", "---\nname: [\n---", "---\n? {name: a}\n---", "---\nname: \xff\n---",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		skill, _ := parseSkill("dir", strings.Split(text, "\n"))
		if skill.Name == "" || skill.Path != ".agents/skills/dir/SKILL.md" {
			t.Errorf("%+v", skill)
		}
		for _, said := range []string{skill.Name, skill.Description} {
			if strings.ContainsAny(said, "\n\r") || len(said) > MaxSkillText+len("…") || !utf8.ValidString(said) {
				t.Errorf("%q", said)
			}
		}
	})
}
