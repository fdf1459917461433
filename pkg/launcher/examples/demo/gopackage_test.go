package main

import "testing"

func TestSelfContainedPackageIsTheOneWithTheLeastToBuild(t *testing.T) {
	const list = `
foreign example.com/cmp
foreign example.com/cmp [own/small.test]
tested own/small
test own/small.test fmt own/small example.com/cmp [own/small.test]
tested own/large
test own/large.test fmt os own/large own/untested
tested own/larger
test own/larger.test fmt os own/larger own/untested io
test own/untested.test fmt
test own/program fmt
`
	if got := selfContained(list); got != "own/large" {
		t.Errorf("got %q", got)
	}
	if got := selfContained("foreign a\ntested b\ntest b.test a\n"); got != "" {
		t.Errorf("got %q, which needs another module", got)
	}
}
