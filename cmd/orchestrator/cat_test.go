package main

import (
	"testing"

	"github.com/podagent/podagent/pkg/fsops"
)

func TestParseWindow(t *testing.T) {
	tests := []struct {
		window     string
		first, max int64
		ok         bool
	}{
		{"", 0, 0, true},
		{"1:1", 1, 1, true},
		{"10:40", 10, 31, true},
		{"7:", 7, 0, true},
		{":7", 1, 7, true},
		{":", 0, 0, false},
		{"7", 0, 0, false},
		{"0:3", 0, 0, false},
		{":0", 0, 0, false},
		{"-1:3", 0, 0, false},
		{"4:3", 0, 0, false},
		{"a:b", 0, 0, false},
		{"1:2:3", 0, 0, false},
		{"1:99999999999999999999", 0, 0, false},
	}
	for _, tt := range tests {
		got, err := parseWindow(tt.window)
		want := fsops.LineOptions{First: tt.first, Max: tt.max}
		if got != want || (err == nil) != tt.ok {
			t.Errorf("parseWindow(%q) = %+v, %v, want %+v, success %v", tt.window, got, err, want, tt.ok)
		}
	}
}
