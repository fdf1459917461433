//go:build linux && !race

package launcher_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// The race detector watches none of the programs here, so that these tests run without it.

// A program works if its script ends well, and prints this.
type program struct{ script, prints string }

var programs = map[string]program{
	"git": {`git init -q r && cd r
git config user.email me@example.com && git config user.name me
echo x >f && git add f && git commit -qm one && git gc -q && git fsck
git worktree add -q ../other && git clone -q . ../clone && cd ../clone
git log --format=%s && cat ../other/f`, "one\nx"},
	"node": {`mkdir lib app && cd lib
echo '{"name":"lib","version":"1.0.0"}' >package.json
echo 'module.exports = n => n + 1' >index.js
npm pack -s >../packed && cd ../app
echo '{"name":"app","version":"1.0.0","scripts":{"test":"node test.js"}}' >package.json
cat >test.js <<'END'
const {Worker} = require("worker_threads"), {execSync} = require("child_process"), fs = require("fs"), os = require("os")
fs.writeFileSync(os.tmpdir() + "/f", "x")
new Worker("require('worker_threads').parentPort.postMessage(1)", {eval: true}).on("message", n =>
	console.log(require("lib")(n), execSync("echo sub").toString()))
END
npm install -s --offline ../lib/lib-1.0.0.tgz >&2 && rm -r node_modules
npm ci -s --offline --no-audit --no-fund >&2 && npm test -s`, "2 sub"},
	"python": {`python3 -m venv --without-pip v
v/bin/python - <<'END'
import multiprocessing, sqlite3, subprocess, sys, tempfile
def work(pipe): pipe.send(sum(range(10)))
here, there = multiprocessing.Pipe()
process = multiprocessing.Process(target=work, args=(there,))
process.start()
print(here.recv())
process.join()
print(subprocess.check_output([sys.executable, "-c", "import sys; print(sys.prefix)"], text=True).rsplit("/")[-1].strip())
with tempfile.NamedTemporaryFile() as f: sqlite3.connect(f.name).execute("create table t (n)")
END`, "45\nv"},
	"make": {`printf 'all: a b\n\t@cat $^\na b:\n\t@echo $(shell echo made) >$@\n' >Makefile
make -s -j2`, "made\nmade"},
	"cc": {`cat >a.c <<'END'
#include <pthread.h>
#include <stdio.h>
static void *run(void *text) { return text; }
int main(void) {
	pthread_t t;
	void *text;
	if (pthread_create(&t, 0, run, "hello") || pthread_join(t, &text)) return 1;
	return puts(text) < 0;
}
END
cc -O2 -Wall -Werror -pthread -o a a.c && ./a`, "hello"},
}

// golang is apart, since it uses a cache of what Go has compiled, which only its owner can read.
var golang = program{`cat >m.go <<'END'
package main

import "fmt"

func sum() int { return 2 }

func main() { fmt.Println(sum()) }
END
cat >m_test.go <<'END'
package main

import (
	"os"
	"testing"
)

func TestSum(t *testing.T) {
	if err := os.WriteFile(t.TempDir()+"/f", nil, 0o600); err != nil || sum() != 2 {
		t.Fatal(err)
	}
}
END
go mod init example.com/m 2>init && go build -o m . && ./m && go vet . && go test . >tested && cut -f 1,2 tested`, "2\nok  \texample.com/m"}

// goEnv has Go use the cache of this machine, which it cannot write. It would keep an index of
// packages there, too.
func goEnv(t *testing.T) (cache string, env []string) {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache = strings.TrimSpace(string(out))
	return cache, []string{"GOCACHE=" + cache, "GODEBUG=goindex=0", "GOPROXY=off", "GOTOOLCHAIN=local", "GOFLAGS=-trimpath", "CGO_ENABLED=0", "GOEXPERIMENT=simd"}
}

// script is that of a program, in a directory of its own.
func (p program) in(dir string) string {
	return "set -e; mkdir " + dir + "; cd " + dir + "\n" + p.script
}

func (p program) check(t *testing.T, out string, err error) {
	t.Helper()
	if got := strings.TrimSpace(out); err != nil || got != p.prints {
		t.Errorf("%v, it printed %q, want %q", err, got, p.prints)
	}
}

func TestProgramsWorkIsolated(t *testing.T) {
	cache, env := goEnv(t)
	eachIsolation(t, func(t *testing.T, l *launcher.Local) {
		l.Readable = []string{cache}
		s := launch(t, l, launcher.Spec{ID: "a", Env: env})
		for name, p := range programs {
			t.Run(name, func(t *testing.T) { p.checkIn(t, s, name) })
		}
		t.Run("go", func(t *testing.T) { golang.checkIn(t, s, "go") })
	})
}

