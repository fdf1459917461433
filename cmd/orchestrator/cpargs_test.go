package main

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseEnd(t *testing.T) {
	tests := []struct {
		arg, id string
		want    end
	}{
		{"a:b", "", end{true, "a", "b"}},
		{"a:", "", end{true, "a", "."}},
		{"a:/etc/hosts", "", end{true, "a", "/etc/hosts"}},
		{"a:b:c", "", end{true, "a", "b:c"}},
		{"job 1:x", "", end{true, "job 1", "x"}},
		{":x", "team/a", end{true, "team/a", "x"}},
		{":", "team/a", end{true, "team/a", "."}},
		{"a:x", "b", end{true, "a", "x"}},
		{"file", "", end{path: "file"}},
		{"./a:b", "", end{path: "./a:b"}},
		{"dir/a:b", "a", end{path: "dir/a:b"}},
		{"/a:b", "", end{path: "/a:b"}},
		{`C:\dir`, "", end{path: `C:\dir`}},
		{"C:dir", "", end{true, "C", "dir"}},
		{`CC:\dir`, "", end{true, "CC", `\dir`}},
		{"", "", end{}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, parseEnd(tt.arg, tt.id), cmp.AllowUnexported(end{})); diff != "" {
			t.Errorf("parseEnd(%q, %q) (-want +got):\n%s", tt.arg, tt.id, diff)
		}
	}
}

func TestParseEndsWantsOneInASandbox(t *testing.T) {
	tests := []struct {
		source, target, id string
		ok                 bool
	}{
		{"file", "a:", "", true},
		{"a:file", ".", "", true},
		{":file", ".", "a", true},
		{"file", "other", "", false},
		{"a:file", "b:", "", false},
		{"a:file", ":", "b", false},
		{":file", ".", "", false},
		{"", "a:x", "", false},
		{"a:x", "", "", false},
	}
	for _, tt := range tests {
		_, _, err := parseEnds(tt.source, tt.target, tt.id)
		if (err == nil) != tt.ok {
			t.Errorf("parseEnds(%q, %q, %q): %v, want success %v", tt.source, tt.target, tt.id, err, tt.ok)
		}
		if err != nil && !errors.As(err, new(usageError)) {
			t.Errorf("parseEnds(%q, %q, %q): %v is no usage error", tt.source, tt.target, tt.id, err)
		}
	}
}

func TestLanding(t *testing.T) {
	dir, file, none := destination{"d", true, true}, destination{"d", true, false}, destination{"d", false, false}
	tests := []struct {
		target destination
		source string
		isDir  bool
		want   string // empty for a refusal
	}{
		{dir, "x/f", false, "d/f"},
		{dir, "x/t/", true, "d/t"},
		{dir, "x/t/.", true, "d"},
		{dir, ".", true, "d"},
		{dir, "..", true, "d"},
		{dir, "/", true, "d"},
		{file, "x/f", false, "d"},
		{file, "x/t", true, ""},
		{none, "x/f", false, "d"},
		{none, "x/t", true, "d"},
		{destination{"d/", false, false}, "x/f", false, ""},
		{destination{"d/", true, false}, "x/f", false, ""},
		{destination{"d/", false, false}, "x/t", true, "d/"},
	}
	for _, tt := range tests {
		got, err := tt.target.landing(tt.source, tt.isDir)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%+v.landing(%q, %v) = %q, %v, want %q", tt.target, tt.source, tt.isDir, got, err, tt.want)
		}
	}
}
