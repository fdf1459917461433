package e2b

import (
	"strconv"
	"strings"

	"github.com/podagent/podagent/pkg/gateway"
)

// idSeparator is between the names of a sandbox and of its tenant in an id, as in hosts.
const idSeparator = "--"

func idOf(tenant, name string) string { return name + idSeparator + tenant }

// parseID takes apart NAME--TENANT, or NAME.
func parseID(id string) (name, tenant string, ok bool) {
	name, tenant, full := strings.Cut(id, idSeparator)
	return name, tenant, gateway.CheckName(name) == nil && (!full || gateway.CheckTenant(tenant) == nil)
}

func parsePort(text string) (int, bool) {
	port, err := strconv.Atoi(text)
	return port, err == nil && port > 0 && port < 1<<16 && strconv.Itoa(port) == text
}
