package main

import (
	"context"

	"k8s.io/client-go/kubernetes"

	"github.com/podagent/podagent/pkg/gateway"
)

func (o *gatewayFlags) tenants(ctx context.Context, a *app) (gateway.Tenants, error) {
	switch {
	case o.keys != "" && o.http.tokenFile != "":
		return nil, usagef("--keys and --token-file exclude each other: the tokens of the tenants are in the file of --keys")
	case o.accounts && o.keys == "":
		return nil, usagef("--service-accounts needs --keys: its file says which account is which tenant's")
	case o.audience == "":
		return nil, usagef("--audience is empty: tokens are for nobody then")
	case o.accounts:
		return o.serviceAccounts(ctx, a)
	case o.keys != "":
		return o.keyFile(a)
	}
	authorized, err := o.ssh.authorized(a)
	if err != nil {
		return nil, err
	}
	if o.http.tokenFile != "" {
		token, err := readToken(ctx, o.http.tokenFile)
		if err != nil {
			return nil, usageError{err}
		}
		if len(token) < tokenSize {
			return nil, usagef("the token in %s has %d bytes, and needs at least %d", o.http.tokenFile, len(token), tokenSize)
		}
		return gateway.OneTenant{Name: soleTenant, Token: token, Egress: o.soleEgress(), SSH: authorized}, nil
	}
	o.madeUp = o.e2b.token()
	return gateway.OneTenant{Name: soleTenant, Token: o.madeUp, Egress: o.soleEgress(), SSH: authorized}, nil
}

// keyFile returns the file of keys, without mistakes at the start.
func (o *gatewayFlags) keyFile(a *app) (*gateway.Keys, error) {
	keys := &gateway.Keys{Path: o.keys, Log: a.logger()}
	if err := keys.Load(); err != nil {
		return nil, usageError{err}
	}
	return keys, nil
}

// links returns the secrets that sign links, which other users must not know; nil for new ones.
func (o *gatewayFlags) links() (*gateway.LinkKeys, error) {
	if o.linkKeys == "" {
		return nil, nil
	}
	if err := checkPrivate("the signing key", o.linkKeys); err != nil {
		return nil, err
	}
	keys := &gateway.LinkKeys{Path: o.linkKeys}
	return keys, keys.Load()
}

// serviceAccounts lets the accounts of the cluster in, beside keys.
func (o *gatewayFlags) serviceAccounts(ctx context.Context, a *app) (gateway.Tenants, error) {
	if a.backend.Value == onThisHost {
		return nil, usagef("--service-accounts is not for the local backend, which has no cluster")
	}
	k, err := a.kubernetes()
	if err != nil {
		return nil, err
	}
	config, _, err := k.API(ctx)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	keys, err := o.keyFile(a)
	if err != nil {
		return nil, err
	}
	return &gateway.ServiceAccounts{Keys: keys, Client: client, Audience: o.audience}, nil
}
