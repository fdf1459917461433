package wire

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnvironmentComesBackAsItWas(t *testing.T) {
	for _, env := range [][]string{nil, {"A=1"}, {"A=", "B=$(A) $B\n\xff", "c.d=x=y"}} {
		got, err := ParseEnv(FormatEnv(env))
		if err != nil || !cmp.Equal(got, env) {
			t.Errorf("%q came back as %q, %v", env, got, err)
		}
	}
}

func TestInvalidEnvironment(t *testing.T) {
	for _, text := range []string{"A=1\x00B", "A=1", "=1\x00", "\x00", "A\x00"} {
		if env, err := ParseEnv(base64.StdEncoding.EncodeToString([]byte(text))); err == nil {
			t.Errorf("%q is %q", text, env)
		}
	}
	if _, err := ParseEnv("?"); err == nil {
		t.Error("text that is not base64 was accepted")
	}
}
