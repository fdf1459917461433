//go:build !race

package proc

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/podagent/podagent/cmd/podagent/internal/confine"
)

// needs fails the test without these programs.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("\"make needs\" installs what is missing: %v", err)
		}
	}
}

// succeeds runs a script that must succeed, and returns its output.
func succeeds(t *testing.T, m *Manager, script string) string {
	t.Helper()
	r := run(t, m, shell(t, script))
	if r.status.Reason != Exited || r.status.Code != 0 {
		t.Errorf("%s\nended with %+v\n%s%s", script, r.status, &r.stdout, &r.stderr)
	}
	return strings.TrimSpace(r.stdout.String())
}

// A confinedProgram is a script, and the program that it needs.
type confinedProgram struct{ needs, script string }

// Programs of all kinds work as without the boundary. Each script fails if they do not.
func TestProgramsWorkConfined(t *testing.T) {
	programs := map[string]confinedProgram{
		"gdb":    {"gdb", `gdb -nx -batch -ex 'break abort' -ex run -ex bt --args sh -c 'exit 7' | grep 'exited with code 07'`},
		"strace": {"strace", `strace -f -o trace sh -c '/bin/true; true' && grep -q 'exited with 0' trace`},
		"leak check": {"cc", `printf '#include <stdlib.h>\nint main(int c, char **v) { void *p = malloc(77); if (c == 1) free(p); p = 0; return 0; }' > leak.c &&
			cc -g -fsanitize=address leak.c -o leak && ./leak && ! ./leak once 2> report && grep 'leak of 77 byte' report`},
		"node": {"node", `cat > it.js <<'END'
			const { Worker } = require("worker_threads"), os = require("os"), dgram = require("dgram"), http = require("http")
			if (!os.networkInterfaces().lo) throw new Error("no loopback")
			if (require("child_process").execSync("echo child") != "child\n") throw new Error("no child")
			const udp = dgram.createSocket("udp4"); udp.bind(0, "127.0.0.1", () => udp.close())
			const server = http.createServer((_, a) => a.end("answer")).listen(0, "127.0.0.1", async () => {
				const text = await (await fetch("http://127.0.0.1:" + server.address().port)).text()
				new Worker("require('worker_threads').parentPort.postMessage(1)", { eval: true }).on("message", () => { console.log(text); process.exit(0) })
			})
END
			node it.js | grep answer`},
		"python": {"python3", `cat > it.py <<'END'
import multiprocessing, os, resource, socket, subprocess, threading
def square(n): return n * n
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool: assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
    assert subprocess.check_output(["echo", "child"]) == b"child\n"
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("127.0.0.1", 0))
    assert socket.if_nameindex()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(1)
    threading.Thread(target=lambda: print("works")).start()
END
			/usr/bin/python3 it.py | grep works`},
		"tmux": {"tmux", `export TMUX_TMPDIR=$PWD TERM=xterm && tmux -f /dev/null new-session -d 'echo inside > $PWD/it; tmux wait-for -S done; sleep 300' && tmux wait-for done &&
			grep inside it && tmux kill-server`},
		"ip":                  {"ip", `ip -br link show lo`},
		"ss":                  {"ss", `ss -ltn`},
		"git":                 {"git", `git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --oneline`},
		"useradd":             {"useradd", `useradd --help > /dev/null; chfn --help > /dev/null; id`},
		"nice, taskset, chrt": {"taskset", `nice -n 3 true && taskset 1 true && ionice -c 3 true && chrt --idle 0 true && ulimit -n 64 && ulimit -n | grep 64`},
	}
	if os.Getenv("PODAGENT_TEST_FULL") != "" {
		maps.Copy(programs, largePrograms())
		buildRaced(t)
	}
	m := newManager(t)
	for name, p := range programs {
		t.Run(name, func(t *testing.T) {
			needs(t, p.needs)
			spec := shell(t, p.script)
			spec.Dir = t.TempDir()
			if r := run(t, m, spec); r.status.Code != 0 {
				t.Errorf("it ended with %+v\n%s%s", r.status, &r.stdout, &r.stderr)
			}
		})
	}
}

