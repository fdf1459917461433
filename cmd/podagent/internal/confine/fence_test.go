//go:build !race

package confine

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// startFenced starts a thread with a fence that lets these ports pass.
func startFenced(t *testing.T, ports ...int) *Thread {
	t.Helper()
	needsScopes(t)
	fence := &Fence{}
	for _, port := range ports {
		fence.Ports = append(fence.Ports, uint16(port))
	}
	thread, missing, err := Start(RequireDomain, fence, nil)
	if err != nil || missing != nil || !thread.Has(Network) {
		t.Fatalf("the kernel cannot do everything, so this cannot be tested here: %v, %v", missing, err)
	}
	return thread
}

// Each way either ends with an error, or the page says that it leads outside.
func TestFenceHoldsAgainstEachWay(t *testing.T) {
	leave := compile(t, "leave.c")
	page, err := os.ReadFile("../../../../docs/egress.md")
	if err != nil {
		t.Fatal(err)
	}
	around := newSurroundings(t)
	fenced := startFenced(t, around.open)
	for _, w := range slices.Concat(tcpWays, otherWays, accompliceWays) {
		t.Run(w.name, func(t *testing.T) {
			try := func(thread *Thread) string {
				cmd := exec.CommandContext(t.Context(), leave, strings.Fields(around.replacer().Replace(w.try))...)
				cmd.ExtraFiles = []*os.File{around.socket}
				out, err := outputOf(thread, cmd)
				if err != nil {
					t.Fatalf("%v, %s", err, out)
				}
				return strings.TrimSpace(out)
			}
			if got := try(nil); got != "left" && !w.rare {
				t.Errorf("without a fence it ends with %s", got)
			}
			around.arrived()
			if got := try(fenced); got != w.want {
				t.Errorf("it ends with %s, want %s", got, w.want)
			}
			if arrived := around.arrived(); arrived != 0 && w.want != "left" {
				t.Errorf("%d connections or datagrams arrived", arrived)
			}
			if w.want == "left" && (w.page == "" || !strings.Contains(string(page), w.page)) {
				t.Errorf("the page does not say that %q leads outside", w.page)
			}
		})
	}
}

// A fence bounds what commands begin, and not what is begun from outside.
func TestFenceLetsCommandsListen(t *testing.T) {
	fenced := startFenced(t)
	const script = `
import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
conn, _ = s.accept()
conn.sendall(b"out")
`
	cmd := exec.CommandContext(t.Context(), "python3", "-c", script)
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	fenced.Do(func() { err = cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Wait() })
	port, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", "127.0.0.1:"+strings.TrimSpace(port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got := make([]byte, 3)
	if _, err := conn.Read(got); err != nil || string(got) != "out" {
		t.Errorf("%q, %v", got, err)
	}
}

// Commands get no descriptors but their own: one of UDP would lead outside.
func TestFencedCommandsInheritNoSockets(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	out, err := output(t, startFenced(t), "sh", "-c", "ls -l /proc/self/fd")
	if err != nil || strings.Contains(out, "socket:") {
		t.Errorf("%v, %s", err, out)
	}
}

func TestNoFenceWithoutABoundary(t *testing.T) {
	if thread, missing, err := Start(Off, &Fence{}, nil); thread.Has(Network) || missing == nil || err != nil {
		t.Errorf("%v, %v, %v", thread.Parts().Names(), missing, err)
	}
}

// Where the kernel offers no fence, or says that there is one and there is not, the part is
// missing, and it is said why.
func TestFenceIsMissingWhereItDoesNotHold(t *testing.T) {
	needsScopes(t)
	const pretend = unix.SECCOMP_RET_ERRNO // 0 is no error
	for name, test := range map[string]struct {
		rules []rule
		want  string
	}{
		"no ports":             {[]rule{always(unix.SYS_LANDLOCK_ADD_RULE, missing)}, "landlock_add_rule: function not implemented"},
		"no Landlock":          {[]rule{always(unix.SYS_LANDLOCK_CREATE_RULESET, missing)}, "landlock_create_ruleset: function not implemented"},
		"no filter":            {[]rule{always(unix.SYS_SECCOMP, missing)}, "seccomp: function not implemented"},
		"a pretended domain":   {[]rule{always(unix.SYS_LANDLOCK_RESTRICT_SELF, pretend)}, "network-fence: connecting to a port outside: <nil>, want permission denied"},
		"a pretended filter":   {[]rule{always(unix.SYS_SECCOMP, pretend)}, "syscall-filter: prlimit is not refused: <nil>"},
		"more than is refused": {[]rule{always(unix.SYS_CONNECT, refuse)}, "network-fence: connecting to a port outside: operation not permitted, want permission denied"},
		"no way to try":        {[]rule{always(unix.SYS_LISTEN, refuse)}, "network-fence: listen: operation not permitted"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := outputBehind(t, test.rules, levelEnv+"=auto", fenceEnv+"=1")
			if err != nil || !strings.Contains(out, test.want) || strings.Contains(strings.SplitN(out, "\n", 2)[0], "network-fence") {
				t.Errorf("%v, %s, want %s", err, out, test.want)
			}
		})
	}
}
