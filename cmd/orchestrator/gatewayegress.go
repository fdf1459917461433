package main

import (
	"errors"
	"net/netip"

	"github.com/podagent/podagent/pkg/launcher"
)

// privateRanges returns the ranges that no sandbox reaches unless a rule names an address in them.
func (o *gatewayFlags) privateRanges() (all []netip.Prefix, err error) {
	for _, text := range o.private {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, usagef("--egress-private %q is not a range of addresses, such as 10.96.0.0/12", text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// checkEgress says whether sandboxes can be let out as their tenants want it.
func (o *gatewayFlags) checkEgress(a *app) launcher.Finding {
	if _, err := o.privateRanges(); err != nil {
		return fails(err, "Give ranges such as 10.96.0.0/12.")
	}
	if o.keys == "" {
		return unchecked("without --keys no sandbox is let out")
	}
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
	if o.linkKeys == "" {
		return warns(errors.New("placeholders and CAs change when another gateway goes on"), "Give all gateways the same --link-key-file.")
	}
	return passes("the rules and the credentials can be used")
}
