package tools_test

import (
	"bytes"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/secret"
)

func TestRead(t *testing.T) {
	h := newHost(t, tools.Options{})
	h.put("src/main.go", "package main\n\nfunc main() {}\n")
	h.put("src/main_test.go", "package main\n")
	h.put("no-end.txt", "one\ntwo")
	h.put("empty.txt", "")
	h.put("latin1.txt", "caf\xe9\n")
	h.put("crlf.txt", "one\r\ntwo\r\n")
	h.put("binary.bin", "\x7fELF\x00\x01")
	h.put("archive.zip", "PK\x03\x04\x00\x00\x00")
	h.put("pointer.png", "version https://git-lfs.github.com/spec/v1\n")
	h.put("utf16.txt", "\xff\xfeh\x00i\x00\n\x00")
	h.put("cut.jpg", "\xff\xd8\xff\xe0\x00\x10JFIF\x00")
	h.put("many/a", "")
	h.golden(t, "Read", []goldenCase{
		{"a whole file", `{"path": "src/main.go"}`},
		{"an absolute path", `{"path": "` + h.workdir + `/no-end.txt"}`},
		{"from an offset on", `{"path": "src/main.go", "offset": 3}`},
		{"a window", `{"path": "src/main.go", "offset": 1, "limit": 2}`},
		{"numbers as texts", `{"path": "src/main.go", "offset": "2", "limit": 1.0}`},
		{"no line end at the end", `{"path": "no-end.txt"}`},
		{"CRLF", `{"path": "crlf.txt"}`},
		{"an empty file", `{"path": "empty.txt"}`},
		{"beyond the end", `{"path": "no-end.txt", "offset": 9}`},
		{"not UTF-8", `{"path": "latin1.txt"}`},
		{"a text with the name of an image", `{"path": "pointer.png"}`},
		{"binary", `{"path": "binary.bin"}`},
		{"an archive", `{"path": "archive.zip"}`},
		{"UTF-16", `{"path": "utf16.txt"}`},
		{"an image that was cut short", `{"path": "cut.jpg"}`},
		{"not found, but something like it", `{"path": "src/mian.go"}`},
		{"not found, the other suffix", `{"path": "src/main.ts"}`},
		{"not found, nothing like it", `{"path": "src/zzzzzzzzz"}`},
		{"the directory is not found either", `{"path": "scr/main.go"}`},
		{"an image is not found", `{"path": "src/logo.png"}`},
		{"is a directory", `{"path": "src"}`},
		{"a file as a directory", `{"path": "no-end.txt/x"}`},
		{"no path that there can be", `{"path": "a\u0000b"}`},
		{"a device", `{"path": "/dev/zero"}`},
		{"no input", ``},
		{"an unknown parameter", `{"file_path": "a"}`},
		{"an empty path", `{"path": ""}`},
		{"a wrong type", `{"path": ["a"]}`},
		{"no number", `{"path": "a", "offset": "ten"}`},
		{"a number that is too large", `{"path": "a", "offset": 9223372036854775807}`},
		{"half a line", `{"path": "a", "offset": 1.5}`},
		{"too small", `{"path": "a", "offset": 0}`},
		{"a limit over ours", `{"path": "no-end.txt", "limit": 9999}`},
		{"null for what is left out", `{"path": "no-end.txt", "offset": null}`},
		{"null for what is required", `{"path": null}`},
		{"no object", `["a"]`},
		{"no JSON", `{"path": `},
	})
}

func TestReadSaysWhichLimitItHit(t *testing.T) {
	h := newHost(t, tools.Options{})
	h.put("lines", strings.Repeat("x\n", 5000))
	h.put("bytes", strings.Repeat(strings.Repeat("y", 99)+"\n", 2000))
	h.put("long", "first\n"+strings.Repeat("é", 40<<10)+"\nthird\n")

	text := h.text("Read", `{"path": "lines"}`)
	has(t, text, "(lines 1-2000 of 5000, truncated at 2000 lines; continue with offset 2001)\n")
	if n := strings.Count(text, "x\n"); n != 2000 {
		t.Errorf("%d lines", n)
	}
	text = h.text("Read", `{"path": "bytes"}`)
	has(t, text, "(lines 1-512 of 2000, truncated at 50 KiB; continue with offset 513)\n")
	if len(text) > tools.MaxText+200 || !strings.HasSuffix(text, "y\n") {
		t.Errorf("%d bytes, which end with %q", len(text), text[len(text)-10:])
	}
	has(t, h.text("Read", `{"path": "long"}`), "(lines 1-1 of 3, truncated at 50 KiB; continue with offset 2)\nfirst\n")
	text = h.text("Read", `{"path": "long", "offset": 2}`)
	has(t, text, "(lines 2-2 of 3, cut: line 2 is longer than 50 KiB", "continue with offset 3)")
	if !strings.HasSuffix(text, "é") || strings.Contains(text, "\uFFFD") {
		t.Errorf("a rune was cut: %q", text[len(text)-10:])
	}
}

