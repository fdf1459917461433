package egress

import (
	"context"
	"strings"

	"github.com/podagent/podagent/pkg/tools/secret"
)

// Resolve returns the secret with the value that a provider fetches. What fetches secrets
// for the environment of commands can so fetch them for the way out.
func (s Secret) Resolve(ctx context.Context, from secret.Provider) (Secret, error) {
	set, err := secret.Resolve(ctx, map[string]secret.Provider{s.Name: from})
	if err != nil {
		return Secret{}, err
	}
	_, value, _ := strings.Cut(set.Env()[0], "=")
	s.Value = []byte(value)
	return s, nil
}

// CheckSecrets returns what is wrong with the secrets of a far end, so that this can be said before
// there is a sandbox. The error has no values.
func CheckSecrets(secrets []Secret) error {
	_, err := newSecretSet(secrets, nil)
	return err
}

// Provider returns a provider of the value. A session of package tools that has it among
// its Redact removes the value from all that a model reads, should it get there; the
// placeholder stays. [Server.Redact] is for both.
func (s Secret) Provider() secret.Provider { return secret.Static(string(s.Value)) }

// Redact returns providers of what a session of package tools, which has them as its Redact, removes
// from all that a model reads: each secret's value, by its name, and its placeholder, by its name and
// "_PLACEHOLDER". The model then sees [REDACTED:GH_TOKEN_PLACEHOLDER] where a program shows the
// placeholder, and can still use the variable or the file; it can't edit lines of files that have it.
func (s *Server) Redact() map[string]secret.Provider {
	all := map[string]secret.Provider{}
	for _, h := range s.secrets.list() {
		all[h.Name] = secret.Static(h.value())
	}
	for _, h := range s.secrets.list() {
		name := h.Name + "_PLACEHOLDER"
		for all[name] != nil { // another secret has this name
			name += "_"
		}
		all[name] = secret.Static(h.placeholder)
	}
	return all
}
