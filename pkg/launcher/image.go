package launcher

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"unicode"
)

// defaultImage can be set by a build: make build DEFAULT_IMAGE=IMAGE, or -ldflags
// "-X github.com/podagent/podagent/pkg/launcher.defaultImage=IMAGE".
var defaultImage string

// DefaultImage returns the image of a [Pod] that names none: $PODAGENT_IMAGE, or else the
// one that was built in, or none.
func DefaultImage() string { return cmp.Or(os.Getenv("PODAGENT_IMAGE"), defaultImage) }

// withImage returns the Spec with the default image if it names none.
func (s Spec) withImage() Spec {
	s.Pod.Image = cmp.Or(s.Pod.Image, DefaultImage())
	return s
}

// checkImages checks the names of the images. The cluster checks them further.
func (p *Pod) checkImages() *SpecError {
	switch {
	case p.Image == "":
		return &SpecError{"Pod.Image", `is empty: set it, or PODAGENT_IMAGE in the environment, to an image that has podagent and that the nodes can pull; "make image" builds one`}
	case hasSpace(p.Image):
		return &SpecError{"Pod.Image", fmt.Sprintf("%q has white space in it", p.Image)}
	case hasSpace(p.AgentImage):
		return &SpecError{"Pod.AgentImage", fmt.Sprintf("%q has white space in it", p.AgentImage)}
	}
	return nil
}

func hasSpace(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) >= 0
}
