package gateway_test

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
)

// A server that a command has started is listed; one of the machine beside it, whose network a local sandbox may share, is not.
func TestPortsOfASandboxAreListed(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	beside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	d.walk(
		step{"GET", "/api/v1/sandboxes/none/ports", "", nil, 404, `"class":"no_sandbox"`},
		step{"GET", "/api/v1/sandboxes/No/ports", "", nil, 422, ``},
		step{"GET", "/api/v1/sandboxes/job-1/ports", "", nil, 200, `"ports":\[\]`},
	)
	const server = `node -e 'process.title = "<b>srv"; const s = require("net").createServer().listen(0, "127.0.0.1", () => console.log(s.address().port))' >port & until [ -s port ]; do kill -0 $! || exit; sleep 0.02; done; cat port`
	body, _ := json.Marshal(map[string]string{"script": server})
	var ran struct {
		ExecID string `json:"exec_id"`
		Stdout string
	}
	if err := json.Unmarshal([]byte(d.send("a", "POST", "/api/v1/sandboxes/job-1/exec", string(body)).text), &ran); err != nil {
		t.Fatal(err)
	}
	var list struct {
		Ports []struct {
			Port, PID int
			Name      string
			Addresses []string
			ExecID    string `json:"exec_id"`
		}
	}
	got := d.send("a", "GET", "/api/v1/sandboxes/job-1/ports", "")
	if err := json.Unmarshal([]byte(got.text), &list); err != nil || len(list.Ports) != 1 {
		t.Fatalf("%s: %v", got.text, err)
	}
	p := list.Ports[0]
	if fmt.Sprint(p.Port) != strings.TrimSpace(ran.Stdout) || p.PID < 1 || p.Name != "<b>srv" || !slices.Equal(p.Addresses, []string{"127.0.0.1"}) || p.ExecID != ran.ExecID {
		t.Errorf("%s, of %+v", got.text, ran)
	}
	for token, status := range map[string]int{"o": 404, "x": 401} {
		if got := d.send(token, "GET", "/api/v1/sandboxes/job-1/ports", ""); got.StatusCode != status {
			t.Errorf("the caller %s gets %d %s", token, got.StatusCode, got.text)
		}
	}
}
