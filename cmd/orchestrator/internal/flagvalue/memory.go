package flagvalue

import (
	"errors"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
)

// InMemory is a flag for how many bytes of files a sandbox may have in memory; 0 stands for files on disk. Without a
// size it is the library's default.
type InMemory int64

func (m *InMemory) Type() string { return "SIZE" }

func (m *InMemory) String() string {
	if *m == 0 {
		return ""
	}
	return resource.NewQuantity(int64(*m), resource.BinarySI).String()
}

// Set takes a size, or a word as flags without a value have it.
func (m *InMemory) Set(s string) error {
	size, err := resource.ParseQuantity(s)
	if err == nil && size.Sign() >= 0 {
		*m = InMemory(size.Value())
		return nil
	}
	on, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("it is not a size such as 2Gi, true or false")
	}
	*m = 0
	if on {
		*m = launcher.DefaultEphemeral
	}
	return nil
}
