//go:build linux && !race

package escapes_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// facts are what tries are told.
func (e *escapee) facts(p *pair, at isolation.Level) ([]byte, error) {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, e.key(), 0)
	if err != nil {
		return nil, err
	}
	raw := fmt.Appendf(nil, "%s", le32(uint32(handle.Size())))
	raw = append(append(raw, le32(uint32(handle.Type()))...), handle.Bytes()...)
	agent, err := e.agentOf(p)
	if err != nil {
		return nil, err
	}
	changing, err := e.changing()
	if err != nil {
		return nil, err
	}
	victims, err := e.makeVictims(string(at), changing)
	if err != nil {
		return nil, err
	}
	mounted := "/"
	if at == isolation.Namespaces {
		mounted = "/usr"
	}
	dir, besideHome := filepath.Dir(p.Workdir), filepath.Join(filepath.Dir(p.neighbour.Workdir), "home/secret")
	if at == atOutside {
		besideHome = e.path("home/secret") // without isolation there is no other one
	}
	return json.Marshal(map[string]any{
		"digest": e.digest(), "mark": e.mark(), "key": e.key(), "home": e.home(), "rootkey": e.RootKey, "victims": victims,
		"mounted": mounted, "capable": e.Capable, "handle": hex.EncodeToString(raw),
		"setid":   map[string]string{"path": e.SetID, "want": e.SetIDAs},
		"process": e.process.where, "neighbour": p.process, "agent": agent, "signals": signals(), "sockets": e.sockets(p),
		"files": map[string]string{
			"run": filepath.Join(e.Run, "f"), "tmp": e.Temp, "record": filepath.Join(dir, "sandbox.json"), "log": filepath.Join(dir, "agent.log"),
			"neighbour": filepath.Join(p.neighbour.Workdir, "secret"), "neighbour home": besideHome,
			"among": filepath.Join(e.launcher.StateDir, "new"), "beside": filepath.Join(dir, "new"), "pipe": filepath.Join(e.readable(), "pipe"), "readable": filepath.Join(e.readable(), "f"), "program": e.launcher.Agent, "system": "/usr/lib/os-release",
		},
	})
}

func le32(n uint32) string {
	return string([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
}

func (e *escapee) mark() string { return "mark-" + e.digest()[:16] }

// sockets are those outside.
func (e *escapee) sockets(p *pair) map[string]string {
	sockets := map[string]string{
		"run": filepath.Join(e.Run, "docker.sock"), "tmp": e.path("bus"), "home": e.path("home/agent.S"),
		"passing": e.path("passing"), "messages": e.path("messages"), "readable": filepath.Join(e.readable(), "S"), "pipe": filepath.Join(e.readable(), "pipe"),
	}
	if p != nil {
		sockets["agent"] = filepath.Join(filepath.Dir(p.Workdir), "agent.sock")
		sockets["neighbour"] = filepath.Join(filepath.Dir(p.neighbour.Workdir), "agent.sock")
		sockets["open"] = filepath.Join(filepath.Dir(e.open.Workdir), "agent.sock")
	}
	return sockets
}

// agentOf returns the process of a sandbox's agent, as commands of the sandbox know it.
func (e *escapee) agentOf(p *pair) (map[string]any, error) {
	pid := 1
	if p.level != isolation.Namespaces {
		conn, err := net.Dial("unix", filepath.Join(filepath.Dir(p.Workdir), "agent.sock"))
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		raw, err := conn.(*net.UnixConn).SyscallConn()
		if err != nil {
			return nil, err
		}
		var cred *unix.Ucred
		if err := errors.Join(raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }), err); err != nil {
			return nil, err
		}
		pid = int(cred.Pid)
	}
	return map[string]any{"pid": pid, "address": 0x400000, "fd": 0}, nil // where Linux loads programs
}

// signals are the signals of tries that only their target can tell of, by the tries' names.
func signals() map[string]int {
	all := map[string]int{}
	for i, name := range []string{
		"kill", "kill of a group", "tgkill", "sigqueue",
		"a signal by F_SETOWN", "a signal by F_SETOWN_EX", "a signal by FIOSETOWN", "a signal by SIOCSPGRP",
	} {
		all[name] = 40 + i // of real time, which wait one by one
	}
	return all
}
