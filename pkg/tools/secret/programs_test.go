//go:build !race

package secret_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/tools/secret"
)

// The secrets that real programs print: one has what the programs escape, one breaks
// lines of base64 and hex, one has several lines, one bytes that are no text, and one is
// as short as an encoded secret may be.
var printed = map[string]string{
	"odd":   "pa$$w\"ord'\u00e9\u4e2d\U0001f600 \\n&<b>%41+/?~#!{x}`y`\x1b[1m",
	"plain": "ghp_0123456789abcdefghijABCDEFGHIJ",
	"long":  strings.Repeat("0123456789+/abcdef-_", 12),
	"lines": "first line of it\nsecond\tline of it\n-----END-----",
	"bytes": "\xff0123\x80456\xe9789",
	"short": "hunter22",
}

// A printing is what a program prints of the secret $S, which is also in the file s. The
// rest of the output is want, in which § stands for the secret.
type printing struct{ needs, script, want string }

// dumps are six, each of which shows the secret somewhere.
const dumps = `(?s)([^§]*§){6}[^§]*`

var shells = []printing{
	{"bash", `export -p`, `(?s).*\ndeclare -x S=(\$'§'|"§")\n.*`},
	{"bash", `declare -p S`, `declare -x S=(\$'§'|"§")\n`},
	{"bash", `printf %q "$S"`, `§|\$'§'`},
	{"bash", `LC_ALL=C; printf %q "$S"`, `§|\$'§'`},
	{"bash", `echo "${S@Q}"; echo "${S@A}"`, `(?s)\$?'§'\ndeclare -x S=\$?'§'\n`},
	{"bash", `set`, `(?s).*\nS=(§|\$?'§')\n.*`},
	{"bash", `set -x; : "$S"`, `\++ : (§|\$?'§')\n`},
	{"dash", `dash -c 'export -p'`, `(?s).*\nexport S='§'\n.*`},
	{"dash", `dash -c 'set -x; : "$S"'`, `\+ : '?§'?\n`},
	{"printf", `env printf %q "$S"`, `('|''\$')?§'?`},
	{"env", `env`, `(?s).*\nS=§\n.*`},
	{"base64", `base64 s`, `§.{0,3}={0,2}\n`},
	{"base64", `(printf u:; cat s) | base64 -w0`, `.{0,4}§.{0,3}={0,2}`},
	{"base64", `for i in 1 2 3; do (printf "%$((i * 7))s" user:; cat s; echo .) | base64; done`, `([^§]{4,40}§\n?.{0,8}={0,2}\n){3}`},
	{"xxd", `xxd -p s`, `§\n`},
	{"xxd", `xxd s`, `00000000: §\n`},
	{"xxd", `for i in 1 4 9 13 14 15; do (printf "%$((i))s" .; cat s; yes | head -9) | xxd -g1 -c 14; done`, dumps},
	{"hexdump", `for i in 1 4 9 13 14 15; do (printf "%$((i))s" .; cat s; yes | head -9) | hexdump -vC; done`, dumps},
	{"od", `for i in 1 4 9 13 14 15; do (printf "%$((i))s" .; cat s; yes | head -9) | od -vtx1; done`, dumps},
	{"xxd", `xxd -p -u -c 7 s`, `§\n`},
	{"od", `od -An -v -tx1 s`, ` §\n`},
	{"hexdump", `hexdump -v -e '1/1 "%02X "' s`, `§`},
	{"openssl", `openssl base64 -in s`, `§.{0,3}={0,2}\n`},
	{"jq", `jq -n '$ENV.S'; jq -n -a '$ENV.S'`, `"§"\n"§"\n`},
	{"jq", `jq -nr '$ENV.S | @uri, @html, @sh, ([.] | @csv)'`, `§\n§\n'§'\n"§"\n`},
	{"perl", `perl -e 'print quotemeta $ENV{S}'`, `§`},
}

// nodes are expressions of JavaScript, which are strings.
var nodes = []printing{
	{"node", `JSON.stringify({a: S})`, `\{"a":"§"\}`},
	{"node", `require("util").inspect([S])`, "\\[\\s+['\"`]§['\"`]\\s+\\]"},
	{"node", `encodeURIComponent(S)`, `§`},
	{"node", `encodeURI(S)`, `§|.*%2541.*`}, // it escapes % and leaves &
	{"node", `"" + new URLSearchParams({a: S})`, `a=§`},
	{"node", `Buffer.from("ab" + S).toString("base64url")`, `.{0,4}§.{0,2}`},
}

