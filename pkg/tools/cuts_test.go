package tools_test

import (
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/secret"
)

// Everywhere a text is cut, the cut may go through a secret: what is left of it
// then must not be shown either.

// wide is a secret that is longer than most cuts leave.
var wide = "QzVkY8rTn2" + strings.Repeat("Wm4xLp9s", 40)

func wideHost(t *testing.T) *host {
	return newHost(t, tools.Options{Secrets: map[string]secret.Provider{"WIDE": secret.Static(wide)}})
}

// showsNoPart fails if there is a part of the secret in text.
func showsNoPart(t *testing.T, what, text string) {
	t.Helper()
	for at := range len(wide) - secret.MinPart + 1 {
		if part := wide[at : at+secret.MinPart]; strings.Contains(text, part) {
			t.Errorf("%s shows %q of a secret: %s", what, part, brief(text))
			return
		}
	}
}

func TestNoPartOfASecretIsInALineThatReadCuts(t *testing.T) {
	h := wideHost(t)
	h.put("line", strings.Repeat("-", tools.MaxText-30)+wide+"\n")
	text := h.text("Read", `{"path": "line"}`)
	has(t, text, "cut: line 1 is longer than 50 KiB", "--[REDACTED:WIDE]")
	showsNoPart(t, "Read", text)
}

func TestNoPartOfASecretIsInALineThatGrepCuts(t *testing.T) {
	h := wideHost(t)
	h.put("line", "match"+strings.Repeat("-", 970)+wide+"\n")
	text := h.text("Grep", `{"pattern": "match"}`)
	has(t, text, "--[REDACTED:WIDE]… (+")
	showsNoPart(t, "Grep", text)
}

func TestNoPartOfASecretIsInADiffThatIsCut(t *testing.T) {
	h := wideHost(t)
	h.put("line", strings.Repeat("-", tools.MaxText-40)+wide+"\n")
	text := h.text("Edit", `{"path": "line", "old_text": "`+wide[5:]+`", "new_text": "+"}`)
	has(t, text, "(this is the beginning of the diff: it is longer)")
	showsNoPart(t, "Edit", text)
}

func TestNoPartOfASecretIsInOutputThatIsCut(t *testing.T) {
	h := wideHost(t)
	text := h.text("Bash", `{"command": "for i in $(seq 1 5000); do printf '%s,' $WIDE; done"}`)
	has(t, text, "left out")
	showsNoPart(t, "Bash", text)
}

func TestNoPartOfASecretIsInErrorsThatCutWhatTheyRepeat(t *testing.T) {
	h := wideHost(t)
	fill := strings.Repeat("-", 40)
	h.text("Bash", `{"command": "true `+fill+wide+`", "run_in_background": true}`)
	for _, c := range []struct{ tool, input string }{
		{"Read", `{"path": "` + strings.Repeat("-", 500) + wide + `"}`},
		{"Read", `{"path": ["` + fill + wide + `"]}`},
		{"Read", `{"path": "a", "limit": "` + fill + wide + `"}`},
		{"Read", `{"` + fill + wide + `": 1}`},
		{"Read", `"` + fill + wide + `"`},
		{fill + wide, `{}`},
		{"Grep", `{"pattern": "(` + fill + wide + `"}`},
		{"Glob", `{"pattern": "[` + fill + wide + `"}`},
		{"Bash", `{"command": "true", "cwd": "` + fill + wide + `"}`},
		{"BashOutput", `{"id": "` + fill + wide + `"}`},
		{"BashKill", `{"id": "none"}`},
	} {
		showsNoPart(t, c.tool, h.refused(c.tool, c.input))
	}
}

func TestNoPartOfASecretIsInOutputFromAnOffsetWithinIt(t *testing.T) {
	h := wideHost(t)
	id := execID.FindString(h.text("Bash", `{"command": "printf 'see %s here' $WIDE; while :; do sleep 1; done", "run_in_background": true}`))
	until(t, func() bool { return strings.Contains(h.text("BashOutput", `{"id": "`+id+`", "offset": 0}`), " here") })
	for _, offset := range []string{"5", "20", "100", "320"} {
		text := h.text("BashOutput", `{"id": "`+id+`", "offset": `+offset+`}`)
		has(t, text, "[REDACTED:WIDE] here")
		showsNoPart(t, "BashOutput", text)
	}
	h.text("BashKill", `{"id": "`+id+`"}`)
}

// Another session that goes on where this one was told to must not begin within
// what this one held back.
func TestOutputGoesOnBeforeWhatIsHeldBack(t *testing.T) {
	h := wideHost(t)
	id := execID.FindString(h.text("Bash", `{"command": "printf 'see %s' ${WIDE:0:20}; while [ ! -e go ]; do sleep 0.05; done; printf %s ${WIDE:20}", "run_in_background": true}`))
	until(t, func() bool {
		return h.text("BashOutput", `{"id": "`+id+`", "offset": 0}`) == "see \n(running; the output continues at offset 4)"
	})
	h.put("go", "")
	other := &host{Session: tools.New(h.sandbox, tools.Options{Secrets: map[string]secret.Provider{"WIDE": secret.Static(wide)}}, tools.Coding()...), t: t}
	until(t, func() bool {
		return strings.HasPrefix(other.text("BashOutput", `{"id": "`+id+`", "offset": 4}`), "[REDACTED:WIDE]\n(ended")
	})
}

func TestSecretsOfOneOutputAreFoundAlsoWhenTheOtherComesBetween(t *testing.T) {
	half := len(wide) / 2
	c := tools.Command{Name: "both", Path: "sh", Args: []string{"-c", `printf %s ` + "$A" + `; sleep 0.1; echo between >&2; sleep 0.1; printf %s ` + "$B"}, Env: []string{"A=" + wide[:half], "B=" + wide[half:]}}
	h := newHost(t, tools.Options{Secrets: map[string]secret.Provider{"WIDE": secret.Static(wide)}}, c)
	text := h.text("both", `{}`)
	has(t, text, "between\n", "[REDACTED:WIDE]")
	showsNoPart(t, "Command", text)
}
