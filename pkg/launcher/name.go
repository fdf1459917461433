package launcher

import (
	"crypto/rand"
	"strings"
)

// newID makes up an id for a sandbox that was launched without one.
func newID() string { return "sandbox-" + strings.ToLower(rand.Text()[:12]) }
