package gateway

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/launcher"
)

// A sandbox's name and its tenant's are one label of a host name, after a port and before a
// domain: PORT-NAME--TENANT (see route.go). So neither has two hyphens in a row, and both together
// fit into the 63 bytes of a label (RFC 1123).
const (
	nameLimit   = 36 // a UUID
	tenantLimit = 19
	// namePattern is that of sandboxes' names, for the document.
	namePattern = `^[a-z0-9]+(-[a-z0-9]+)*$`
)

var nameExp = regexp.MustCompile(namePattern)

var (
	errName   = fmt.Errorf("a sandbox's name has up to %d lowercase letters, digits and single hyphens, with no hyphen at its ends", nameLimit)
	errTenant = fmt.Errorf("a tenant's name has up to %d lowercase letters, digits and single hyphens, with no hyphen at its ends", tenantLimit)
)

// CheckName refuses what is no name of a sandbox: up to 36 lowercase letters, digits and single
// hyphens, without a hyphen at either end.
func CheckName(name string) error {
	if len(name) > nameLimit || !nameExp.MatchString(name) {
		return errName
	}
	return nil
}

// CheckTenant refuses what is no name of a tenant: it is like a sandbox's, up to 19 bytes.
func CheckTenant(name string) error {
	if len(name) > tenantLimit || !nameExp.MatchString(name) {
		return errTenant
	}
	return nil
}

// separator is in no name, so that no two pairs of names make one id.
const separator = "."

// launcherID is the id under which the launcher knows a tenant's sandbox. Another tenant cannot
// name it.
func launcherID(tenant, name string) string { return tenant + separator + name }

// splitID returns the names that make an id, if a gateway can have made it.
func splitID(id string) (tenant, name string, ok bool) {
	tenant, name, ok = strings.Cut(id, separator)
	return tenant, name, ok && CheckTenant(tenant) == nil && CheckName(name) == nil
}

// nameOf returns the tenant's name of the sandbox with this id, if it is the tenant's.
func nameOf(tenant, id string) (string, bool) {
	name, ours := strings.CutPrefix(id, tenant+separator)
	return name, ours && CheckName(name) == nil
}

// ofTenant returns those of the sandboxes that are a tenant's.
func ofTenant(tenant string, all []launcher.Summary) []launcher.Summary {
	return slices.DeleteFunc(slices.Clone(all), func(s launcher.Summary) bool {
		_, ours := nameOf(tenant, s.ID)
		return !ours
	})
}

// idExp finds the ids in launchers' errors.
var idExp = regexp.MustCompile(`sandbox "([a-z0-9-]+)\.([a-z0-9-]+)"`)

// ownNames returns a launcher's text with the names of the caller's sandboxes in place of their
// ids, and without the ids of others.
func ownNames(ctx context.Context, text string) string {
	caller, _ := ctx.Value(callerKey{}).(Caller)
	return idExp.ReplaceAllStringFunc(text, func(found string) string {
		if of := idExp.FindStringSubmatch(found); caller.Tenant != "" && of[1] == caller.Tenant {
			return `sandbox "` + of[2] + `"`
		}
		return "another sandbox"
	})
}
