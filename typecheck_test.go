//go:build !race

package podagent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// source is a package as "go list" prints it.
type source struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
}

// typeCheck checks the types of a program for another system, with those of all that it imports.
// That takes a twelfth of the time of compiling all of it.
func typeCheck(t *testing.T, program string, env ...string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-tags", "grpcnotrace", "-json=ImportPath,Dir,GoFiles,ImportMap", "./cmd/"+program)
	cmd.Env = append(append(cmd.Environ(), "CGO_ENABLED=0", "GOEXPERIMENT=simd"), env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	checked := map[string]*types.Package{"unsafe": types.Unsafe}
	for list := json.NewDecoder(bytes.NewReader(out)); ; { // each package comes after those that it imports
		var p source
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		if checked[p.ImportPath], err = p.check(checked); err != nil {
			t.Fatalf("%s: %v", p.ImportPath, err)
		}
	}
}

// check checks a package. The bodies of functions matter in this module alone: the others are
// compiled for their systems by those who release them.
func (p source) check(imports map[string]*types.Package) (*types.Package, error) {
	set, files := token.NewFileSet(), []*ast.File(nil)
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	config := types.Config{
		IgnoreFuncBodies: !strings.HasPrefix(p.ImportPath, module),
		Importer: importerFunc(func(path string) (*types.Package, error) {
			if vendored, ok := p.ImportMap[path]; ok {
				path = vendored
			}
			return imports[path], nil
		}),
	}
	return config.Check(p.ImportPath, set, files, nil)
}

// importerFunc imports a package.
type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }
