package ignore

import "strings"

// configValue returns the last value that a file of git's configuration has for a key
// of a section without a subsection, both in lower case. It does not read on after a
// syntax error. The syntax is that of git-config(1).
func configValue(text, section, key string) (value string, found bool) {
	p := configParser{text: strings.TrimPrefix(text, utf8BOM)}
	for {
		name, val, ok := p.next()
		if !ok {
			return value, found
		}
		if p.section == section && name == key {
			value, found = val, true
		}
	}
}

type configParser struct {
	text    string
	section string
}

// next returns the next variable of p.section, its name in lower case.
func (p *configParser) next() (name, value string, ok bool) {
	for {
		p.text = strings.TrimLeft(p.text, " \t\r\n\v\f")
		switch {
		case p.text == "":
			return "", "", false
		case p.text[0] == '#' || p.text[0] == ';':
			_, p.text, _ = strings.Cut(p.text, "\n")
		case p.text[0] == '[':
			if !p.header() {
				return "", "", false
			}
		default:
			return p.variable()
		}
	}
}

// header reads "[section]" or `[section "name"]`, which is another section.
func (p *configParser) header() bool {
	end := strings.IndexAny(p.text, "]\"\n")
	if end < 0 || p.text[end] == '\n' {
		return false
	}
	p.section = strings.ToLower(strings.TrimRight(p.text[1:end], " \t"))
	if p.text[end] == ']' {
		p.text = p.text[end+1:]
		return true
	}
	for end++; end < len(p.text) && p.text[end] != '"'; end++ {
		switch p.text[end] {
		case '\n':
			return false
		case '\\':
			end++
		}
	}
	p.section += "\x00" // whatever its name
	var ok bool
	p.text, ok = strings.CutPrefix(p.text[min(end+1, len(p.text)):], "]")
	return ok
}

// variable reads "name = value", or a name alone, which is a boolean.
func (p *configParser) variable() (name, value string, ok bool) {
	n := 0
	for n < len(p.text) && (isAlpha(p.text[n]) || isDigit(p.text[n]) || p.text[n] == '-') {
		n++
	}
	name = strings.ToLower(p.text[:n])
	p.text = strings.TrimLeft(p.text[n:], " \t")
	if n == 0 {
		return "", "", false
	}
	if p.text == "" || p.text[0] == '\n' || strings.HasPrefix(p.text, "\r\n") {
		return name, "", true
	}
	if p.text[0] != '=' {
		return "", "", false
	}
	p.text = strings.TrimLeft(p.text[1:], " \t")
	value, ok = p.value()
	return name, value, ok
}

// value reads up to the end of a line.
func (p *configParser) value() (string, bool) {
	var b strings.Builder
	keep := 0 // blanks after it are not part of the value
	quoted := false
	for i := 0; ; i++ {
		if i == len(p.text) || p.text[i] == '\n' || strings.HasPrefix(p.text[i:], "\r\n") {
			p.text = p.text[i:]
			return b.String()[:keep], !quoted
		}
		switch c := p.text[i]; {
		case c == '"':
			quoted = !quoted
			keep = b.Len()
		case c == '\\':
			i++
			if strings.HasPrefix(p.text[i:], "\r\n") {
				i++
			}
			if !unescape(&b, p.text[i:]) {
				return "", false
			}
			keep = max(keep, b.Len())
		case !quoted && (c == '#' || c == ';'):
			_, rest, _ := strings.Cut(p.text[i:], "\n")
			p.text = rest
			return b.String()[:keep], true
		case !quoted && (c == ' ' || c == '\t'):
			b.WriteByte(c)
		default:
			b.WriteByte(c)
			keep = b.Len()
		}
	}
}

// unescape writes the character that a backslash in front of rest stands for.
func unescape(b *strings.Builder, rest string) bool {
	if rest == "" {
		return false
	}
	switch c := rest[0]; c {
	case '\n': // the value goes on in the next line
	case 't':
		b.WriteByte('\t')
	case 'n':
		b.WriteByte('\n')
	case 'b':
		b.WriteByte('\b')
	case '\\', '"':
		b.WriteByte(c)
	default:
		return false
	}
	return true
}
