package proc

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestInterpretersAreThoseThatTheKernelOpens(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]string{
		"#!/bin/sh\n":             "/bin/sh",
		"#! \t/bin/sh -e\necho":   "/bin/sh",
		"#!interp\t-x\n":          "interp",
		"#!/usr/bin/env":          "/usr/bin/env",
		"#!":                      "",
		"":                        "",
		"echo":                    "",
		"\x7fELF":                 "",
		"\x7fELF\x02 and no more": "",
	} {
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := interpreterOf(t, file); got != want {
			t.Errorf("%q: %q, not %q", content, got, want)
		}
	}
	loader := interpreterOf(t, "/bin/sh")
	if !filepath.IsAbs(loader) || !isRegular(loader) || interpreterOf(t, loader) != "" {
		t.Errorf("the loader of /bin/sh is %q", loader)
	}
}

func interpreterOf(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return interpreter(int(f.Fd()))
}

func FuzzLoaderName(f *testing.F) {
	program, err := os.ReadFile("/bin/sh")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(program[:headSize])
	f.Add([]byte("\x7fELF\x02"))
	f.Fuzz(func(t *testing.T, head []byte) {
		if at, size := loaderName(head[:min(len(head), headSize)]); at < 0 || size < 0 || size > unix.PathMax {
			t.Errorf("%d bytes at %d", size, at)
		}
	})
}

// A lease on what executes a program holds up its start as one on itself does.
func TestStartByALeasedInterpreterHoldsUpNobody(t *testing.T) {
	m := newManager(t)
	dir := t.TempDir()
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	interp, script := filepath.Join(dir, "interp"), filepath.Join(dir, "script")
	for file, content := range map[string][]byte{interp: shell, script: []byte("#!" + interp + "\nexit 7\n")} {
		if err := os.WriteFile(file, content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	giveBack := takeLease(t, interp)
	done := startLater(t.Context(), t, m, argv(t, script))
	runtime.GC()
	if got := run(t, m, argv(t, "true")); got.status.Code != 0 {
		t.Errorf("another command: %+v", got.status)
	}
	select {
	case got := <-done:
		t.Fatalf("the start has returned: %v", got.err)
	default:
	}
	giveBack()
	if got := <-done; got.err != nil {
		t.Error(got.err)
	}
}
