package gateway

import (
	"maps"
	"strings"

	"github.com/podagent/podagent/pkg/launcher"
)

const (
	// labelOwner begins the names of the labels that have the name of the key by which a sandbox was made.
	labelOwner = ownLabels + "owner-"
	// ownerParts is how many there may be, and ownerLimit how many bytes they hold: a service account's
	// namespace and name, of 63 and 253. What is longer is cut.
	ownerParts = 8
	ownerLimit = ownerParts * textPart * 3 / 4
)

// Owner says who made a sandbox, in the words of whoami.
type Owner struct {
	Tenant string `json:"tenant" doc:"the tenant" example:"acme"`
	Key    string `json:"key,omitempty" doc:"which of the tenant's tokens, or the service account; missing if the gateway had only one token" example:"ci"`
}

// addOwner adds the labels that say who makes a sandbox.
func addOwner(labels map[string]string, caller Caller) {
	name := strings.ToValidUTF8(caller.Key[:min(len(caller.Key), ownerLimit)], "")
	own, _ := textLabels(labelOwner, name, ownerParts)
	maps.Copy(labels, own)
}

// ownerOf returns who made a tenant's sandbox; nil if no label says it readably, as of those that were made
// before labels did, or by no gateway.
func ownerOf(s launcher.Summary) *Owner {
	tenant, _, ok := splitID(s.ID)
	key, kept, err := textIn(s, labelOwner, ownerParts)
	if !ok || !kept || err != nil {
		return nil
	}
	return &Owner{tenant, strings.ToValidUTF8(key, "\ufffd")}
}
