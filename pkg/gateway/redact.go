package gateway

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// hiddenText is in place of what looks like a secret.
const hiddenText = "***"

// redacted returns what observers see: without what looks like a secret, readable, and bounded.
func (d Detail) redacted() Detail {
	left := detailLimit
	d.Args = redactArgs(d.Args, &left)
	d.Paths = redactTexts(d.Paths, &left)
	d.Method, d.ExecID = shown(d.Method), shown(d.ExecID)
	return d
}

// redactArgs hides also those arguments that follow a flag for a secret.
func redactArgs(args []string, left *int) []string {
	texts := slices.Clone(args[:min(len(args), textsLimit)])
	for i := range len(texts) - 1 {
		if isSecretFlag(texts[i]) || texts[i] == "-p" && takesPassword(args[0]) || texts[i] == "-u" && takesUser(args[0]) {
			texts[i+1] = hiddenText
		}
	}
	if len(args) > 0 && takesPassword(args[0]) {
		for i, text := range texts {
			if strings.HasPrefix(text, "-p") && len(text) > len("-p") {
				texts[i] = "-p" + hiddenText
			}
		}
	}
	return redactTexts(append(texts, args[len(texts):]...), left)
}

// redactTexts returns as many texts as there is room for.
func redactTexts(texts []string, left *int) (all []string) {
	for i, text := range texts {
		if i == textsLimit || *left <= 0 {
			return append(all, fmt.Sprintf("…(%d more)", len(texts)-i))
		}
		shown := redactText(text, min(textLimit, *left))
		*left -= max(len(shown), min(len(text), textLimit)) // what was looked at costs time, too
		all = append(all, shown)
	}
	return all
}

// redactText hides what looks like a secret in a text, and cuts it. It looks at more than is left, so
// that it knows a secret that the cut would go through.
func redactText(text string, limit int) string {
	kept, seen := text[:min(len(text), limit)], text[:min(len(text), limit+secretSpan)]
	var out strings.Builder
	at := 0 // as far as kept is written or hidden
	for i, span := range secretsIn(seen) {
		if span[0] >= len(kept) {
			break
		}
		if span[0] > at || i == 0 {
			out.WriteString(kept[at:span[0]] + hiddenText)
		}
		at = max(at, min(span[1], len(kept)))
	}
	out.WriteString(kept[at:])
	readable := readableText(out.String())
	if cut := len(text) - len(kept); cut > 0 {
		readable += fmt.Sprintf("…(%d bytes more)", cut)
	}
	return readable
}

// shown is for text that has no secrets. It keeps no more of it than it returns.
func shown(text string) string {
	return readableText(strings.Clone(text[:min(len(text), nameTextLimit)]))
}

// readableText escapes what is not UTF-8, and what would act on a terminal, as Go and C do.
func readableText(text string) string {
	if isPlain(text) || !strings.ContainsFunc(text, isUnreadable) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[i])
		case !isUnreadable(r):
			out.WriteString(text[i : i+size])
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		}
		i += size
	}
	return out.String()
}

// isPlain reports whether a text has nothing but what is printed of ASCII, as most have.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < ' ' || c > '~') && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// isUnreadable is true also for what stands for a byte that is not UTF-8.
func isUnreadable(r rune) bool {
	return r == utf8.RuneError || r != '\n' && r != '\t' && !strconv.IsPrint(r)
}

// secretName is what the names of flags, variables and fields for secrets have in them.
const secretName = `(?:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?|auth)`

