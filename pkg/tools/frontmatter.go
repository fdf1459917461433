package tools

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseSkill returns the skill of the directory with this name from the first
// lines of its file, with a note if they are not as they should be.
func parseSkill(dir string, lines []string) (skill Skill, note string) {
	skill = Skill{Name: dir, Path: skillsDir + "/" + dir + "/" + skillFile}
	matter, note := frontMatter(lines)
	var said struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
	}
	if note == "" {
		err := yaml.Unmarshal([]byte(matter), &said)
		if _, ok := errors.AsType[*yaml.TypeError](err); ok {
			err = errors.New("it is not a mapping with strings for name and description")
		}
		if err != nil {
			note = fmt.Sprintf("its front matter is malformed: %s", oneLine(err.Error()))
		}
	}
	if note != "" {
		return skill, note
	}
	if name := oneLine(said.Name); name != "" {
		skill.Name = name
	}
	skill.Description = oneLine(said.Description)
	for _, text := range []*string{&skill.Name, &skill.Description} {
		if len(*text) > MaxSkillText {
			*text = cut(*text, MaxSkillText)
			note = fmt.Sprintf("its name or description is longer than %d bytes, and was cut", MaxSkillText)
		}
	}
	return skill, note
}

// frontMatter returns the text between two lines of three hyphens at the
// beginning, if any. The note says that the second line is missing.
func frontMatter(lines []string) (matter, note string) {
	const fence = "---"
	if len(lines) == 0 || trimEnd(strings.TrimPrefix(lines[0], "\uFEFF")) != fence {
		return "", ""
	}
	for i, line := range lines[1:] {
		if end := trimEnd(line); end == fence || end == "..." {
			return strings.Join(lines[1:i+1], "\n"), ""
		}
	}
	return "", fmt.Sprintf("its front matter has no end within %d lines", maxFrontMatter)
}

func trimEnd(line string) string { return strings.TrimRight(line, " \t\r") }

// oneLine returns text in valid UTF-8, with all white space as single blanks.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
}
