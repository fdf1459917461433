package gateway

import "unicode/utf8"

// JSON has text alone, and what comes from a sandbox may be any bytes. So wherever it has X, it has
// X_base64 in its place if X is not UTF-8.

// split returns text if it is UTF-8, and otherwise its bytes, which JSON gets in base64.
func split(text string) (utf string, other []byte) {
	if utf8.ValidString(text) {
		return text, nil
	}
	return "", []byte(text)
}
