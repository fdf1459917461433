package main

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/pkg/egress"
)

// An editor opens files of hosts that ssh knows, by a server of its own at the host.
type editor struct {
	name     string // for --editor, and with an @ the rule for what its server downloads
	title    string
	programs []string // one of which opens it
	get      string   // where the program comes from
	open     func(host, path string, isDir bool) []string
}

// editors are those that can be opened, the default first.
var editors = []editor{
	{"vscode", "VS Code", []string{"code", "code-insiders"}, `install VS Code from https://code.visualstudio.com, with its extension "Remote - SSH"; on a Mac, its command "Shell Command: Install 'code' command in PATH" makes the program`, openCode},
	{"vscodium", "VSCodium", []string{"codium", "vscodium"}, `install VSCodium from https://vscodium.com, with its extension "Open Remote - SSH"`, openCode},
	{"cursor", "Cursor", []string{"cursor"}, `install Cursor from https://cursor.com; its command "Shell Command: Install 'cursor' command in PATH" makes the program`, openCode},
	{"windsurf", "Windsurf", []string{"windsurf", "surf"}, `install Windsurf from https://windsurf.com; its command "Shell Command: Install 'windsurf' command in PATH" makes the program`, openCode},
	{"zed", "Zed", []string{"zeditor", "zed"}, `install Zed from https://zed.dev; on a Mac, its command "cli: install" makes the program`, openZed},
}

// openCode returns the arguments of VS Code, and of what is made from it, for a path of a host.
func openCode(host, path string, isDir bool) []string {
	kind := "--file-uri"
	if isDir {
		kind = "--folder-uri"
	}
	return []string{kind, "vscode-remote://ssh-remote+" + codeHost(host) + escapedPath(path)}
}

// codeHost returns a host as VS Code has it in addresses, whose capitals it would lose: with any, it is JSON in
// hexadecimal digits, as VS Code itself writes it.
func codeHost(host string) string {
	if host == strings.ToLower(host) {
		return host
	}
	return hex.EncodeToString(fmt.Appendf(nil, `{"hostName":%q}`, host))
}

func openZed(host, path string, _ bool) []string {
	return []string{"ssh://" + host + escapedPath(path)}
}

// escapedPath returns an absolute path as it stands in a URL after the host, which no other path can continue.
func escapedPath(path string) string {
	return (&url.URL{Path: "/" + strings.TrimPrefix(path, "/")}).EscapedPath()
}

// editorNames returns the words for --editor.
func editorNames() (names []string) {
	for _, e := range editors {
		names = append(names, e.name)
	}
	return names
}

// chooseEditor returns the editor of this name, or else the one that the user's variables name, or else VS
// Code, and the path of its program.
func chooseEditor(name string) (*editor, string, error) {
	if name == "" {
		for _, variable := range []string{"VISUAL", "EDITOR"} {
			// The first word is the program. What follows is for files of this machine.
			program, _, _ := strings.Cut(strings.TrimSpace(os.Getenv(variable)), " ")
			if e := editorOf(filepath.Base(program)); e != nil {
				return e.find(program)
			}
		}
	}
	at := max(0, slices.IndexFunc(editors, func(e editor) bool { return e.name == name }))
	return editors[at].find(editors[at].programs...)
}

// editorOf returns the editor that a program opens; nil for another program.
func editorOf(program string) *editor {
	i := slices.IndexFunc(editors, func(e editor) bool { return slices.Contains(e.programs, program) })
	if i < 0 {
		return nil
	}
	return &editors[i]
}

// find returns the editor, and the path of the first of these programs that is there.
func (e *editor) find(programs ...string) (*editor, string, error) {
	for _, program := range programs {
		if path, err := exec.LookPath(program); err == nil {
			return e, path, nil
		}
	}
	what := quote(programs[0])
	if len(programs) > 1 {
		what = flagvalue.Alternatives(programs)
	}
	return nil, "", fmt.Errorf("%s is not here: there is no program %s in PATH: %s%s", e.title, what, e.get, others(e))
}

// others says which other editors there are.
func others(but *editor) string {
	var names []string
	for _, e := range editors {
		if e.name != but.name && slices.ContainsFunc(e.programs, func(p string) bool { _, err := exec.LookPath(p); return err == nil }) {
			names = append(names, "--editor "+e.name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; or give " + strings.Join(names, " or ")
}

// rule is what lets the editor's server download what it needs.
func (e *editor) rule() string { return "@" + e.name }

// hosts are those that the rule allows, as a sentence has them.
func (e *editor) hosts() string {
	rule, err := egress.ParseRule(e.rule())
	if err != nil {
		return err.Error() // which a test excludes
	}
	return strings.Join(rule.Hosts(), ", ")
}
