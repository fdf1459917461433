//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
)

func TestCheckOfTheWayOut(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	tenant := "tenants: {acme: {keys: [{sha256: " + strings.Repeat("ab", 32) + "}]%s}}"
	credential := ", egress: {allow_hosts: [a.test], credentials: [{name: A, hosts: [a.test], value_file: %s}]}"
	for name, text := range map[string]string{
		"none": fmt.Sprintf(tenant, ""), "broken": "x",
		"good": fmt.Sprintf(tenant, fmt.Sprintf(credential, "value")), "lost": fmt.Sprintf(tenant, fmt.Sprintf(credential, "nowhere")),
		"value": "hunter2hunter2\n", "links": strings.Repeat("l", 32),
	} {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		keys, links string
		verdict     launcher.Verdict
		says        string
	}{
		{"", "", launcher.NotChecked, "without --keys"},
		{in("none"), "", launcher.NotChecked, "no tenant has egress"},
		{in("broken"), "", launcher.NotChecked, "mistakes"},
		{in("lost"), in("links"), launcher.Failed, `"acme": credential "A"`},
		{in("good"), "", launcher.Warned, "another gateway goes on"},
		{in("good"), in("links"), launcher.Passed, "can be used"},
	} {
		o := &gatewayFlags{keys: test.keys, linkKeys: test.links}
		f := o.checkEgress(&app{})
		text := f.Detail
		if f.Err != nil {
			text += f.Err.Error()
		}
		if f.Verdict != test.verdict || !strings.Contains(text, test.says) {
			t.Errorf("%+v: %+v", test, f)
		}
	}
}
