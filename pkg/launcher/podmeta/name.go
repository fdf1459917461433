package podmeta

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// The parts of a sandbox's name. Together they stay under the 63 characters
// of a host name, which every place that a sandbox may run in accepts.
const (
	nameSafe = 40 // of the id, for people
	nameHash = 16 // hex digits of its SHA-256, against collisions
)

var unsafeName = regexp.MustCompile(`[^a-z0-9]+`)

// NameOf returns the name of the sandbox with this id where it runs: lower case
// letters, digits and hyphens. Equal ids have equal names, and different ids
// different ones.
func NameOf(id string) string {
	safe := strings.Trim(unsafeName.ReplaceAllString(strings.ToLower(id), "-"), "-")
	safe = strings.TrimRight(safe[:min(len(safe), nameSafe)], "-")
	if safe == "" {
		safe = "s"
	}
	sum := sha256.Sum256([]byte(id))
	return safe + "-" + hex.EncodeToString(sum[:])[:nameHash]
}

var unsafeLabel = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// LabelOf returns the value of LabelID for an id. Different ids may have the same: it is for
// people who look for pods.
func LabelOf(id string) string {
	const most = 63 // https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
	safe := strings.Trim(unsafeLabel.ReplaceAllString(id, "-"), "-_.")
	return strings.TrimRight(safe[:min(len(safe), most)], "-_.")
}