// pythons are expressions of Python. B has the bytes of S.
var pythons = []printing{
	{"python3", `json.dumps([S])`, `\["§"\]`},
	{"python3", `json.dumps([S], ensure_ascii=False)`, `\["§"\]`},
	{"python3", `repr(S)`, `['"]§['"]`},
	{"python3", `ascii(S)`, `['"]§['"]`},
	{"python3", `repr(B)`, `b['"]§['"]`},
	{"python3", `html.escape(S)`, `§`},
	{"python3", `html.escape(B.decode("utf-8", "replace"), quote=False).encode("ascii", "xmlcharrefreplace").decode()`, `§`},
	{"python3", `urllib.parse.quote(B)`, `§`},
	{"python3", `urllib.parse.urlencode({"a": B})`, `a=§`},
	{"python3", `shlex.quote(S)`, `'?§'?`},
	{"python3", `B.hex(":")`, `§`},
	{"python3", `base64.encodebytes(b"x" + B).decode()`, `.{0,4}§.{0,3}={0,2}\n`},
	{"python3", `base64.urlsafe_b64encode(b"xyz:" + B + b"@").decode()`, `.{0,8}§.{0,3}={0,2}`},
}

func TestNothingShowsOfWhatProgramsPrint(t *testing.T) {
	need(t, slices.Concat(shells, nodes, pythons)...)
	for name, value := range printed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "s"), []byte(value), 0o600); err != nil {
				t.Fatal(err)
			}
			r := secret.NewRedactor(resolve(t, map[string]string{"S": value}))
			show := func(script string, all []printing) {
				showsNothing(t, r, value, runAll(t, dir, value, script, len(all)), all)
			}
			show("("+joined(shells, `) 2>&1 && printf '\036'; (`)+`) 2>&1; printf '\036'`, shells)
			if name != "bytes" { // node's environment is text
				show(`exec node -e 'S = process.env.S; for (const s of [`+joined(nodes, ",")+`]) process.stdout.write(s + "\x1e")'`, nodes)
			}
			show(`exec python3 -c 'import base64, html, json, os, shlex, sys, urllib.parse
S, B = os.environ["S"], os.environb[b"S"]
for s in [`+joined(pythons, ",")+`]: sys.stdout.buffer.write((s + "\x1e").encode("utf-8", "surrogateescape"))'`, pythons)
		})
	}
}

// need fails the test unless the programs that the printings need are installed.
func need(t *testing.T, all ...printing) {
	t.Helper()
	for _, p := range all {
		if _, err := exec.LookPath(p.needs); err != nil {
			t.Fatalf("\"make needs\" installs what is missing: %v", err)
		}
	}
}

func joined(all []printing, with string) string {
	var scripts []string
	for _, p := range all {
		scripts = append(scripts, p.script)
	}
	return strings.Join(scripts, with)
}

// runAll runs a script with the secret in its environment. Each of its outputs ends with
// \x1e.
func runAll(t *testing.T, dir, value, script string, outputs int) []string {
	t.Helper()
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=" + dir, "S=" + value, "T=t"}
	out, err := cmd.CombinedOutput()
	all := strings.Split(strings.TrimSuffix(string(out), "\x1e"), "\x1e")
	if err != nil || len(all) != outputs {
		t.Fatalf("%v, %d outputs of %d: %q", err, len(all), outputs, out)
	}
	return all
}

func showsNothing(t *testing.T, r *secret.Redactor, value string, outputs []string, all []printing) {
	const part = 6
	t.Helper()
	for i, p := range all {
		got := strings.ReplaceAll(r.Redact(outputs[i]), "[REDACTED:S]", "§")
		if !regexp.MustCompile(fmt.Sprintf("^(%s)$", p.want)).MatchString(got) {
			t.Errorf("%s: %q is shown as %q, want %s", p.script, outputs[i], got, p.want)
		}
		for at := range len(value) - part + 1 {
			part := value[at : at+part]
			if dump := fmt.Sprintf("% x", part[:3]); strings.Contains(got, part) || strings.Contains(got, dump) {
				t.Errorf("%s: %q shows %q", p.script, got, part)
				break
			}
		}
	}
}
