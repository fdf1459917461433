package egress

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/podagent/podagent/pkg/egress/internal/authority"
	"github.com/podagent/podagent/pkg/egress/internal/trust"
)

// Secret is a credential that programs in a sandbox use, and never have. They get a
// placeholder. Where a request to one of the secret's hosts has it in a header, over TLS,
// the far end puts the value there. Printing a Secret, or a value that contains it, does
// not show the value.
type Secret struct {
	// Name is the name of the secret, a valid name of an environment variable of up to
	// 64 bytes.
	Name string
	// Env is the variable that has the placeholder in the environment of commands. Empty
	// means Name, unless there is a File.
	Env string
	// File is an absolute path in the sandbox. The placeholder becomes the content of this
	// file, which only the sandbox's user can read.
	File string
	// Prefix begins the placeholder, for programs that look at the form of a token: "ghp_",
	// "sk-ant-". It has up to 32 letters, digits, "_", "-" and ".". What follows are 36
	// letters and digits, as many as GitHub's tokens have.
	Prefix string
	// Value is the credential: 8 bytes to 16 KiB that a header may have. So it has no line
	// breaks, and neither begins nor ends with white space.
	Value []byte
	// Hosts are those that get the value, by the ports of the rule. A rule for every host
	// is refused. The policy must allow the hosts, too: this does not.
	Hosts []Rule
	// Headers, if not empty, are the names of the only headers that get the value. Without
	// them those get it that hosts neither store nor show as a rule: see docs/egress.md.
	Headers []string
}

// String returns the name of the secret.
func (s Secret) String() string { return "secret " + s.Name }

// Format prints what String returns, whatever the verb is.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// LogValue returns what String does.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns what String does, so that no encoding shows more.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

var (
	validName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	validPrefix = regexp.MustCompile(`^[A-Za-z0-9_.-]{0,32}$`)
)

// Check returns what is wrong with a secret by itself. No error has the value.
func (s Secret) Check() error {
	switch {
	case !validName.MatchString(s.Name):
		return errors.New("its name must be that of an environment variable, of up to 64 letters, digits and \"_\"")
	case s.Env != "" && !validName.MatchString(s.Env):
		return fmt.Errorf("%.80q cannot be the name of an environment variable", s.Env)
	case isTaken(s.variable()):
		return fmt.Errorf("the variable %s has another meaning to programs: choose another one, or a file", s.variable())
	case s.File != "" && (!path.IsAbs(s.File) || path.Clean(s.File) != s.File || s.File == "/"):
		return fmt.Errorf("its file %.200q is not an absolute path in its shortest form", s.File)
	case !validPrefix.MatchString(s.Prefix):
		return errors.New("its prefix may have up to 32 letters, digits, \"_\", \"-\" and \".\"")
	case len(s.Value) < minValue:
		return fmt.Errorf("its value is shorter than %d bytes, and so can be guessed", minValue)
	case len(s.Value) > maxValue:
		return fmt.Errorf("its value is longer than %d KiB, and so cannot be in a header", maxValue>>10)
	case !httpguts.ValidHeaderFieldValue(string(s.Value)):
		return errors.New("its value has a line break or another control character, which no header can have")
	case strings.Trim(string(s.Value), " \t") != string(s.Value):
		return errors.New("its value begins or ends with white space, which no header can have")
	case len(s.Hosts) == 0:
		return errors.New("it has no hosts")
	case slices.ContainsFunc(s.Hosts, func(r Rule) bool { return r.String() == "" }):
		return errors.New("one of its hosts is empty")
	case slices.ContainsFunc(s.Hosts, func(r Rule) bool { return r.form == anyHost }):
		return errors.New("it would go to every host: name those that may have it")
	case slices.ContainsFunc(s.Hosts, func(r Rule) bool { return r.form == hostSet }):
		return errors.New("a rule with a name is for no secret: name the hosts that may have it")
	}
	for _, name := range s.Headers {
		if !httpguts.ValidHeaderFieldName(name) || strings.EqualFold(name, "Host") {
			return fmt.Errorf("%.80q cannot be a header with a secret", name)
		}
	}
	return nil
}

// isTaken reports whether a variable says to programs, or to the way out itself, how to run or to connect.
func isTaken(name string) bool {
	upper := strings.ToUpper(name)
	for _, prefix := range []string{"LD_", "PODAGENT_", "GIT_CONFIG"} {
		if strings.HasPrefix(upper, prefix) {
			return true
		}
	}
	taken := slices.Concat(trust.Variables(), []string{
		"PATH", "HOME", "SHELL", "IFS", "ENV", "BASH_ENV", "TERM", "PWD", "TMPDIR",
		"NODE_OPTIONS", "NODE_USE_ENV_PROXY", "PYTHONPATH", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "RES_OPTIONS",
	})
	return slices.Contains(taken, upper)
}

// variable returns the variable that has the placeholder; "" if none has.
func (s Secret) variable() string {
	if s.Env == "" && s.File == "" {
		return s.Name
	}
	return s.Env
}

// placeholder returns the text that stands for the secret in a sandbox: the same in all
// replicas that have the seed, and nothing that code in another sandbox could know.
func (s Secret) placeholder(seed []byte) string {
	digits := hex.EncodeToString(authority.Derive(seed, "placeholder of "+s.Name, 18))
	if s.Prefix != "" {
		return s.Prefix + digits
	}
	return "podagent-secret-" + s.Name + "-" + digits[:32]
}
