package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/secret"
)

const (
	token = "ghp_0123456789abcdef"
	key   = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END KEY-----"
)

func secretHost(t *testing.T, more ...tools.Tool) *host {
	all := append(tools.Coding(), tools.Command{Path: "printenv"})
	return newHost(t, tools.Options{Secrets: map[string]secret.Provider{
		"GH_TOKEN": secret.Static(token), "KEY": secret.Static(key),
	}}, append(all, more...)...)
}

// shows fails if there is a secret in text.
func shows(t *testing.T, what, text string) {
	t.Helper()
	for _, s := range []string{token, key, "MIIEvQIBADANBgkqhkiG9w0B"} {
		if strings.Contains(text, s) {
			t.Errorf("%s shows a secret: %s", what, text)
		}
	}
}

func TestSecretsAreInTheEnvironmentOfBashAndCommand(t *testing.T) {
	h := secretHost(t)
	if got := h.text("Bash", `{"command": "test \"$GH_TOKEN\" = `+token+` && echo yes"}`); got != "yes\n" {
		t.Errorf("Bash: %s", got)
	}
	if got := h.text("printenv", `{"args": ["GH_TOKEN"]}`); got != "[REDACTED:GH_TOKEN]\n" {
		t.Errorf("Command: %s", got)
	}
}

func TestSecretsAreInNoResult(t *testing.T) {
	h := secretHost(t)
	h.put("leak-"+token, "a "+token+"\n"+key+"\n")
	h.put("image.png", "\x89PNG\r\n\x1a\n"+token+"IEND")
	for _, c := range []struct{ tool, input string }{
		{"Read", `{"path": "leak-` + token + `"}`},
		{"Read", `{"path": "leak-` + token + `", "offset": 3, "limit": 1}`},
		{"Read", `{"path": "no-` + token + `"}`},
		{"Read", `{"path": "image.png"}`},
		{"Read", `{"` + token + `": 1}`},
		{"Bash", `{"command": "env; echo $KEY"}`},
		{"Bash", `{"command": "printf ghp_01234; sleep 0.1; printf 56789abcdef"}`},
		{"Bash", `{"command": "seq 1 5000; env; seq 1 5000; env"}`},
		{"Bash", `{"command": "env; sleep 60", "timeout": 0.5}`},
		{"Bash", `{"command": "true", "cwd": "` + token + `"}`},
		{"Write", `{"path": "` + token + `", "content": ""}`},
		{"Edit", `{"path": "leak-` + token + `", "old_text": "a ", "new_text": "b "}`},
		{"Glob", `{"pattern": "leak*"}`},
		{"Grep", `{"pattern": "ghp|MII"}`},
		{"Grep", `{"pattern": "(` + token + `"}`},
		{"printenv", `{}`},
		{token, `{}`},
	} {
		result := h.call(c.tool, c.input)
		shows(t, c.tool+" "+c.input, result.Text())
		for _, content := range result.Content {
			shows(t, c.tool, string(content.Data))
		}
	}
}

func TestSecretsAreInNoKeptOutput(t *testing.T) {
	h := secretHost(t)
	text := h.text("Bash", `{"command": "seq 1 3000; env; seq 1 3000"}`)
	content, err := os.ReadFile(keptFile(t, text))
	if err != nil {
		t.Fatal(err)
	}
	shows(t, "the file", string(content))
	has(t, string(content), "GH_TOKEN=[REDACTED:GH_TOKEN]\n")
}

func TestSecretsAreInNoLiveOutput(t *testing.T) {
	h := secretHost(t)
	var live bytes.Buffer
	_, err := h.Do(t.Context(), tools.Call{
		Name: "Bash", Input: json.RawMessage(`{"command": "printf ghp_01234; sleep 0.2; printf 56789abcdef"}`), Output: &live,
	})
	if err != nil || live.String() != "[REDACTED:GH_TOKEN]" {
		t.Errorf("%s, %v", &live, err)
	}
}

func TestSecretsThatComeInTwoPartsInTheBackgroundAreNotShown(t *testing.T) {
	h := secretHost(t)
	id := execID.FindString(h.text("Bash", `{"command": "printf 'a ghp_01234'; while [ ! -e go ]; do sleep 0.05; done; printf 56789abcdef", "run_in_background": true}`))
	var all strings.Builder
	read := func() string {
		text := h.text("BashOutput", `{"id": "`+id+`"}`)
		all.WriteString(text)
		return text
	}
	until(t, func() bool { return strings.HasPrefix(read(), "a \n") })
	h.put("go", "")
	until(t, func() bool { return strings.Contains(read(), "ended") })
	if strings.Contains(all.String(), "ghp_") || strings.Contains(all.String(), "56789abcdef") {
		t.Errorf("it shows a part: %s", &all)
	}
	has(t, all.String(), "[REDACTED:GH_TOKEN]")
}

func TestSecretsAreInNoErrorAndNoLog(t *testing.T) {
	cause := errors.New("cause")
	failing := tools.Func(tools.Spec{Name: "fail"}, func(_ context.Context, env *tools.Env, _ struct{}) (tools.Result, error) {
		return tools.Result{}, fmt.Errorf("it said %v: %w", env.Secrets.Env(), cause)
	})
	printing := tools.Func(tools.Spec{Name: "print"}, func(_ context.Context, env *tools.Env, _ struct{}) (tools.Result, error) {
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("env", "env", env, "secrets", env.Secrets)
		slog.New(slog.NewTextHandler(&log, nil)).Info("env", "env", env, "secrets", env.Secrets)
		fmt.Fprintf(&log, "%v %+v %#v %s %x %v", env, env, env, env.Secrets, env.Secrets, *env)
		if strings.Contains(log.String(), token) || strings.Contains(log.String(), fmt.Sprintf("%x", token)) {
			return tools.Result{}, fmt.Errorf("Env shows secrets: %s", strings.ReplaceAll(log.String(), token, "SECRET"))
		}
		return tools.Text("fine"), nil
	})
	h := secretHost(t, failing, printing)
	_, err := h.Call(t.Context(), "fail", nil)
	if !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	shows(t, "the error", fmt.Sprintf("%v %+v %#v", err, err, err))
	h.text("print", `{}`)
	shows(t, "the session", fmt.Sprintf("%v %+v %#v", h.Session, h.Session, h.Session))
}

