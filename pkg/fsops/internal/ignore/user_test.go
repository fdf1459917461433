package ignore

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestIgnoreEqualsGitCheckIgnoreWithTheUsersFile(t *testing.T) {
	const global = "a\n/b\nsub/c\n!d\n"
	for name, set := range map[string]func(home, dir string){
		"default": func(home, _ string) { write(t, home+"/.config/git/ignore", global) },
		"xdg default": func(home, _ string) {
			t.Setenv("XDG_CONFIG_HOME", home+"/xdg")
			write(t, home+"/xdg/git/ignore", global)
			write(t, home+"/.config/git/ignore", "other\n")
		},
		"home": func(home, _ string) {
			write(t, home+"/.gitconfig", "[core]\n\texcludesFile = ~/mine\n")
			write(t, home+"/mine", global)
			write(t, home+"/.config/git/ignore", "other\n")
		},
		"xdg config before home": func(home, _ string) {
			write(t, home+"/.config/git/config", "[core]\nexcludesfile=/nonexistent\n")
			write(t, home+"/.gitconfig", "[CORE] EXCLUDESFILE = \"~/mine\" ; comment\n")
			write(t, home+"/mine", global)
		},
		"repository": func(home, dir string) {
			write(t, home+"/.gitconfig", "[core]\nexcludesFile = ~/other\n")
			write(t, home+"/other", "other\n")
			write(t, home+"/mine", global)
			appendTo(t, dir+"/.git/config", "[core]\nexcludesFile = ~/mine\n")
		},
		"relative": func(_, dir string) {
			appendTo(t, dir+"/.git/config", "[core]\nexcludesFile = mine\n")
			write(t, dir+"/mine", global)
		},
		"none": func(home, _ string) {
			write(t, home+"/.config/git/ignore", global)
			write(t, home+"/.gitconfig", "[core]\nexcludesFile =\n")
		},
		"system": func(home, _ string) {
			t.Setenv("GIT_CONFIG_NOSYSTEM", "false")
			t.Setenv("GIT_CONFIG_SYSTEM", home+"/system")
			write(t, home+"/system", "[core]\nexcludesFile = ~/mine\n")
			write(t, home+"/mine", global)
		},
		"no system": func(home, _ string) {
			t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			t.Setenv("GIT_CONFIG_SYSTEM", home+"/system")
			write(t, home+"/system", "[core]\nexcludesFile = ~/mine\n")
			write(t, home+"/mine", global)
		},
		"global": func(home, _ string) {
			t.Setenv("GIT_CONFIG_GLOBAL", home+"/global")
			write(t, home+"/global", "[core]\nexcludesFile = ~/mine\n")
			write(t, home+"/.gitconfig", "[core]\nexcludesFile = ~/other\n")
			write(t, home+"/mine", global)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t, "a", "b", "d", "sub/a", "sub/b", "sub/c", "sub/d", "other", "mine")
			set(os.Getenv("HOME"), r.dir)
			r.compare(name)
			write(t, r.dir+"/.gitignore", "!a\nd\n")
			write(t, r.dir+"/.git/info/exclude", "!/b\n")
			r.compare(name + ", with other rules of the opposite")
		})
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(before)+text)
}

func TestIgnoreEqualsGitCheckIgnoreInWorkTreesAndSubmodules(t *testing.T) {
	main := newRepo(t, "a")
	main.git("-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "-q", "--allow-empty", "-m", "m")
	write(t, main.dir+"/.git/info/exclude", "a\n")
	linked := &repo{t: t, dir: t.TempDir() + "/linked", paths: []string{"a", "b", "sub/a"}}
	main.git("worktree", "add", "-q", linked.dir)
	linked.compare("a linked work tree")
	if got := linked.ignoredByUs(); len(got) != 2 {
		t.Errorf("ignored are %q, want what the main work tree's info/exclude says", got)
	}
	main.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", linked.dir, "module")
	module := &repo{t: t, dir: main.dir + "/module", paths: []string{"a", "b", "sub/a"}}
	module.compare("a submodule")
	write(t, main.dir+"/.git/modules/module/info/exclude", "b\n")
	module.compare("a submodule with rules of its own")
	if got := module.ignoredByUs(); len(got) != 1 || got[0] != "b" {
		t.Errorf("ignored are %q, want b alone", got)
	}
}

func TestConfigValueIsWhatGitReads(t *testing.T) {
	withoutUser(t)
	file := filepath.Join(t.TempDir(), "config")
	for _, text := range []string{
		"[core]\n\texcludesFile = /a\n", "[core]excludesfile=/a", "[CORE]\nExcludesFile\t=\t/a \t\n", "[core]\nexcludesfile = /a # c\n", "[core]\nexcludesfile = \"/a # c\" ; d\n",
		"[core]\nexcludesfile = /a b  c\t\n", "[core]\nexcludesfile = a\\tb\\\\c\\\"d\\n\n", "[core]\nexcludesfile = /a\\\nb\n", "[core]\nexcludesfile = /a \\\n  b\n", "[core]\r\nexcludesfile = /a\r\n",
		"[core]\nexcludesfile = /a\n[other]\nexcludesfile = /b\n", "[core \"x\"]\nexcludesfile = /a\n", "[core]\nexcludesfile = /a\n[core \"x]\\\"\"]\nexcludesfile = /b\n[core]\nother = 1\n",
		"[core]\nexcludesfile = /a\nexcludesfile = /b\n", "[core]\nexcludesfile =\n", "[core]\nexcludesfile = \"\"\n", "# c\n; d\n\n[core]\n# c\nexcludesfile = /a\n",
		"\xef\xbb\xbf[core]\nexcludesfile = /a\n", "[core]\nexcludesfile = \"  /a  \"  \n", "[core]\nexcludesfile = a\"b c\"d\n", "[core]\nexcludesfile = a;b#c\n", "", "[core]\nexcludes-file = /b\nexcludesfile2=c\n",
		"[core]\nexcludesfile = /a\\ \n", "[core\nexcludesfile = /a\n", "[core]\n= /a\n", "[core]\nexcludesfile /a\n", "[core]\nexcludesfile = \"/a\n", "[co.re]\nexcludesfile=/b\n[core]\nexcludesfile=/a", "[core] ; c\n  excludesfile=/a\n",
	} {
		write(t, file, text)
		out, err := exec.Command("git", "config", "--file", file, "--null", "--get", "core.excludesfile").Output()
		exit := 0
		if err != nil {
			exit = err.(*exec.ExitError).ExitCode()
		}
		if exit > 1 { // after a syntax error, only what came before it is known
			continue
		}
		want := fmt.Sprint(strings.TrimSuffix(string(out), "\x00"), exit == 0)
		value, found := configValue(text, "core", "excludesfile")
		if got := fmt.Sprint(value, found); got != want {
			t.Errorf("config %q: value %q, want %q", text, got, want)
		}
	}
}
