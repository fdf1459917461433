//go:build linux && !race

package launcher_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// victim is what runs in a sandbox that others look at, until TERM. It has a secret wherever there may be one,
// and tells where: in its memory and environment, in files, at sockets, and in memory that is shared.
const victim = `
import ctypes, json, os, signal, socket, threading
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
secret = os.environ["SECRET"].encode()
libc = ctypes.CDLL(None, use_errno=True)
def serve(s):
    s.listen()
    def each():
        while True: s.accept()[0].send(secret)
    threading.Thread(target=each, daemon=True).start()
    return s.getsockname()
places = {}
for name, dir in ("workspace", os.getcwd()), ("home", os.environ["HOME"]), ("temp", os.environ["TEMP_OUTSIDE"]):
    places[name] = os.path.join(dir, "secret")
    with open(os.path.join(os.environ["TMPDIR"] if name == "temp" else dir, "secret"), "wb") as f: f.write(secret)
try:
    with open("/dev/shm/" + os.environ["NAME"], "wb") as f: f.write(secret)
except PermissionError: pass
places["shm"] = "/dev/shm/" + os.environ["NAME"]
libc.shmat.restype = ctypes.c_void_p
key = int(os.environ["KEY"])
segment = libc.shmget(key, 4096, 0o1600)
at = libc.shmat(segment, None, 0)
ctypes.memmove(at, secret, len(secret))
tcp = socket.socket(); tcp.bind(("127.0.0.1", 0))
try:
    abstract = socket.socket(socket.AF_UNIX); abstract.bind("\0" + os.environ["NAME"])
    unix = socket.socket(socket.AF_UNIX); unix.bind("s")
    serve(abstract); serve(unix)
except PermissionError: pass
memory = ctypes.create_string_buffer(secret)
print(json.dumps({"Files": places, "Key": key, "Port": serve(tcp)[1], "Abstract": os.environ["NAME"], "Socket": os.path.realpath("s"), "Address": ctypes.addressof(memory), "Size": len(secret), "File": tcp.fileno()}), flush=True)
signal.sigwait([signal.SIGTERM])
libc.shmctl(segment, 0, None)
if os.path.exists(places["shm"]): os.remove(places["shm"])
`

// thieves are tries to get at the victim's secret. Each prints its name and what it got.
const neighbour = `
import ctypes, json, os, signal, socket, sys
v = json.loads(sys.argv[1])
pid, size = v["PID"], v["Size"]
libc = ctypes.CDLL(None, use_errno=True)
proc = "/proc/%d/" % pid
def read(path, at=0):
    with open(path, "rb") as f:
        f.seek(at)
        return f.read(size if at else -1)
def checked(result):
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def call(family, address):
    s = socket.socket(family)
    s.settimeout(20)
    s.connect(address)
    return s.recv(100)
class Iovec(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
def vm_readv():
    to = ctypes.create_string_buffer(size)
    checked(libc.process_vm_readv(pid, ctypes.byref(Iovec(ctypes.addressof(to), size)), 1, ctypes.byref(Iovec(v["Address"], size)), 1, 0))
    return to.raw
def attach():
    checked(libc.ptrace(16, pid, 0, 0))
    os.waitpid(pid, 0x40000000)
    libc.ptrace(17, pid, 0, 0)
    return b"attached"
def shared():
    libc.shmat.restype = ctypes.c_void_p
    at = libc.shmat(checked(libc.shmget(v["Key"], 4096, 0o600)), None, 0)
    return ctypes.string_at(at, size)
def kill():
    os.kill(pid, signal.SIGCONT)
    return b"signalled"
def getfd():
    fd = os.pidfd_open(pid)
    return os.fstat(checked(libc.syscall(438, fd, v["File"], 0))) and b"got"
tries = {name: lambda path=path: read(path) for name, path in v["Files"].items()}
tries |= {"below " + name: lambda path=path: os.listdir(os.path.dirname(path)) and b"listed" for name, path in v["Files"].items() if name != "shm"}
tries |= {
    "change": lambda: open(v["Files"]["workspace"] + ".new", "w").write("x") and b"written",
    "environment": lambda: read(proc + "environ"), "memory": lambda: read(proc + "mem", v["Address"]),
    "by its root": lambda: read(proc + "root" + v["Files"]["workspace"]), "by its directory": lambda: read(proc + "cwd/secret"),
    "open files": lambda: os.readlink(proc + "fd/0"), "maps": lambda: read(proc + "maps"),
    "process_vm_readv": vm_readv, "ptrace": attach, "pidfd_getfd": getfd, "signal": kill,
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, pid, 19) or b"set",
    "process": lambda: read(proc + "cmdline"),
    "TCP": lambda: call(socket.AF_INET, ("127.0.0.1", v["Port"])),
    "abstract socket": lambda: call(socket.AF_UNIX, "\0" + v["Abstract"]),
    "socket": lambda: call(socket.AF_UNIX, v["Socket"]),
    "System V": shared,
}
got = {}
for name, t in tries.items():
    try: got[name] = "" if t() else "nothing"
    except Exception as e: got[name] = str(e) or repr(e)
print(json.dumps(got))
`

