package flagvalue

import (
	"errors"
	"strings"

	"github.com/podagent/podagent/pkg/tools"
)

// Commands is a flag that adds a tool for an executable.
type Commands []tools.Command

func (c *Commands) Type() string { return "NAME=EXECUTABLE" }

func (c *Commands) String() string {
	var texts []string
	for _, command := range *c {
		texts = append(texts, command.Name+"="+command.Path)
	}
	return strings.Join(texts, " ")
}

func (c *Commands) Set(s string) error {
	name, path, _ := strings.Cut(s, "=")
	if name == "" || path == "" {
		return errors.New("it is not NAME=EXECUTABLE, such as gofmt=/usr/local/go/bin/gofmt")
	}
	*c = append(*c, tools.Command{Name: name, Path: path})
	return nil
}
