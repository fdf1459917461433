package wire

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// FormatEnv returns an environment, of texts NAME=VALUE, as the one text that
// PODAGENT_PROCESS_ENV takes: the base64 of the texts, each ended by a NUL. No
// program that starts an agent changes such a text.
func FormatEnv(env []string) string {
	var b strings.Builder
	for _, v := range env {
		b.WriteString(v)
		b.WriteByte(0)
	}
	return base64.StdEncoding.EncodeToString([]byte(b.String()))
}

// ParseEnv parses what [FormatEnv] returns. Anything else is an error.
func ParseEnv(s string) ([]string, error) {
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("cannot parse environment: %w", err)
	}
	var env []string
	for v := range strings.SplitAfterSeq(string(data), "\x00") {
		text, ended := strings.CutSuffix(v, "\x00")
		switch i := strings.IndexByte(text, '='); {
		case v == "":
			continue
		case !ended || i <= 0:
			return nil, fmt.Errorf("cannot parse environment: %q is not NAME=VALUE and a NUL", v)
		}
		env = append(env, text)
	}
	return env, nil
}