func (p program) checkIn(t *testing.T, s *launcher.Sandbox, dir string) {
	out, err := s.Command(t.Context(), "sh", "-c", p.in(dir)).CombinedOutput()
	p.check(t, string(out), err)
}

// What is in the tests above works for users without any rights, too.
func TestProgramsWorkIsolatedForOrdinaryUsers(t *testing.T) {
	for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			e := errand{Dir: stage(t), UID: ordinaryUser, Mode: isolation.Mode(level)}
			for name, p := range programs {
				e.Scripts = append(e.Scripts, p.in(name))
				defer func(i int) {
					t.Run(name, func(t *testing.T) { p.check(t, e.outputs[i], e.errs[i]) })
				}(len(e.Scripts) - 1)
			}
			e.run(t)
		})
	}
}

// docs/isolation.md says what the rules of Landlock leave without.
func TestWhatDoesNotWorkWithinLandlock(t *testing.T) {
	docs, err := os.ReadFile("../../docs/isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	eachIsolation(t, func(t *testing.T, l *launcher.Local) {
		s := launch(t, l, launcher.Spec{ID: "a"})
		for name, script := range map[string]string{
			"writes to `/proc`":            `echo 0x0 >/proc/self/coredump_filter`,
			"programs that make terminals": `[ "$(script -qec 'echo hello' /dev/null | tr -d '\r')" = hello ]`,
			"Python's multiprocessing":     `python3 -c 'import multiprocessing; multiprocessing.Lock()'`,
			"unix sockets":                 `cd && python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("s")'`,
			"do not ask for `TMPDIR`":      `echo x >/tmp/f && echo x >/var/tmp/g`,
		} {
			works := s.Command(t.Context(), "sh", "-c", script).Run() == nil
			if works != (l.Isolation == isolation.Mode(isolation.Namespaces)) {
				t.Errorf("%s: it works: %t", name, works)
			}
			if !strings.Contains(strings.Join(strings.Fields(string(docs)), " "), name) {
				t.Errorf("docs/isolation.md has no word of %q", name)
			}
		}
	})
}

// slowTests of package fsops would take minutes in sum.
const slowTests = `Ripgrep|Bounded|Deep|Many|Every|Thousands|LeavesNothingBehind|Cancelled|Hostile|Swapped|Large|NoGap|CutStream|Doublestar|EqualsFd|SameFS|WasChecked|WhatCannotBeRead`

// socketTests make unix sockets, which the level landlock does not allow.
const socketTests = `SpecialFiles|FIFOsAndSockets`

// shortDir returns a directory below which there is room for the paths of sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// The unit tests of package fsops pass in a sandbox, apart from those that also fail outside for root
// without root's rights.
func TestFsopsTestsPassInside(t *testing.T) {
	work, state := t.TempDir(), shortDir(t)
	out, err := exec.Command("go", "test", "-c", "-o", filepath.Join(work, "fsops.test"), "../fsops").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	eachIsolation(t, func(t *testing.T, l *launcher.Local) {
		l.StateDir = filepath.Join(state, string(l.Isolation))
		mine := filepath.Join(work, string(l.Isolation))
		if err := os.CopyFS(mine, os.DirFS("../fsops")); err != nil {
			t.Fatal(err)
		}
		l.Readable = []string{filepath.Join(work, "fsops.test")}
		s := launch(t, l, launcher.Spec{ID: "a", Workdir: mine})
		skip := slowTests
		if l.Isolation == isolation.Mode(isolation.Landlock) {
			skip += "|" + socketTests
		}
		inside, err := s.Command(t.Context(), l.Readable[0], "-test.v", "-test.skip="+skip).CombinedOutput()
		passed := strings.Count(string(inside), "\n--- PASS: ")
		if passed < 100 {
			t.Fatalf("%d tests passed, %v: %s", passed, err, inside)
		}
		var failed []string
		for _, match := range failedTest.FindAllStringSubmatch(string(inside), -1) {
			failed = append(failed, match[1])
		}
		if len(failed) == 0 {
			return
		}
		outside := exec.Command("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", l.Readable[0], "-test.v", "-test.run=^("+strings.Join(failed, "|")+")$")
		outside.Dir = "../fsops"
		same, _ := outside.CombinedOutput()
		for _, name := range failed {
			if !slices.ContainsFunc(failedTest.FindAllStringSubmatch(string(same), -1), func(m []string) bool { return m[1] == name }) {
				_, why, _ := strings.Cut(string(inside), "=== RUN   "+name+"\n")
				why, _, _ = strings.Cut(why, "--- FAIL: "+name)
				t.Errorf("%s fails inside alone: %s", name, why)
			}
		}
		t.Logf("%d tests passed, %d fail without root's rights", passed, len(failed))
	})
}
