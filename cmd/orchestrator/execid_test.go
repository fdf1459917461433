package main

import (
	"slices"
	"testing"

	"github.com/podagent/podagent/pkg/podapi"
)

func TestMatchExec(t *testing.T) {
	const (
		one   = "01a1fd93-0f99-75d4-98d7-dbabd46bde1d"
		two   = "01a1fd93-0fcf-7800-a0c1-dbabe4af1901"
		three = "01a1fda0-0fcf-7800-a0c1-01a1fd930f99"
	)
	list := []podapi.ProcessInfo{{ID: one}, {ID: two}, {ID: three}}
	for name, want := range map[string][]string{
		one:             {one},
		"dbabd46bde1d":  {one},
		"dbabd":         {one},
		"DBABD":         {one},
		"dbab":          {one, two},
		"dba":           nil, // too short
		"01a1fd93-0f9":  {one},
		"01a1fd93":      {one, two, three},
		"01a1fd930f":    {three},
		"01a1fd9":       {one, two, three},
		"bde1d":         nil, // its end is not enough
		one + "0":       nil,
		"":              nil,
		"01a1fda0-0fcf": {three},
	} {
		var got []string
		for _, p := range matchExec(list, name) {
			got = append(got, p.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

func TestCandidatesAreNamedUpToABound(t *testing.T) {
	var list []podapi.ProcessInfo
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		list = append(list, podapi.ProcessInfo{ID: id, Args: []string{"cat"}})
	}
	if got, want := candidates(list[:2]), "a (cat) or b (cat)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := candidates(list), "a (cat), b (cat), c (cat), d (cat), e (cat) or one of 2 more"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestIsExecID(t *testing.T) {
	for id, want := range map[string]bool{
		"01a1fd93-0f99-75d4-98d7-dbabd46bde1d":          true,
		"01A1FD93-0F99-75D4-98D7-DBABD46BDE1D":          false,
		"01a1fd93-0f99-45d4-98d7-dbabd46bde1d":          false,
		"01a1fd930f9975d498d7dbabd46bde1d":              false,
		"{01a1fd93-0f99-75d4-98d7-dbabd46bde1d}":        false,
		"urn:uuid:01a1fd93-0f99-75d4-98d7-dbabd46bde1d": false,
		"": false,
	} {
		if isExecID(id) != want {
			t.Errorf("isExecID(%q) is %v", id, !want)
		}
	}
}