func TestSecretsAreInNoArgv(t *testing.T) {
	h := secretHost(t)
	got := h.text("Bash", `{"command": "cat /proc/[0-9]*/cmdline 2>/dev/null | grep -c -f <(printf %s%s ghp_0123 456789abcdef)"}`)
	if got != "0\n(exit code: 1)" {
		t.Errorf("got %s", got)
	}
}

func TestSecretsOfOneCommandAreNotInBash(t *testing.T) {
	gh := tools.Command{Name: "gh", Path: "printenv", Args: []string{"ONLY_GH"}, Secrets: map[string]secret.Provider{"ONLY_GH": secret.Static("only-for-gh")}}
	h := newHost(t, tools.Options{}, tools.Bash{}, gh)
	if got := h.text("gh", `{}`); got != "[REDACTED:ONLY_GH]\n" {
		t.Errorf("gh: %s", got)
	}
	if got := h.text("Bash", `{"command": "echo \"<$ONLY_GH>\" only-for-gh"}`); got != "<> [REDACTED:ONLY_GH]\n" {
		t.Errorf("Bash: %s", got)
	}
}

func TestSecretsAreResolvedOnceAndAgainAfterAFailure(t *testing.T) {
	calls := 0
	provider := secret.Func(func(context.Context) (string, error) {
		if calls++; calls == 1 {
			return "", errors.New("the vault is locked")
		}
		return token, nil
	})
	h := newHost(t, tools.Options{Secrets: map[string]secret.Provider{"A": provider}}, tools.Bash{})
	_, err := h.Call(t.Context(), "Bash", json.RawMessage(`{"command": "true"}`))
	if err == nil || err.Error() != `cannot resolve secret "A": the vault is locked` {
		t.Errorf("got %v", err)
	}
	for range 3 {
		h.text("Bash", `{"command": "true"}`)
	}
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}

func TestInstructionsAreRedacted(t *testing.T) {
	h := secretHost(t)
	h.put("AGENTS.md", "the token is "+token)
	h.put(".agents/skills/a/SKILL.md", "---\ndescription: "+token+"\n---\n")
	p, err := h.Instructions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shows(t, "Instructions", fmt.Sprintf("%+v", p))
	has(t, p.String(), "the token is [REDACTED:GH_TOKEN]")
	if _, err := os.Stat(filepath.Join(h.workdir, "AGENTS.md")); err != nil {
		t.Error(err)
	}
}

// scoped is a Command with a description of its own.
type scoped struct{ tools.Command }

func (s scoped) Spec() tools.Spec {
	spec := s.Command.Spec()
	spec.Name, spec.Description = "scoped", "Prints the token."
	return spec
}

// wrapped is a tool that has a Command within, of which the session does not
// know.
func wrapped(c tools.Command) tools.Tool {
	return tools.Func(tools.Spec{Name: "wrapped"}, func(ctx context.Context, env *tools.Env, _ struct{}) (tools.Result, error) {
		return c.Call(ctx, env, json.RawMessage(`{}`))
	})
}

func TestSecretsOfACommandAreResolvedWhereverItIs(t *testing.T) {
	c := tools.Command{Name: "plain", Path: "printenv", Args: []string{"ONLY"}, Secrets: map[string]secret.Provider{"ONLY": secret.Static("only-for-it")}}
	pointed := c
	pointed.Name = "pointed"
	h := newHost(t, tools.Options{}, c, &pointed, scoped{c}, wrapped(c))
	for _, name := range []string{"plain", "pointed", "scoped"} {
		if got := h.text(name, `{}`); got != "[REDACTED:ONLY]\n" {
			t.Errorf("%s: %s", name, got)
		}
	}
	// It must not run without them, and print what is not redacted.
	_, err := h.Call(t.Context(), "wrapped", nil)
	has(t, fmt.Sprint(err), `secret "ONLY" of the Command for printenv was not resolved`)
}

// Credentials of the way out are in no environment: commands have a placeholder, which a
// model may see, and the value is removed wherever it might show.
func TestRedactedSecretsAreInNoEnvironment(t *testing.T) {
	h := newHost(t, tools.Options{Redact: map[string]secret.Provider{"GH_TOKEN": secret.Static(token)}}, tools.Coding()...)
	got := h.text("Bash", `{"command": "echo \"<$GH_TOKEN>\" podagent-secret-GH_TOKEN-00; printf '%s%s' ghp_ 0123456789abcdef"}`)
	if got != "<> podagent-secret-GH_TOKEN-00\n[REDACTED:GH_TOKEN]" {
		t.Error(got)
	}
}

func TestRedactedSecretThatCannotBeResolvedFailsCalls(t *testing.T) {
	session := tools.New(nil, tools.Options{Redact: map[string]secret.Provider{"A": secret.Static("x")}})
	if err := session.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), `"A"`) {
		t.Error(err)
	}
}