// largePrograms are those that are large, or take long. They are for PODAGENT_TEST_FULL.
func largePrograms() map[string]confinedProgram {
	return map[string]confinedProgram{
		// Gradle talks to its daemon over such sockets, and asks for all interfaces first.
		// Java compiles the file itself, if it comes with a compiler.
		"jvm": {"javac", `cat > It.java <<'END'
import java.net.*;
class It { public static void main(String[] a) throws Exception {
	for (var n : java.util.Collections.list(NetworkInterface.getNetworkInterfaces())) System.out.println(n);
	new DatagramSocket(0, InetAddress.getLoopbackAddress()).close();
	var server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
	new Socket(server.getInetAddress(), server.getLocalPort()).close();
	var t = new Thread(() -> System.out.println("thread")); t.setPriority(Thread.MAX_PRIORITY); t.start(); t.join();
	if (new ProcessBuilder("true").start().waitFor() != 0) throw new Exception("no child");
	System.out.println("works");
} }
END
			java It.java | grep works`},
		"chromium": {"chromium", `chromium --headless --no-sandbox --disable-gpu --user-data-dir=$PWD/profile --dump-dom 'data:text/html,<p>works' | grep works`},
		"go -race": {"go", "export PATH=$PATH:" + dirOf("go") + " GOCACHE=" + goCache() + ` && mkdir it && cd it && export HOME=$PWD GOFLAGS='-mod=mod -trimpath' CGO_ENABLED=1 && cat > it_test.go <<'END'
package it
import ("net"; "os/exec"; "testing")
func TestIt(t *testing.T) {
	if err := exec.Command("true").Run(); err != nil { t.Error(err) }
	if all, err := net.Interfaces(); err != nil || len(all) == 0 { t.Error(all, err) }
	done := make(chan bool); go func() { done <- true }(); <-done
}
END
			go mod init it && go test -race .`},
	}
}

// dirOf returns the directory of a program, which commands may not have in their PATH.
func dirOf(program string) string {
	path, _ := exec.LookPath(program)
	return filepath.Dir(path)
}

func goCache() string {
	dir, _ := exec.Command("go", "env", "GOCACHE").Output()
	return strings.TrimSpace(string(dir))
}

// buildRaced builds what the test of "go -race" uses. The first time this takes minutes,
// and no command of a test may take that long.
func buildRaced(t *testing.T) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-race", "net", "os/exec", "testing", "testing/internal/testdeps")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOEXPERIMENT=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

func TestMakeTestAllInstallsTheLargePrograms(t *testing.T) {
	cmd := exec.Command("make", "--dry-run", "needs")
	cmd.Dir = "../../../.." // of the module
	cmd.Env = append(os.Environ(), "PODAGENT_TEST_FULL=1", "MAKEFLAGS=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, p := range largePrograms() {
		if p.needs != "go" && !strings.Contains(string(out), " "+p.needs+"=") {
			t.Errorf("%s needs %s, which \"make needs\" does not install", name, p.needs)
		}
	}
}

// Commands are one domain: they signal, trace and look into each other.
func TestCommandsReachEachOther(t *testing.T) {
	needs(t, "lsof", "fuser", "gdb")
	m := newManager(t)
	victim := func() (*Process, int) {
		port := fifo(t)
		spec := shell(t, `exec python3 -c 'import socket, os, time
s = socket.create_server(("127.0.0.1", 0)); open(os.environ["F"], "w").write("%d\n" % s.getsockname()[1]); time.sleep(300)'`)
		spec.Env = append(spec.Env, "F="+port)
		p := start(t, m, spec)
		return p, receivePID(t, port)
	}
	ends := func(p *Process, how string, want syscall.Signal) {
		t.Helper()
		if st := finish(t, p).status; st.Signal != int(want) {
			t.Errorf("%s: the other ended with %+v", how, st)
		}
	}
	p, _ := victim()
	succeeds(t, m, fmt.Sprintf("echo %d > %s/pid; kill $(cat %s/pid)", p.pid, os.TempDir(), os.TempDir()))
	ends(p, "kill", syscall.SIGTERM)
	p, port := victim()
	if got := succeeds(t, m, fmt.Sprintf("lsof -nP -ti tcp:%d", port)); got != strconv.Itoa(p.pid) {
		t.Errorf("lsof says %q, not %d", got, p.pid)
	}
	if got := succeeds(t, m, fmt.Sprintf("tr '\\0' '\\n' < /proc/%d/environ | grep ^F=", p.pid)); got == "" {
		t.Error("the environment of another command is hidden")
	}
	if got := succeeds(t, m, fmt.Sprintf("gdb -nx -batch -p %d -ex 'info threads'", p.pid)); !strings.Contains(got, "* 1") {
		t.Errorf("gdb says %q", got)
	}
	succeeds(t, m, fmt.Sprintf("fuser -k %d/tcp", port))
	ends(p, "fuser", syscall.SIGKILL)
	succeeds(t, m, `exec python3 -c 'import socket
s = socket.socket(socket.AF_UNIX); s.bind(""); s.listen(); socket.socket(socket.AF_UNIX).connect(s.getsockname())'`)
}

