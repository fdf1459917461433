package flagvalue

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
)

// InMemory is a flag for how many bytes of files a sandbox may have in memory.
type InMemory struct {
	Bytes   int64 // 0 stands for files on disk
	Unsized bool  // the flag had no size, so that Bytes is the library's default
}

// Unsized is what a flag without a size has in place of one.
const Unsized = "SIZE"

// Type is empty, since the help appends [Unsized] to the flag: --ephemeral[=SIZE].
func (m *InMemory) Type() string { return "" }

func (m *InMemory) String() string {
	if m.Bytes == 0 {
		return ""
	}
	return resource.NewQuantity(m.Bytes, resource.BinarySI).String()
}

// Set takes a size, or a word for whether files are in memory at all.
func (m *InMemory) Set(s string) error {
	size, err := resource.ParseQuantity(s)
	if err == nil && size.Sign() >= 0 {
		*m = InMemory{Bytes: size.Value()}
		return nil
	}
	on, err := strconv.ParseBool(s)
	if err != nil && s != Unsized {
		return errors.New("it is not a size such as 2Gi, true or false")
	}
	*m = InMemory{}
	if on || s == Unsized {
		*m = InMemory{launcher.DefaultEphemeral, true}
	}
	return nil
}

// sizeWord matches what is a size and hardly anything else.
var sizeWord = regexp.MustCompile(`^[0-9.]+[KMGT]i?$`)

// CheckNext returns an error if the first argument of the verb looks like the size that the flag has not.
func (m *InMemory) CheckNext(args []string) error {
	if !m.Unsized || len(args) == 0 || !sizeWord.MatchString(args[0]) {
		return nil
	}
	return fmt.Errorf("--ephemeral takes its size after an equals sign: --ephemeral=%s", args[0])
}
