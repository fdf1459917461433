//go:build linux && !race

package launcher_test

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// victim is what runs in a sandbox that others look at, until TERM. It has a secret wherever there may be one,
// and tells where: in its memory and environment, in files, at sockets, and in memory that is shared. Within rules of
// Landlock it can have neither unix sockets nor shared memory by a name. Whoever may trace it by its user, may.
const victim = `
import ctypes, json, os, signal, socket, threading
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
secret = os.environ["SECRET"].encode()
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(0x59616d61, ctypes.c_long(-1), 0, 0, 0)
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
shm = "/dev/shm/" + os.environ["NAME"]
try:
    with open(shm, "wb") as f: f.write(secret)
    places["shm"] = shm
except PermissionError: pass
libc.shmat.restype = ctypes.c_void_p
key = int(os.environ["KEY"])
segment = libc.shmget(key, 4096, 0o1600)
at = libc.shmat(segment, None, 0)
ctypes.memmove(at, secret, len(secret))
tcp = socket.socket(); tcp.bind(("127.0.0.1", 0))
sockets = {}
try:
    abstract = socket.socket(socket.AF_UNIX); abstract.bind("\0" + os.environ["NAME"])
    unix = socket.socket(socket.AF_UNIX); unix.bind("s")
    serve(abstract); serve(unix)
    sockets = {"abstract socket": "\0" + os.environ["NAME"], "socket": os.path.realpath("s")}
except PermissionError: pass
memory = ctypes.create_string_buffer(secret)
print(json.dumps({"Files": places, "Key": key, "Port": serve(tcp)[1], "Sockets": sockets, "Address": ctypes.addressof(memory), "Size": len(secret), "File": tcp.fileno()}), flush=True)
signal.sigwait([signal.SIGTERM])
libc.shmctl(segment, 0, None)
if "shm" in places: os.remove(shm)
`

// neighbour has tries to get at the victim's secret. It prints why each failed, or nothing for those that succeeded.
// In a namespace the victim's number can be that of another process or thread, which is no success.
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
def another():
    try: return not read(proc + "cmdline").endswith(v["Name"].encode() + b"\0")
    except OSError: return False
tries = {name: lambda path=path: read(path) for name, path in v["Files"].items()}
tries |= {"below " + name: lambda path=path: os.listdir(os.path.dirname(path)) and b"listed" for name, path in v["Files"].items() if name != "shm"}
tries |= {
    "change": lambda: open(v["Files"]["workspace"] + ".new", "w").write("x") and b"written",
    "TCP": lambda: call(socket.AF_INET, ("127.0.0.1", v["Port"])),
    "System V": shared,
}
tries |= {name: lambda address=address: call(socket.AF_UNIX, address) for name, address in v["Sockets"].items()}
numbered = {
    "environment": lambda: read(proc + "environ"), "memory": lambda: read(proc + "mem", v["Address"]),
    "by its root": lambda: read(proc + "root" + v["Files"]["workspace"]), "by its directory": lambda: read(proc + "cwd/secret"),
    "open files": lambda: os.readlink(proc + "fd/0"), "maps": lambda: read(proc + "maps"),
    "process_vm_readv": vm_readv, "ptrace": attach, "pidfd_getfd": getfd, "signal": kill,
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, pid, 19) or b"set",
    "process": lambda: read(proc + "cmdline"),
}
got = {}
for name, t in (tries | numbered).items():
    try: got[name] = ("it is of another process" if name in numbered and another() else "") if t() else "nothing"
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

// lure runs the victim in a sandbox of a user in a directory of [stageFor], and returns what ends it.
func lure(t *testing.T, dir string, user int, level isolation.Level) (p *prey, end func()) {
	t.Helper()
	p = &prey{secret: rand.Text()}
	name := "podagent-" + rand.Text()
	env := []string{"SECRET=" + p.secret, "NAME=" + name, "KEY=" + strconv.Itoa(os.Getpid()<<6+int(lured.Add(1))), "TEMP_OUTSIDE=$(dirname $PWD)/tmp"}
	if level == isolation.None { // which has no directories of its own
		own := filepath.Join(dir, "tmp")
		env = append(env, "HOME="+own, "TMPDIR="+own, "TEMP_OUTSIDE="+own)
	}
	e := &errand{Dir: dir, ID: "victim-" + cmp.Or(string(level), "open"), UID: uint32(user), Mode: cmp.Or(isolation.Mode(level), isolation.Off), Last: "kill $(cat pid); while kill -0 $(cat pid) 2>ended; do sleep 0.01; done"} // it clears up
	e.Scripts = []string{"mkfifo said\nenv " + strings.Join(env, " ") + " python3 -c '" + victim + "' " + name + " >said & echo $! >pid; head -n 1 said"}
	end = e.start(t)
	if err := errors.Join(e.errs[0], json.Unmarshal([]byte(e.outputs[0]), &p.place)); err != nil {
		t.Fatalf("%v: %s", err, e.outputs[0])
	}
	p.place["Name"] = name
	p.find(t)
	return p, end
}

// lured counts victims, each of which has a key of its own.
var lured atomic.Int32

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
	for name, user := range map[string]int{"root": 0, "ordinary": ordinaryUser} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := stageFor(t, user)
			keepApart(t, dir, user, dir, user, shown)
		})
	}
}

func TestUsersCannotSeeEachOther(t *testing.T) {
	words := map[isolation.Level]map[string]string{isolation.Landlock: {"process": shown[isolation.Landlock]["process"]}}
	keepApart(t, stageFor(t, ordinaryUser+1), ordinaryUser+1, stage(t), ordinaryUser, words)
}

// keepApart has an isolated sandbox of one user try to get at victims of another one: one that is isolated as well,
// and one that nothing isolates, and so has all that there is to get at. The latter's user can get at it from outside.
func keepApart(t *testing.T, theirs string, they int, mine string, me int, shown map[isolation.Level]map[string]string) {
	t.Helper()
	open, end := lure(t, theirs, they, isolation.None)
	defer end()
	for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		isolated, end := lure(t, theirs, they, level)
		defer end()
		victims := map[string]*prey{"isolated": isolated, "open": open}
		thief := &errand{Dir: mine, ID: "thief-" + string(level), UID: uint32(me), Mode: isolation.Mode(level)}
		names := slices.Sorted(maps.Keys(victims))
		for _, name := range names {
			thief.Scripts = append(thief.Scripts, "python3 -c '"+neighbour+"' '"+victims[name].argument(t)+"'")
		}
		thief.run(t)
		for i, name := range names {
			t.Run(string(level)+"/"+name, func(t *testing.T) { judge(t, tries(t, []byte(thief.outputs[i]), thief.errs[i]), shown[level]) })
		}
	}
	out, err := (&errand{Dir: theirs, UID: uint32(they)}).command(t.Context(), "env", "python3", "-c", neighbour, open.argument(t)).CombinedOutput()
	got := tries(t, out, err)
	for name, why := range got {
		if why != "" { // so it could not show anything
			t.Errorf("%s fails from outside: %s", name, why)
		}
	}
	for _, name := range []string{"shm", "socket", "abstract socket"} {
		if _, tried := got[name]; !tried {
			t.Errorf("the open victim has no %s", name)
		}
	}
}
