package egress

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// namedHosts are the hosts of the named rules: what the servers of editors download from, themselves
// and their extensions, by HTTPS. docs/egress.md has the same table, which a test compares.
var namedHosts = map[string][]string{
	"vscode": {
		"update.code.visualstudio.com", "vscode.download.prss.microsoft.com",
		"marketplace.visualstudio.com", "*.gallery.vsassets.io", "*.gallerycdn.vsassets.io",
	},
	"vscodium": {
		"github.com", "objects.githubusercontent.com", "release-assets.githubusercontent.com",
		"open-vsx.org", "openvsxorg.blob.core.windows.net", "openvsx.eclipsecontent.org",
	},
	"cursor": {
		"downloads.cursor.com", "cursor.blob.core.windows.net",
		"marketplace.cursorapi.com", "cursor-cdn.com",
	},
	"windsurf": {
		"windsurf-stable.codeiumdata.com",
		"open-vsx.org", "openvsxorg.blob.core.windows.net", "openvsx.eclipsecontent.org",
	},
	"zed": {
		"zed.dev", "cloud.zed.dev",
		"github.com", "objects.githubusercontent.com", "release-assets.githubusercontent.com",
	},
	"jetbrains": {
		"download.jetbrains.com", "download-cdn.jetbrains.com",
		"data.services.jetbrains.com", "plugins.jetbrains.com", "downloads.marketplace.jetbrains.com",
	},
}

// namedPort is the port of all named rules.
const namedPort = 443

// RuleNames returns the names that a rule @NAME can have, sorted.
func RuleNames() []string { return slices.Sorted(maps.Keys(namedHosts)) }

// Hosts returns the hosts of a rule @NAME, as rules have them; nil for any other rule.
func (r Rule) Hosts() []string {
	if r.form != hostSet {
		return nil
	}
	return slices.Clone(namedHosts[r.name])
}

func (r *Rule) parseNamed(name string) error {
	if _, known := namedHosts[name]; !known {
		return fmt.Errorf("there is no rule of this name: those with names are @%s; they have no ports", strings.Join(RuleNames(), ", @"))
	}
	r.form, r.name, r.ports = hostSet, name, []uint16{namedPort}
	return nil
}

// members returns a rule for each host of a named rule, and any other rule alone.
func (r Rule) members() []Rule {
	if r.form != hostSet {
		return []Rule{r}
	}
	var all []Rule
	for _, host := range namedHosts[r.name] {
		m := Rule{form: exactName, name: host, ports: r.ports}
		if name, is := strings.CutPrefix(host, "*"); is {
			m.form, m.name = suffix, name
		}
		all = append(all, m)
	}
	return all
}

// anyMember reports whether f is true for a member of the rule.
func (r Rule) anyMember(f func(Rule) bool) bool { return slices.ContainsFunc(r.members(), f) }