func TestReadImages(t *testing.T) {
	h := newHost(t, tools.Options{})
	picture := image.NewGray(image.Rect(0, 0, 2, 2))
	var asPNG, asJPEG, asGIF bytes.Buffer
	for _, err := range []error{png.Encode(&asPNG, picture), jpeg.Encode(&asJPEG, picture, nil), gif.Encode(&asGIF, picture, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	webp := "RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00"
	for name, c := range map[string]struct{ data, kind string }{
		"a.png":        {asPNG.String(), "image/png"},
		"B.JPG":        {asJPEG.String(), "image/jpeg"},
		"c.jpeg":       {asJPEG.String(), "image/jpeg"},
		"d.gif":        {asGIF.String(), "image/gif"},
		"e.webp":       {webp, "image/webp"},
		"misnamed.gif": {asPNG.String(), "image/png"},
		"nameless":     {asPNG.String(), "image/png"},
	} {
		h.put(name, c.data)
		got := h.call("Read", `{"path": "`+name+`"}`)
		if got.IsError || len(got.Content) != 1 || got.Content[0].MediaType != c.kind || string(got.Content[0].Data) != c.data {
			t.Errorf("%s: %s", name, got.Text())
		}
	}
	for name, data := range map[string]string{"cut.png": asPNG.String()[:asPNG.Len()-8], "cut.jpg": asJPEG.String()[:asJPEG.Len()-2], "cut.webp": webp[:len(webp)-1]} {
		h.put(name, data)
		has(t, h.refused("Read", `{"path": "`+name+`"}`), "is incomplete: its end is missing")
	}
	h.put("large.png", asPNG.String()+strings.Repeat("\x00", tools.MaxImage))
	has(t, h.refused("Read", `{"path": "large.png"}`), "more than 5 MiB", "Make it smaller")
}

func TestWrite(t *testing.T) {
	h := newHost(t, tools.Options{})
	h.put("dir/file", "")
	h.golden(t, "Write", []goldenCase{
		{"a new file with its directories", `{"path": "a/b/c.txt", "content": "one\ntwo\n"}`},
		{"over another", `{"path": "a/b/c.txt", "content": "three"}`},
		{"nothing", `{"path": "empty", "content": ""}`},
		{"is a directory", `{"path": "dir", "content": "x"}`},
		{"below a file", `{"path": "dir/file/x", "content": "x"}`},
		{"no content", `{"path": "x"}`},
		{"content that is no text", `{"path": "x", "content": {"a": 1}}`},
	})
	content, err := os.ReadFile(filepath.Join(h.workdir, "a/b/c.txt"))
	if err != nil || string(content) != "three" {
		t.Errorf("the file has %q, %v", content, err)
	}
}

func TestEdit(t *testing.T) {
	h := newHost(t, tools.Options{})
	h.put("main.go", "package main\n\nfunc a() {}\n\nfunc b() {}\n\nfunc a2() { a() }\n")
	h.put("crlf.txt", "one\r\ntwo\r\n")
	h.put("tabs.go", "if x {\n\treturn\n}\n")
	h.golden(t, "Edit", []goldenCase{
		{"a unique text", `{"path": "main.go", "old_text": "func b() {}", "new_text": "func b() { a() }"}`},
		{"several, and all are meant", `{"path": "main.go", "old_text": "a()", "new_text": "c()", "replace_all": true}`},
		{"two, and it is not said which", `{"path": "main.go", "old_text": "c()", "new_text": "d()"}`},
		{"none", `{"path": "main.go", "old_text": "func z()", "new_text": "x"}`},
		{"none, for white space", `{"path": "tabs.go", "old_text": "    return", "new_text": "x"}`},
		{"none, for CRLF", `{"path": "crlf.txt", "old_text": "one\ntwo", "new_text": "x"}`},
		{"none, but its first line", `{"path": "main.go", "old_text": "package main\nimport", "new_text": "x"}`},
		{"old is new", `{"path": "main.go", "old_text": "x", "new_text": "x"}`},
		{"an empty old text", `{"path": "main.go", "old_text": "", "new_text": "x"}`},
		{"not found", `{"path": "man.go", "old_text": "x", "new_text": "y"}`},
		{"is a directory", `{"path": ".", "old_text": "x", "new_text": "y"}`},
		{"a boolean as a text", `{"path": "tabs.go", "old_text": "return", "new_text": "panic(0)", "replace_all": "true"}`},
	})
}

func TestPlaceholdersOfSecretsAreNotTakenForThem(t *testing.T) {
	h := newHost(t, tools.Options{Secrets: map[string]secret.Provider{"TOKEN": secret.Static(token)}})
	h.put(".env", "TOKEN="+token+"\nPORT=80\n")
	has(t, h.text("Read", `{"path": ".env"}`), "TOKEN=[REDACTED:TOKEN]\n")
	has(t, h.refused("Edit", `{"path": ".env", "old_text": "[REDACTED:TOKEN]\nPORT=80", "new_text": "x"}`), "a placeholder where the file has a secret")
	const literally = "(it now contains [REDACTED:TOKEN] literally: "
	has(t, h.text("Edit", `{"path": ".env", "old_text": "PORT=80", "new_text": "[REDACTED:TOKEN]"}`), literally)
	has(t, h.text("Write", `{"path": ".env", "content": "TOKEN=[REDACTED:TOKEN]"}`), literally)
	if got := h.text("Write", `{"path": ".env", "content": "[REDACTED:OTHER]"}`); strings.Contains(got, "literally") {
		t.Errorf("of what is no secret it says %s", got)
	}
}

func TestMissingWorkdirIsNamed(t *testing.T) {
	h := newHost(t, tools.Options{Workdir: "none"})
	for _, c := range []struct{ tool, input, want string }{
		{"Grep", `{"pattern": "x"}`, `cannot search in "none": there is no such file or directory`},
		{"Glob", `{"pattern": "*"}`, `cannot search in "none": there is no such file or directory`},
		{"Bash", `{"command": "true"}`, `cannot run in "none": there is no such file or directory`},
	} {
		has(t, h.refused(c.tool, c.input), c.want)
	}
}

func TestGlob(t *testing.T) {
	h := newHost(t, tools.Options{})
	for _, name := range []string{"a.txt", "b.md", ".hidden.txt", "sub/c.txt", "with space.txt", "build/out.txt", ".git/config", "sub/[1].txt"} {
		h.put(name, "")
	}
	h.put(".gitignore", "build/\n")
	h.golden(t, "Glob", []goldenCase{
		{"a suffix, without the other", `{"pattern": "*.txt"}`},
		{"at any depth", `{"pattern": "**/*.txt"}`},
		{"directories", `{"pattern": "*"}`},
		{"below a directory", `{"pattern": "*.txt", "cwd": "sub"}`},
		{"what looks like a command", `{"pattern": "/tmp/$(rm -rf /).txt"}`},
		{"no match", `{"pattern": "*.none"}`},
		{"ignored alone", `{"pattern": "build/*"}`},
		{"a limit", `{"pattern": "*.txt", "limit": 2}`},
		{"an escaped bracket", `{"pattern": "sub/\\[1\\].txt"}`},
		{"an invalid pattern", `{"pattern": "src/[a"}`},
		{"the directory is not found", `{"pattern": "*", "cwd": "sbu"}`},
		{"the directory is a file", `{"pattern": "*", "cwd": "a.txt"}`},
		{"no limit at all", `{"pattern": "*", "limit": 0}`},
	})
}

func TestGrep(t *testing.T) {
	h := newHost(t, tools.Options{})
	h.put("src/one.go", "alpha\nbeta\nalphabet\ngamma\ndelta\nepsilon alpha\n")
	h.put("a:b.txt", "word one\n")
	h.put(".env", "alpha=1\n")
	h.put("binary", "alpha\x00")
	h.put("build/out", "alpha\n")
	h.put(".gitignore", "build/\n")
	h.put(".git/config", "alpha\n")
	h.put("wide", "alpha"+strings.Repeat("x", 3000)+"\n")
	h.golden(t, "Grep", []goldenCase{
		{"path, number and line", `{"pattern": "beta"}`},
		{"alternatives and classes", `{"pattern": "w\\w+d|gamma"}`},
		{"one directory", `{"pattern": "^alpha", "path": "src"}`},
		{"one file", `{"pattern": "alpha", "path": "src/one.go"}`},
		{"a glob", `{"pattern": "alpha", "glob": "*.go"}`},
		{"without case", `{"pattern": "ALPHABET", "case_sensitive": false}`},
		{"with case", `{"pattern": "ALPHABET"}`},
		{"context", `{"pattern": "alphabet|epsilon", "path": "src", "context": 1}`},
		{"a limit", `{"pattern": "alpha", "path": "src", "limit": 2}`},
		{"no match", `{"pattern": "nothing like it", "path": "src"}`},
		{"what is ignored, by its name", `{"pattern": "alpha", "path": "build"}`},
		{"a long line", `{"pattern": "alphax", "path": "wide"}`},
		{"a binary file", `{"pattern": "alpha", "path": "binary"}`},
		{"an invalid regex", `{"pattern": "good(bad"}`},
		{"an invalid glob", `{"pattern": "x", "glob": "[a"}`},
		{"not found", `{"pattern": "x", "path": "scr"}`},
	})
}

func TestLongListingsAreTruncatedAndSayIt(t *testing.T) {
	h := newHost(t, tools.Options{})
	for i := range 300 {
		h.put("dir/"+strings.Repeat("n", 200)+string(rune('a'+i%26))+string(rune('a'+i/26)), strings.Repeat("match ", 20)+"\n")
	}
	text := h.text("Glob", `{"pattern": "**/n*"}`)
	has(t, text, "(truncated at 50 KiB: there is more. Make the pattern narrower)")
	if len(text) > tools.MaxText+200 {
		t.Errorf("%d bytes", len(text))
	}
	text = h.text("Grep", `{"pattern": "match", "limit": 1000}`)
	has(t, text, "(truncated at 50 KiB: there is more. Make the pattern narrower)")
	if len(text) > tools.MaxText+200 {
		t.Errorf("%d bytes", len(text))
	}
}
