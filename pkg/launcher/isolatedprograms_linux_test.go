//go:build linux && !race

package launcher_test

import (
	"maps"
	"os"
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
	"go": {`cat >m.go <<'END'
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
go mod init example.com/m 2>init && go build -o m . && ./m && go vet . && go test . >tested && cut -f 1,2 tested`, "2\nok  \texample.com/m"},
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

// Programs work isolated as they do outside, for users without any rights, too, and on this repository.
func TestProgramsWorkIsolated(t *testing.T) {
	for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		t.Run(string(level), func(t *testing.T) {
			for user, uid := range map[string]int{"root": 0, "ordinary": ordinaryUser} {
				t.Run(user, func(t *testing.T) {
					t.Parallel()
					e := repositoryErrand(t, uid, level)
					programs := maps.Clone(programs)
					programs["repository"] = onRepository
					names := slices.Collect(maps.Keys(programs))
					for _, name := range names {
						e.Scripts = append(e.Scripts, programs[name].in(name))
					}
					e.run(t)
					for i, name := range names {
						t.Run(name, func(t *testing.T) { programs[name].check(t, e.outputs[i], e.errs[i]) })
					}
				})
			}
		})
	}
}

// isolationPage is docs/isolation.md on one line.
func isolationPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(page)), " ")
}

// docs/isolation.md says what the rules of Landlock leave without.
func TestWhatDoesNotWorkWithinLandlock(t *testing.T) {
	docs := isolationPage(t)
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
			if !strings.Contains(docs, name) {
				t.Errorf("docs/isolation.md has no word of %q", name)
			}
		}
	})
}
