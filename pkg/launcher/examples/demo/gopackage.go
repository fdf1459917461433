package main

import (
	"context"
	"slices"
	"strings"
)

// noNetwork keeps the go command from downloading modules that the sandbox lacks.
const noNetwork = "GOPROXY=off"

// listPackages makes the go command print a line for each package of the tree and
// everything that they and their tests import: "tested" for a package of the tree
// with code and tests, "foreign" for a package of another module or a missing one,
// and "test" for the test program of a package, with its dependencies.
const listPackages = `{{if or .Standard .ForTest}}
{{- else if not (and .Module .Module.Main)}}foreign {{.ImportPath}}
{{- else if .Incomplete}}
{{- else if or .TestGoFiles .XTestGoFiles}}{{if .GoFiles}}tested {{.ImportPath}}{{end}}
{{- else if eq .Name "main"}}test {{.ImportPath}} {{join .Deps " "}}{{end}}`

// testPackage returns the Go package whose tests to run. Its tests need only the
// standard library and the tree itself, and so no network. Of such packages, it is
// the one with the least to build. testPackage returns "" if there is none, if the
// tree is not a Go module, or if the sandbox has no go command.
func (d *demo) testPackage(ctx context.Context) (string, error) {
	c := d.sandbox.Command(ctx, "go", "list", "-e", "-test", "-deps", "-f", listPackages, "./...")
	c.Env, c.Timeout = slices.Concat(d.goEnv, []string{noNetwork}), testTimeout
	list, err := c.Output()
	if err != nil {
		return "", ctx.Err()
	}
	return selfContained(string(list)), nil
}

// selfContained returns the package to test from the lines of listPackages.
func selfContained(list string) string {
	tested, foreign, tests := map[string]bool{}, map[string]bool{}, map[string][]string{}
	for line := range strings.Lines(list) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "tested":
			tested[words[1]] = true
		case "foreign":
			foreign[words[1]] = true
		case "test":
			if pkg, ok := strings.CutSuffix(words[1], ".test"); ok {
				tests[pkg] = words[2:]
			}
		}
	}
	best := ""
	for pkg, deps := range tests {
		if !tested[pkg] || slices.ContainsFunc(deps, func(dep string) bool { return foreign[dep] }) {
			continue
		}
		if best == "" || len(deps) < len(tests[best]) || len(deps) == len(tests[best]) && pkg < best {
			best = pkg
		}
	}
	return best
}