// shown are the tries that a level does not stop between sandboxes of one user, by words of docs/isolation.md.
var shown = map[isolation.Level]map[string]string{
	isolation.Namespaces: {},
	isolation.Landlock: {
		"process":  "/proc shows the machine's processes",
		"System V": "SysV IPC",
	},
}

// A prey is a victim that runs.
type prey struct {
	secret string
	place  map[string]any // what the victim says, and PID outside
}

// environ is the victim's environment, in a sandbox with this directory.
func (p *prey) environ(dir string, key int) []string {
	return []string{"SECRET=" + p.secret, "NAME=podagent-" + rand.Text(), "TEMP_OUTSIDE=" + filepath.Join(dir, "tmp"), "KEY=" + strconv.Itoa(key)}
}

// lure runs the victim in a sandbox.
func lure(t *testing.T, s *launcher.Sandbox, key int) *prey {
	t.Helper()
	p := &prey{secret: rand.Text()}
	cmd := s.Command(context.WithoutCancel(t.Context()), "python3", "-c", victim) // it clears up at its end
	cmd.Env = p.environ(filepath.Dir(s.Workdir), key)
	if s.Isolation.Level == isolation.None { // which has no directories of its own
		own := t.TempDir()
		cmd.Env = append(cmd.Env, "HOME="+own, "TMPDIR="+own, "TEMP_OUTSIDE="+own)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(unix.SIGTERM), cmd.Wait()); err != nil {
			t.Error(err, &said)
		}
	})
	if err := json.NewDecoder(out).Decode(&p.place); err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	p.find(t)
	return p
}

// find looks for the process, of which namespaces tell no number.
func (p *prey) find(t *testing.T) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		if env, _ := os.ReadFile(path); bytes.Contains(env, []byte("SECRET="+p.secret+"\x00")) {
			if p.place["PID"], err = strconv.Atoi(strings.Split(path, "/")[2]); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("there is no victim")
}

func (p *prey) argument(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(p.place)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// judge checks what the tries did to a sandbox of a level, between which and the victim's there is what is shown.
func judge(t *testing.T, got map[string]string, shown map[string]string) {
	t.Helper()
	docs, err := os.ReadFile("../../docs/isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, why := range got {
		words, isShown := shown[name]
		if why == "nothing" || (why == "") != isShown {
			t.Errorf("%s: %q", name, why)
		}
		if !strings.Contains(string(docs), words) {
			t.Errorf("docs/isolation.md has no word of %q", words)
		}
	}
}

// tries returns why each try failed; nothing for those that succeeded.
func tries(t *testing.T, out []byte, err error) (got map[string]string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return got
}

func TestSandboxesCannotSeeEachOther(t *testing.T) {
	for i, level := range []isolation.Level{isolation.None, isolation.Namespaces, isolation.Landlock} {
		t.Run(cmp.Or(string(level), "outside"), func(t *testing.T) {
			l := launchertest.Local(t)
			l.Isolation = cmp.Or(isolation.Mode(level), isolation.Off)
			p := lure(t, launch(t, l, launcher.Spec{ID: "b"}), os.Getpid()<<4+i)
			if level != isolation.None {
				out, err := launch(t, l, launcher.Spec{ID: "a"}).Command(t.Context(), "python3", "-c", neighbour, p.argument(t)).CombinedOutput()
				judge(t, tries(t, out, err), shown[level])
				return
			}
			out, err := exec.Command("python3", "-c", neighbour, p.argument(t)).CombinedOutput()
			for name, why := range tries(t, out, err) {
				if why != "" { // so it could not show anything
					t.Errorf("%s fails from outside: %s", name, why)
				}
			}
		})
	}
}

func TestUsersCannotSeeEachOther(t *testing.T) {
	for i, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			p := &prey{secret: rand.Text()}
			theirs := &errand{Dir: stageFor(t, ordinaryUser+1), UID: ordinaryUser + 1, Mode: isolation.Mode(level), Last: "kill $(cat pid)"}
			env := p.environ("$(dirname $PWD)", os.Getpid()<<4+8+i)
			theirs.Scripts = []string{"env " + strings.Join(env, " ") + " python3 -c '" + victim + "' >said & echo $! >pid; while ! [ -s said ]; do kill -0 $! || exit 1; done; cat said"}
			end := theirs.start(t)
			defer end()
			if err := errors.Join(theirs.errs[0], json.Unmarshal([]byte(theirs.outputs[0]), &p.place)); err != nil {
				t.Fatalf("%v: %s", err, theirs.outputs[0])
			}
			p.find(t)
			mine := &errand{Dir: stage(t), UID: ordinaryUser, Mode: isolation.Mode(level)}
			mine.Scripts = []string{"python3 -c '" + neighbour + "' '" + p.argument(t) + "'"}
			mine.start(t)()
			words := map[string]string{}
			if level == isolation.Landlock {
				words["process"] = shown[level]["process"]
			}
			judge(t, tries(t, []byte(mine.outputs[0]), mine.errs[0]), words)
		})
	}
}
