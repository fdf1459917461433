package main

import (
	"io/fs"
	"testing"
	"time"
	"unicode/utf8"
)

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3.0 TiB", 1<<63 - 1: "8.0 EiB",
	} {
		if got := bytesText(n); got != want {
			t.Errorf("bytesText(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestModeText(t *testing.T) {
	for mode, want := range map[fs.FileMode]string{
		0o644:                              "-rw-r--r--",
		fs.ModeDir | 0o755:                 "drwxr-xr-x",
		fs.ModeDir | fs.ModeSticky | 0o777: "drwxrwxrwt",
		fs.ModeSetuid | 0o755:              "-rwsr-xr-x",
		fs.ModeSetgid | 0o644:              "-rw-r-Sr--",
		fs.ModeSymlink | 0o777:             "lrwxrwxrwx",
		fs.ModeNamedPipe | 0o600:           "prw-------",
		fs.ModeDevice | fs.ModeCharDevice:  "c---------",
	} {
		if got := modeText(mode); got != want {
			t.Errorf("modeText(%v) = %s, want %s", mode, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", time.Minute: "1m", 119 * time.Minute: "1h", 47 * time.Hour: "47h", 49 * time.Hour: "2d",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestBelow(t *testing.T) {
	for _, tt := range []struct{ dir, path, want string }{
		{".", "a/b", "a/b"},
		{".", "./a", "a"},
		{"d", "d/a", "a"},
		{"d/", "d/a", "a"},
		{"/", "/etc", "etc"},
		{"f", "f", "f"},
	} {
		if got := below(tt.dir, tt.path); got != tt.want {
			t.Errorf("below(%q, %q) = %q, want %q", tt.dir, tt.path, got, tt.want)
		}
	}
}

func TestProgressLine(t *testing.T) {
	long := "a/path/that/is/longer/than/any/line/has/room/for.txt"
	for _, tt := range []struct {
		name     string
		n, total int64
		want     string
	}{
		{"file", 512 << 10, 1 << 20, "file                          512.0 KiB  256.0 KiB/s [=========         ]  50%"},
		{long, 3 << 20, -1, "…n/any/line/has/room/for.txt    3.0 MiB    1.5 MiB/s"},
		{"empty", 0, 0, "empty                               0 B        0 B/s"},
		{"grew", 4, 2, "grew                                4 B        2 B/s [==================] 100%"},
	} {
		got := progressLine(tt.name, tt.n, tt.total, 2*time.Second)
		if got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
		if utf8.RuneCountInString(got) >= 80 {
			t.Errorf("%q is wider than a terminal", got)
		}
	}
}
