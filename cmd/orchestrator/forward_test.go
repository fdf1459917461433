package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPortsHaveKubectlsSyntax(t *testing.T) {
	got, err := parsePorts([]string{"8080", "3000:80", ":5432", "0:1", "65535:65535"})
	want := []forwarding{{8080, 8080}, {3000, 80}, {0, 5432}, {0, 1}, {65535, 65535}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(forwarding{})); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, arg := range []string{"", ":", "0", "1:", "1:0", "a", "1:a", "a:1", "-1", "+1", "1:2:3", "65536", "65536:1", " 1", "0x50", "localhost:80"} {
		if got, err := parsePorts([]string{arg}); err == nil {
			t.Errorf("%q was taken as %v", arg, got)
		}
	}
}
