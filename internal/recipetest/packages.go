package recipetest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"testing"
)

func tarball(t testing.TB, below string, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	archive := tar.NewWriter(packed)
	for name, content := range files {
		if err := archive.WriteHeader(&tar.Header{Name: below + name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(archive, content) // Close says what failed
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipped(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for name, content := range files {
		w, err := archive.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, content) // Close says what failed
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// debianPackage is a package p with a file /hello. It is an archive in ar's format.
func debianPackage(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, part := range []struct {
		name    string
		content []byte
	}{
		{"debian-binary", []byte("2.0\n")},
		{"control.tar.gz", tarball(t, "./", map[string]string{"control": "Package: p\nVersion: 1\nArchitecture: all\nMaintainer: t\nDescription: p\n"})},
		{"data.tar.gz", tarball(t, "./", map[string]string{"hello": "hello"})},
	} {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", part.name, 0, 0, 0, "100644", len(part.content))
		out.Write(part.content)
		if len(part.content)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

func pythonWheel(t testing.TB) []byte {
	const info = "p-1.0.0.dist-info/"
	return zipped(t, map[string]string{
		"p.py":            "hello = 'hello'\n",
		info + "METADATA": "Metadata-Version: 2.1\nName: p\nVersion: 1.0.0\n",
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":   "p.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n",
	})
}
