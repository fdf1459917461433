package gateway

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/podagent/podagent/internal/reread"
	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
)

// secrets returns a tenant's credentials with their values. One that cannot be used is left out, and
// logged when that is new: the sandbox then has neither it nor its placeholder.
func (t *tenantEgress) secrets(ctx context.Context, g *Gateway, credentials []EgressCredential) (all []egress.Secret) {
	files, troubles := map[string]*reread.File{}, map[string]string{}
	for _, c := range credentials {
		files[c.ValueFile] = t.values[c.ValueFile]
		if files[c.ValueFile] == nil {
			files[c.ValueFile] = &reread.File{}
		}
		s, err := c.secret(files[c.ValueFile])
		if err == nil {
			all = append(all, s)
			continue
		}
		if troubles[c.Name] = err.Error(); t.troubles[c.Name] != err.Error() {
			g.Log.ErrorContext(ctx, "a credential cannot be used", "tenant", t.name, "credential", c.Name, "error", err)
		}
	}
	t.values, t.troubles = files, troubles
	return all
}

// secret returns a credential with its value.
func (c *EgressCredential) secret(file *reread.File) (egress.Secret, error) {
	value := c.Value
	if value == nil {
		data, _, err := file.Read(c.ValueFile, egressValueLimit, keyFileTime)
		if err != nil {
			return egress.Secret{}, err
		}
		value = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	}
	s := c.withValue(value)
	return s, s.Check()
}

func (c *EgressCredential) withValue(value []byte) egress.Secret {
	return egress.Secret{Name: c.Name, Env: c.Env, File: c.File, Prefix: c.Prefix, Hosts: c.Hosts, Headers: c.Headers, Value: value}
}

// CheckCredentials returns what is wrong with the credentials of the way out, with their values.
func (k *Keys) CheckCredentials() error {
	file, err := k.read()
	if err != nil {
		return err
	}
	var errs []error
	for _, tenant := range slices.Sorted(maps.Keys(file.policies)) {
		e := file.policies[tenant].Egress
		if e == nil {
			continue
		}
		for _, c := range e.Credentials {
			if _, err := c.secret(&reread.File{}); err != nil {
				errs = append(errs, fmt.Errorf("tenant %q: credential %q: %w", tenant, c.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// digestOfSecrets returns a text that other secrets do not have, and that tells nothing of them.
func digestOfSecrets(all []egress.Secret) string {
	h := sha256.New()
	for _, s := range all {
		for _, text := range []string{s.Name, s.Env, s.File, s.Prefix, fmt.Sprint(s.Hosts), fmt.Sprint(s.Headers), string(s.Value)} {
			sum := sha256.Sum256([]byte(text))
			h.Write(sum[:])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// egressPurpose keeps a seed from being good for anything else, and seedKeyPurpose the name of a key.
const (
	egressPurpose  = "podagent way out of a sandbox, version 1"
	seedKeyPurpose = "podagent key of ways out, version 1"
)

// egressSeed returns the seed of a sandbox's placeholders and CA: the same at all gateways that have the
// same keys of links, another for each sandbox, and also for its successor of the same name. It stays
// the same as long as the key is there that was the first when the sandbox was made.
func (g *Gateway) egressSeed(of launcher.Summary) ([]byte, error) {
	keys, err := g.LinkKeys.read()
	if err != nil {
		return nil, err
	}
	key, name := keys[len(keys)-1], of.Labels[labelSeedKey] // the oldest key changes least
	if at := slices.IndexFunc(keys, func(k []byte) bool { return nameOfSeedKey(k) == name }); at >= 0 {
		key = keys[at]
	} else if name != "" {
		g.Log.Warn("the placeholders and the CA of a sandbox change: the key of links with which it was made is not there any more", "sandbox", of.ID)
	}
	return hkdf.Key(sha256.New, key, identityOf(of), egressPurpose+"\x00"+of.ID, sha256.Size)
}

// nameOfSeedKey returns what tells a key from others, and nothing else of it.
func nameOfSeedKey(key []byte) string {
	name, err := hkdf.Key(sha256.New, key, nil, seedKeyPurpose, 16)
	if err != nil { // which only a length beyond its bounds is
		return ""
	}
	return hex.EncodeToString(name)
}

// withSeedKey adds to the labels of a new sandbox which key its seed is made of. While the keys cannot be
// read, there is no way out; the sandbox then gets that of another key.
func (g *Gateway) withSeedKey(labels map[string]string) map[string]string {
	if keys, err := g.LinkKeys.read(); err == nil {
		labels[labelSeedKey] = nameOfSeedKey(keys[0])
	}
	return labels
}
