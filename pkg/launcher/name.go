package launcher

import (
	"crypto/rand"
	"strings"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

func nameOf(id string) string { return podmeta.NameOf(id) }

// newID makes up an id for a sandbox that was launched without one.
func newID() string { return "sandbox-" + strings.ToLower(rand.Text()[:12]) }