var (
	secretFlag = regexp.MustCompile(`^--?[\w.-]*(?i:` + secretName + `)[\w.-]*$`)
	// noSecretFlag are flags of such names that have no secret after them: files and the like.
	noSecretFlag = regexp.MustCompile(`(?i)[-_](?:file|path|dir|stdin|url|type|ttl|name|id)$`)
	// quotedOr is the value of a secret in a script: a word, or a text in quotes, which may be cut off.
	// lineEnd is one in a text, or as programs and shells write it.
	lineEnd     = `(?:\\[nr]|\s)`
	quotedOr    = `(\\"[^"\\]*(?:\\")?|"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"'&;|<>(){},]+)`
	secretTexts = []secretText{
		// NAME=VALUE, name: value, "name": "value".
		{secretWords, regexp.MustCompile(`(?i)` + secretName + `[\w.-]*\\?["']?\s*[=:]\s*` + quotedOr)},
		// --name VALUE, as part of a script.
		{secretWords, regexp.MustCompile(`(?i)(?:^|\s)--?[\w.-]*` + secretName + `[\w.-]*\s+` + quotedOr)},
		// -p VALUE and -u USER:VALUE of the programs that take a password so.
		{[]string{"sshpass", "mysql", "mariadb"}, regexp.MustCompile(`\b(?:sshpass|mysql\w*|mariadb[\w-]*)\b[^\n;|&]*?\s-p\s?` + quotedOr)},
		{[]string{"curl", "wget", "http", "xh"}, regexp.MustCompile(`\b(?:curl|wget|http|https|xh)\b[^\n;|&]*?\s(?:-u|--user|--proxy-user|-a)[\s=]*` + quotedOr)},
		// Headers, to the end of the line or the quotes.
		{[]string{"authorization", "cookie", "x-"}, regexp.MustCompile(`(?i)\b(?:authorization|cookie|x-[\w-]*(?:key|token|auth)[\w-]*)\s*:\s*([^"'\n]+)`)},
		{[]string{"bearer", "basic"}, regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+([\w.~+/=-]{8,})`)},
		// https://USER:PASSWORD@HOST.
		{[]string{"://"}, regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://([^/\s@"'?#]+)@`)},
		// Tokens that are known by their form.
		{
			[]string{"gh", "glpat-", "akia", "asia", "xox", "eyj", "sk", "rk_", "aiza", "ya29.", "npm_", "hf_", "pypi-", "dckr_pat_", "podagent.token."},
			regexp.MustCompile(`\b(gh[a-z]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|xox[a-z]-[\w-]{8,}|eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?|sk-[\w-]{16,}|[rs]k_(?:live|test)_\w{8,}|AIza[\w-]{20,}|ya29\.[\w-]{8,}|npm_\w{16,}|hf_\w{16,}|pypi-[\w-]{16,}|dckr_pat_[\w-]{8,}|podagent\.token\.[\w-]+)`),
		},
		{[]string{"podagent_link="}, regexp.MustCompile(`podagent_link=([^\s&"']+)`)},
		{[]string{"private key"}, regexp.MustCompile(`(-----BEGIN [A-Z ]*PRIVATE KEY-----(?:` + lineEnd + `+[A-Za-z-]+: ?[A-Za-z0-9,-]+)*(?:` + lineEnd + `*[A-Za-z0-9+/=]{16,})*(?:` + lineEnd + `*[A-Za-z0-9+/=]{1,15})?(?:` + lineEnd + `*-----END [A-Z ]*PRIVATE KEY-----)?)`)},
	}
	// secretWords are what each secretName has one of.
	secretWords = []string{"passw", "passphrase", "pwd", "secret", "token", "key", "credential", "auth"}
)

// secretText finds secrets. Most texts have none, and no word that each has one of, in lower case.
type secretText struct {
	words []string
	text  *regexp.Regexp // its group is what is to be hidden
}

// secretsIn returns where there are secrets in a text, in order. They may overlap.
func secretsIn(text string) (spans [][]int) {
	words := allSecretWords.in(strings.ToLower(text))
	if words == 0 {
		return nil
	}
	for _, known := range secretTexts {
		if words&allSecretWords.set(known.words) == 0 {
			continue
		}
		for _, found := range known.text.FindAllStringSubmatchIndex(text, -1) {
			spans = append(spans, found[2:4])
		}
	}
	slices.SortFunc(spans, func(a, b []int) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	return spans
}

func isSecretFlag(arg string) bool {
	return len(arg) < nameTextLimit && secretFlag.MatchString(arg) && !noSecretFlag.MatchString(arg)
}

// takesPassword reports whether a program takes a password after -p, as others do a port or a path.
func takesPassword(program string) bool {
	name := path.Base(program)
	return name == "sshpass" || strings.HasPrefix(name, "mysql") || strings.HasPrefix(name, "mariadb")
}

// takesUser reports whether a program takes USER:PASSWORD after -u.
func takesUser(program string) bool {
	return slices.Contains([]string{"curl", "http", "https", "xh"}, path.Base(program))
}
