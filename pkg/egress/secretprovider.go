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
// placeholder stays, since a model may need it.
func (s Secret) Provider() secret.Provider { return secret.Static(string(s.Value)) }