// What a command could do to any process of its user, it cannot do to one outside, such as
// the agent. All run without capabilities, some of which get their holder past the domain.
func TestCommandsDoNotReachWhatIsOutside(t *testing.T) {
	needs(t, "gdb")
	needsScopes(t)
	free, confined := newManagerOn(t, nil), newManager(t)
	ready := fifo(t)
	const harmless = "exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all "
	spec := shell(t, harmless+`python3 -c 'import os, socket, time
s = socket.socket(socket.AF_UNIX); s.bind("\0podagent-test-%d" % os.getpid()); s.listen(); open(os.environ["F"], "w").write("ready\n"); time.sleep(300)'`)
	spec.Env = append(spec.Env, "F="+ready)
	victim := start(t, free, spec)
	receive(t, ready)
	for what, script := range map[string]string{
		"signal":          `kill -0 $V`,
		"environment":     `cat /proc/$V/environ`,
		"memory":          `: < /proc/$V/mem`,
		"descriptors":     `readlink /proc/$V/fd/0`,
		"limits":          `prlimit --pid $V --core=0:0`,
		"priority":        `renice -n 19 -p $V`,
		"scheduling":      `chrt --idle -p 0 $V`,
		"i/o":             `ionice -c 3 -p $V`,
		"gdb":             `! gdb -nx -batch -p $V 2>&1 | grep 'Operation not permitted'`,
		"abstract socket": `exec python3 -c 'import os, socket; socket.socket(socket.AF_UNIX).connect("\0podagent-test-" + os.environ["V"])'`,
	} {
		for _, m := range []*Manager{confined, free} {
			spec := shell(t, harmless+"sh -c \"$SCRIPT\"")
			spec.Env = append(spec.Env, "V="+strconv.Itoa(victim.pid), "SCRIPT="+script)
			if r := run(t, m, spec); (r.status.Code == 0) != (m == free) {
				t.Errorf("%s, confined: %v: it ended with %d\n%s%s", what, m == confined, r.status.Code, &r.stdout, &r.stderr)
			}
		}
	}
}

// The limits of a start hold, though commands may not limit others.
func TestLimitsHoldForConfinedCommands(t *testing.T) {
	m := newManager(t)
	spec := shell(t, "ulimit -n; ulimit -Hn; prlimit --pid $$ --nofile=9:9")
	spec.Rlimits = []Rlimit{{"nofile", 50, 60}}
	if r := run(t, m, spec); r.stdout.String() != "50\n60\n" || r.status.Code == 0 {
		t.Errorf("got %q, %+v", &r.stdout, r.status)
	}
}

// A program with a set-user-ID bit does not change its user. In any case it bears a mark.
func TestCommandsGainNoPrivileges(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("this needs root")
	}
	dir, err := os.MkdirTemp("", "") // another user must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	succeeds(t, newManager(t), fmt.Sprintf("cd %s && cp /usr/bin/id . && chmod 4755 id", dir))
	for user, thread := range map[string]*confine.Thread{"0": nil, "65534": confined()} {
		m := newManagerOn(t, thread)
		if got := succeeds(t, m, fmt.Sprintf("setpriv --reuid 65534 --clear-groups %s/id -u", dir)); got != user {
			t.Errorf("want the user %s, got %s", user, got)
		}
		p := start(t, m, argv(t, dir+"/id"))
		finish(t, p)
		if p.mark == 0 {
			t.Error("it bears no mark")
		}
	}
}
