//go:build linux

package main

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway/audit"
	"github.com/podagent/podagent/pkg/launcher"
)

func TestCheckOfACertificate(t *testing.T) {
	now := time.Now()
	const day = 24 * time.Hour
	for _, test := range []struct {
		from, until time.Duration // from now
		domain      string
		verdict     launcher.Verdict
		says        string
	}{
		{-day, 30 * day, "sandboxes.test", launcher.Passed, "it is for *.sandboxes.test, until "},
		{-day, 30 * day, "sandboxes.test:8443", launcher.Passed, ""},
		{-day, 30 * day, "", launcher.Passed, ""},
		{-day, 30 * day, "other.test", launcher.Failed, "*.other.test"},
		{-day, 30 * day, "deep.sandboxes.test", launcher.Failed, "*.deep.sandboxes.test"},
		{-day, 10 * day, "sandboxes.test", launcher.Warned, "it expires at "},
		{-2 * day, -day, "sandboxes.test", launcher.Failed, "it expired at "},
		{day, 30 * day, "sandboxes.test", launcher.Failed, "it is not valid before "},
	} {
		certPath, keyPath := writeCertificate(t, now.Add(test.from), now.Add(test.until))
		pair, err := tls.LoadX509KeyPair(certPath, keyPath)
		if err != nil {
			t.Fatal(err)
		}
		f := (&gatewayFlags{domain: test.domain}).judgeCertificate(pair.Leaf, now)
		text := f.Detail + f.Advice
		if f.Err != nil {
			text += f.Err.Error()
		}
		if f.Verdict != test.verdict || !strings.Contains(text, test.says) || (f.Verdict == launcher.Passed) != (f.Advice == "") {
			t.Errorf("%+v: %+v", test, f)
		}
	}
}

func TestCheckOfAnAddress(t *testing.T) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if f := checkAddress(listener.Addr().(*net.TCPAddr)); f.Verdict != launcher.Warned {
		t.Errorf("one in use: %+v", f)
	}
	if f := checkAddress(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}); f.Verdict != launcher.Failed {
		t.Errorf("one of another machine: %+v", f)
	}
}

// A file of secrets that others can read is found before it is used.
func TestCheckOfAKeyThatOthersRead(t *testing.T) {
	certPath, keyPath := writeCertificate(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err := os.Chmod(keyPath, 0o644); err != nil {
		t.Fatal(err)
	}
	f := (&gatewayFlags{cert: certPath, certKey: keyPath}).checkCertificate(&app{})
	if f.Verdict != launcher.Failed || !strings.Contains(f.Err.Error(), "is not yours alone") {
		t.Errorf("%+v", f)
	}
}

// What a gateway would make, its check only tries.
func TestCheckOfAnAuditLogLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := audit.MakeKey(in("key")); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"file": 0o600, "open": 0o644} {
		if err := os.WriteFile(in(name), []byte("x"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		to, key  string
		log, has launcher.Verdict
		says     string
	}{
		{"", in("open"), launcher.NotChecked, launcher.NotChecked, "without --audit"},
		{toStdout, in("key"), launcher.Passed, launcher.Passed, "its public half is "},
		{dir, in("key"), launcher.Passed, launcher.Passed, dir + " takes files"},
		{in("a/b"), in("c/d/key"), launcher.Passed, launcher.Passed, "it will be made in "},
		{in("file"), in("file/key"), launcher.Failed, launcher.Failed, "not a directory"},
		{in("file/a"), in("file"), launcher.Failed, launcher.Failed, "there is no PEM block"},
		{"/proc/audit", in("open"), launcher.Failed, launcher.Failed, "is not yours alone"},
		{dir, "/proc/key", launcher.Passed, launcher.Failed, "/proc/"},
	} {
		f := auditFlags{to: test.to, key: test.key}
		log, has := f.checkLog(), f.checkKey()
		text := log.Detail + has.Detail
		for _, err := range []error{log.Err, has.Err} {
			if err != nil {
				text += err.Error()
			}
		}
		if log.Verdict != test.log || has.Verdict != test.has || !strings.Contains(text, test.says) {
			t.Errorf("%+v: %+v, %+v", test, log, has)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 {
		t.Errorf("there are %v, %v", left, err)
	}
}
