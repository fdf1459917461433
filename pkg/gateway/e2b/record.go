package e2b

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
)

// record is what a sandbox keeps of its create beside what the gateway keeps. It is in labels, since
// nothing else of a sandbox can be set by who makes it.
type record struct {
	Template string            `json:"t,omitempty"`
	Pauses   bool              `json:"p,omitempty"` // at its timeout, rather than to be killed
	Resumes  bool              `json:"r,omitempty"` // by traffic
	Started  time.Time         `json:"s,omitzero"`  // more exactly than launchers know it
	Internet *bool             `json:"i,omitempty"` // what allow_internet_access said
	Metadata map[string]string `json:"m,omitempty"` // that are no labels by themselves
}

// isIdle reports whether a sandbox pauses when it is idle, and not at a time.
func (r *record) isIdle() bool { return r.Pauses && r.Resumes }

const (
	// recordLabel begins the names of the labels that have a record, in parts.
	recordLabel = "e2b.podagent.dev/record-"
	// partSize is how much of the base64 a label holds: its 63 bytes must begin and end with a letter or
	// a digit, which others of the alphabet are not.
	partSize = 61
	partEdge = "x"
)

// labels returns the labels of a record with the metadata of the sandbox: those that can be labels are.
func (r record) labels(metadata map[string]string) (map[string]string, error) {
	all := map[string]string{}
	r.Metadata = map[string]string{}
	for name, value := range metadata {
		if isLabel(name, value) {
			all[name] = value
		} else {
			r.Metadata[name] = value
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, faces.BadRequest("metadata: %v", err)
	}
	parts := slices.Collect(slices.Chunk([]byte(base64.RawURLEncoding.EncodeToString(text)), partSize))
	if len(parts) > recordParts || len(all)+len(parts) > mostLabels {
		return nil, faces.BadRequest("metadata: there is too much of it: it may have %d names, and about %d bytes of what is no label of Kubernetes", mostLabels-recordParts, recordParts*partSize*3/4)
	}
	for i, part := range parts {
		all[fmt.Sprintf("%s%02d", recordLabel, i)] = partEdge + string(part) + partEdge
	}
	return all, nil
}

// isLabel reports whether metadata can be a label of a sandbox by themselves.
func isLabel(name, value string) bool {
	if prefix, _, _ := strings.Cut(name, "/"); prefix == "podagent.dev" || strings.HasSuffix(prefix, ".podagent.dev") {
		return false
	}
	spec := launcher.Spec{Labels: map[string]string{name: value}}
	return spec.Validate() == nil
}

// recordOf returns the record of a sandbox, and its metadata. One that was not made by E2B's clients has
// only labels.
func recordOf(s *gateway.Sandbox) (r record, metadata map[string]string) {
	var text strings.Builder
	for i := range recordParts {
		part := s.Labels[fmt.Sprintf("%s%02d", recordLabel, i)]
		if len(part) < 2*len(partEdge) {
			break
		}
		text.WriteString(part[len(partEdge) : len(part)-len(partEdge)])
	}
	data, err := base64.RawURLEncoding.DecodeString(text.String())
	if err != nil || json.Unmarshal(data, &r) != nil {
		r = record{} // it is the caller's own
	}
	metadata = maps.Clone(s.Labels)
	maps.DeleteFunc(metadata, func(name, _ string) bool { return strings.HasPrefix(name, recordLabel) })
	if metadata == nil {
		metadata = map[string]string{}
	}
	maps.Copy(metadata, r.Metadata)
	return r, metadata
}
