package main

import (
	"context"
	"errors"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// leaveToKeys forgets the settings that say what sandboxes reach, where the file of keys does: they are for
// those who serve by flags.
func (o *gatewayFlags) leaveToKeys() {
	if o.keys != "" && !o.egress.strict() {
		o.egress.rules, o.egress.given = nil, nil
	}
}

// checkOutward says what is wrong with the flags for the way out, and gets the values of the credentials.
func (o *gatewayFlags) checkOutward(ctx context.Context, a *app) error {
	if o.keys != "" && o.egress.asked() {
		return usagef("--allow-host and --credential are for a gateway with one tenant: with --keys, the file says what the sandboxes of each tenant reach")
	}
	if err := o.egress.check(ctx, a); err != nil {
		return err
	}
	if err := gateway.CheckPolicies(map[string]gateway.Policy{soleTenant: {Egress: o.soleEgress()}}); err != nil {
		return usageError{err}
	}
	return nil
}

// soleEgress returns what the sandboxes of the one tenant reach; nil if the flags let none out.
func (o *gatewayFlags) soleEgress() *gateway.Egress {
	if !o.egress.asked() {
		return nil
	}
	e := &gateway.Egress{Mode: wayout.Mode(o.egress.mode.Value), Require: o.egress.required(), AllowHosts: o.egress.policy().Allow}
	for _, s := range o.egress.secrets {
		e.Credentials = append(e.Credentials, gateway.EgressCredential{
			Name: s.Name, Env: s.Env, File: s.File, Prefix: s.Prefix, Hosts: s.Hosts, Headers: s.Headers, Value: s.Value,
		})
	}
	return e
}

// strictest returns what the sandbox of a check is made with: what the flags say of all, or what the tenant
// requires whose sandboxes must be kept in most.
func (o *gatewayFlags) strictest(a *app, all wayout.Config) wayout.Config {
	if o.keys == "" {
		return all
	}
	keys, err := o.keyFile(a)
	if err != nil {
		return all // which another check says
	}
	if level := keys.RequiredEgress(); level != wayout.Open && level.AtLeast(all.Require) {
		all.Mode, all.Require = wayout.Auto, level
	}
	return all
}

// checkEgress says whether sandboxes can be let out as their tenants want it.
func (o *gatewayFlags) checkEgress(ctx context.Context, a *app) launcher.Finding {
	if err := o.checkOutward(ctx, a); err != nil {
		return fails(err, "Mend the flags: see docs/egress.md.")
	}
	if o.keys == "" && !o.egress.asked() {
		return unchecked("without --keys, --allow-host and --credential no sandbox is let out")
	}
	if o.keys != "" {
		keys, err := o.keyFile(a)
		switch {
		case err != nil:
			return unchecked("the keys have mistakes")
		case !keys.HasEgress():
			return unchecked("no tenant has egress")
		}
		if err := keys.CheckCredentials(); err != nil {
			return fails(err, "Put each value into its file, which the gateways must be able to read: see docs/gateway.md, The way out. Sandboxes do without it meanwhile.")
		}
	}
	if o.linkKeys == "" {
		return warns(errors.New("placeholders and CAs change when another gateway goes on"), "Give all gateways the same --link-key-file.")
	}
	return passes("the rules and the credentials can be used")
}
